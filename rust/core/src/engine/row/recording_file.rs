//! Rows whose recordings are files of their own: the audio column holds a path and no bytes.

use std::{path::Path, sync::Arc};

use crate::{
    engine::dataset::{RecordingFiles, open_root, shown, without_root},
    error::{Error, ErrorKind, Result},
    memory::{Account, Buffer, Permit},
    shard::Table,
    store::{DescriptorCache, RangeReader, RefusedPath, Root, Store, is_of_path, path_text},
};
use gristmill_audio::{Limits, Reason};

/// The file of a row; `None` where the row has no path either.
///
/// # Errors
///
/// The outer one is that of the storage, the inner one is about the row.
pub(crate) fn find(
    files: &RecordingFiles,
    store: &Arc<Store>,
    table: &Table,
    table_row: usize,
) -> Result<Option<Result<RangeReader, Reason>>> {
    match files.path_of(table, table_row) {
        Ok(None) => Ok(None),
        Ok(Some(path)) => open(store, &files.root, &path).map(Some),
        Err(reason) => Ok(Some(Err(reason))),
    }
}

/// Looks a recording's file up. As [`find`].
fn open(store: &Arc<Store>, root: &Root, path: &str) -> Result<Result<RangeReader, Reason>> {
    let refused = |key: &'static str, what: &str| {
        let why = format!("the row's recording is the file {:?}: {what}", shown(path));
        Ok(Err(Reason::file(key, why)))
    };
    match store.find(root, path).and_then(|found| match found {
        Ok(found) => RangeReader::new(store, &found).map(Ok),
        Err(refused) => Ok(Err(refused)),
    }) {
        Ok(Ok(file)) => Ok(Ok(file)),
        Ok(Err(RefusedPath::Invalid)) => refused("invalid_path", "no file can have this name"),
        Ok(Err(RefusedPath::Outside)) => {
            let folder = path_text(root.folder());
            refused("outside_root", &format!("it is outside of the folder root={folder:?}"))
        }
        Err(error) => match error.kind() {
            ErrorKind::Io(cause) if is_of_path(cause) => {
                let folder = path_text(root.folder());
                refused(key_of(cause), &format!("{cause}; it counts from root={folder:?}"))
            }
            _ => Err(error),
        },
    }
}

/// Reads a whole file into memory of `own`.
///
/// # Errors
///
/// As [`find`].
pub(crate) fn read(
    file: &RangeReader,
    account: &Arc<Account>,
    own: &mut Permit,
) -> Result<Result<Buffer, Reason>> {
    let n_bytes = usize::try_from(file.len())
        .map_err(|_| Error::limit("the recording is larger than the address space"))?;
    let mut bytes = account.buffer(n_bytes, own.split(n_bytes))?;
    let read = file.read_exact_at(0, bytes.as_bytes_mut());
    Ok(of_row(file, read)?.map(|()| bytes))
}

/// What of reading a file is the row's own fault.
fn of_row(file: &RangeReader, read: Result<()>) -> Result<Result<(), Reason>> {
    match read {
        Ok(()) => Ok(Ok(())),
        Err(error) => match error.kind() {
            ErrorKind::Corrupt(what) => {
                let why = format!("the row's recording is the file {}: {what}", file.name());
                Ok(Err(Reason::file("changed_file", why)))
            }
            ErrorKind::Io(cause) if is_of_path(cause) => {
                let why = format!("the row's recording is the file {}: {cause}", file.name());
                Ok(Err(Reason::file(key_of(cause), why)))
            }
            _ => Err(error),
        },
    }
}

/// Reads the files that rows name one by one, for tools that look at rows by themselves.
#[derive(Debug)]
pub struct Recordings {
    store: Arc<Store>,
    root: Option<Root>,
}

impl Recordings {
    /// Those in this folder; without one no row's path leads anywhere.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] where there is no such folder.
    pub fn open(root: Option<&Path>, retries: u32, descriptors: &DescriptorCache) -> Result<Self> {
        let store = Arc::new(Store::new(descriptors).with_retries(retries));
        Ok(Self { store, root: root.map(open_root).transpose()? })
    }

    /// The bytes of the file that a row's path names. Blocks for the storage.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Decode`] where there is no path, or it leads to no file that can be used, or to
    /// one that is larger than the limit; [`ErrorKind::Io`] where the storage fails.
    pub fn read(&self, path: Option<&str>, limits: &Limits) -> Result<Vec<u8>> {
        let path = path.filter(|path| !path.is_empty()).ok_or(Reason::Null.of_unknown())?;
        let root = self.root.as_ref().ok_or_else(|| without_root(path).of_unknown())?;
        let file = open(&self.store, root, path)?.map_err(Reason::of_unknown)?;
        limits.check_bytes(file.len()).map_err(Reason::of_unknown)?;
        let mut bytes = Vec::new();
        let read = file.read_range(0..file.len(), &mut bytes);
        of_row(&file, read)?.map_err(Reason::of_unknown)?;
        Ok(bytes)
    }
}

fn key_of(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::NotFound => "missing_file",
        _ => "unreadable_file",
    }
}
