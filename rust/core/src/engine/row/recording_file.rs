//! Rows whose recordings are files of their own: the audio column holds a path and no bytes.

use std::{path::Path, sync::Arc};

use arrow_array::{Array, ArrayRef, cast::AsArray};

use super::replace::PathColumn;
use crate::{
    batch::{SizeLimit, Value, value},
    engine::runtime::Runtime,
    error::{Error, ErrorKind, Result},
    memory::{Account, Buffer, Permit},
    shard::{Projection, Table},
    store::{MAX_PATH_BYTES, RangeReader, RefusedPath, Root, Store, is_of_path, path_text},
};
use gristmill_audio::{Limits, Reason};

/// The place of the recordings' paths in the tables, and the folder that they count from.
#[derive(Debug)]
pub(crate) struct RecordingFiles {
    /// The index of the audio column among the tables' columns.
    pub(crate) column: usize,
    pub(crate) root: Root,
}

impl RecordingFiles {
    /// Those of the audio column `name` in `root`; `None` without one of them.
    ///
    /// # Errors
    ///
    /// Where `root` is no folder.
    pub(crate) fn find(
        root: Option<&Path>,
        name: Option<&String>,
        projection: &Projection,
    ) -> Result<Option<Self>> {
        let (Some(root), Some(name)) = (root, name) else { return Ok(None) };
        let small = projection.small_schema();
        let column = small.fields().iter().position(|field| field.name() == name);
        column.map(|column| Ok(Self { column, root: open_root(root)? })).transpose()
    }

    /// The file of a row; `None` where the row has no path either.
    ///
    /// # Errors
    ///
    /// The outer one is that of the storage, the inner one is about the row.
    pub(crate) fn of_row(
        &self,
        store: &Arc<Store>,
        table: &Table,
        table_row: usize,
    ) -> Result<Option<Result<RangeReader, Reason>>> {
        let audio = table.columns.columns().get(self.column);
        match audio.map(|audio| path_or_too_long(audio, table_row)) {
            None | Some(Ok(None)) => Ok(None),
            Some(Ok(Some(path))) => open(store, &self.root, &path).map(Some),
            Some(Err(TooLong)) => {
                let why = "the row's path is longer than that of any file";
                Ok(Some(Err(Reason::file("invalid_path", why))))
            }
        }
    }
}

/// A path that is longer than any file's.
struct TooLong;

/// The path of a row in an audio column, or in one of paths; `None` where it is null or empty.
fn path_or_too_long(audio: &ArrayRef, row: usize) -> Result<Option<String>, TooLong> {
    if row >= audio.len() || audio.is_null(row) {
        return Ok(None);
    }
    let path = match audio.as_struct_opt() {
        Some(audio) => audio.column_by_name(PathColumn::NAME),
        None => Some(audio),
    };
    let Some(path) = path else { return Ok(None) };
    match value(path, row, &SizeLimit::new(MAX_PATH_BYTES)) {
        Ok(Value::Text(path)) if !path.is_empty() => Ok(Some(path)),
        Ok(_) => Ok(None),
        Err(_) => Err(TooLong),
    }
}

/// The path of a row, as [`path_or_too_long`]; `None` too where it is too long.
pub(crate) fn path_in(audio: &ArrayRef, row: usize) -> Option<String> {
    path_or_too_long(audio, row).ok().flatten()
}

/// Looks a recording's file up. As [`RecordingFiles::of_row`].
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
        Ok(Err(RefusedPath::Invalid)) => refused("invalid_path", "no file can be called so"),
        Ok(Err(RefusedPath::Outside)) => {
            let folder = path_text(root.folder());
            refused("outside_root", &format!("it lies outside of the folder root={folder:?}"))
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
/// As [`RecordingFiles::of_row`].
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
    pub fn open(root: Option<&Path>, retries: u32, runtime: &Runtime) -> Result<Self> {
        let store = Arc::new(Store::new(runtime.descriptors()).with_retries(retries));
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

fn open_root(root: &Path) -> Result<Root> {
    Root::open(root).map_err(|error| Error::from(error).in_shard(&path_text(root)))
}

/// The reason where a row has a path and nothing says where that leads.
pub(crate) fn without_root(path: &str) -> Reason {
    Reason::file(
        "null",
        format!(
            "the audio is null, and the row has the path {:?}: give the folder of the recordings, \
             gm.Audio(root=\"...\") or --root, or exclude the row",
            shown(path)
        ),
    )
}

fn key_of(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::NotFound => "missing_file",
        _ => "unreadable_file",
    }
}

/// A path for a message: rows may hold anything.
fn shown(path: &str) -> String {
    let mut shown: String = path.chars().take(200).collect();
    if shown.len() < path.len() {
        shown.push_str("...");
    }
    shown
}
