//! What lies behind a URL: the files of a folder, and small files as a whole.

use std::{
    io::{self, ErrorKind},
    sync::Arc,
    time::Duration,
};

use super::{
    Connections, Environment, StorageOptions,
    connections::Patience,
    failure::{self, StoreKind},
    hub, location, object,
};
use crate::{
    Error, ErrorKind as CoreErrorKind, Result,
    store::{DescriptorCache, RangeReader, Store, retry::Retry},
};

/// A listing takes a request for 1,000 files, one after the other.
const TIMEOUT: Duration = Duration::from_secs(600);

/// More files than a data set has.
const MAX_FILES: usize = 1_000_000;

/// Files that say which others there are have some kilobytes.
const MAX_READ_BYTES: u64 = 64 << 20;

/// What lies in a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// Paths in the bucket or the data set, in their order.
    pub files: Vec<String>,
    /// Likewise; none where all below the folder was listed.
    pub folders: Vec<String>,
}

/// Lists a folder of a bucket or a data set of the Hub, or all below it. Blocks for a request for each
/// 1,000 files, or until `is_cancelled`. After a transient error it begins anew, up to `retries` times.
///
/// # Errors
///
/// [`CoreErrorKind::Io`] as for reading; where there are more than a million files; and for servers,
/// which cannot be asked.
pub fn list(
    descriptors: &DescriptorCache,
    folder: &str,
    options: &StorageOptions,
    is_recursive: bool,
    retries: u32,
    is_cancelled: impl Fn() -> bool,
) -> Result<Listed> {
    let connections = descriptors.connections();
    let patience = Patience { timeout: TIMEOUT, is_cancelled: &is_cancelled };
    let named = |e: Error| e.in_shard(&location::shown_path(folder.as_ref()));
    let mut listed = repeated(retries, &is_cancelled, || {
        find(connections, folder, options, is_recursive, &patience)
    })
    .map_err(named)?;
    if listed.files.len() > MAX_FILES {
        let why =
            format!("there are more than {MAX_FILES} files below this folder; name one in it");
        return Err(named(failure::permanent(ErrorKind::InvalidInput, why).into()));
    }
    listed.files.sort_unstable();
    listed.folders.sort_unstable();
    Ok(listed)
}

/// Attempts it again after transient errors.
fn repeated<T>(
    retries: u32,
    is_cancelled: impl Fn() -> bool,
    mut attempt: impl FnMut() -> io::Result<T>,
) -> Result<T> {
    let mut retry = Retry::new(retries, is_cancelled, |_| ());
    loop {
        match attempt() {
            Ok(done) => return Ok(done),
            Err(error) => retry.after(error.into())?,
        }
    }
}

fn find(
    connections: &Connections,
    folder: &str,
    options: &StorageOptions,
    is_recursive: bool,
    patience: &Patience<impl Fn() -> bool>,
) -> io::Result<Listed> {
    let environment = &Environment::now();
    let found = match location::kind_of(folder.as_ref()) {
        Some(StoreKind::Hub) => {
            let client = connections.client(options, environment)?;
            let files = hub::list(folder, options, &client, is_recursive, MAX_FILES);
            connections.wait(patience, files)?
        }
        Some(kind @ (StoreKind::S3 | StoreKind::Gcs | StoreKind::Azure)) => {
            let (bucket, key) = location::bucket_and_key(folder)
                .ok_or_else(|| failure::invalid_url("it has no bucket"))?;
            let key = object::key(key)?;
            let store = connections.store(kind, bucket, options, environment)?;
            let files = object::list(store.as_ref(), &key, is_recursive, MAX_FILES);
            connections.wait(patience, files)?
        }
        Some(StoreKind::Http) | None => {
            let why = "a server cannot be asked which files it has";
            return Err(failure::permanent(ErrorKind::Unsupported, why));
        }
    };
    let too_long = || {
        let why = "listing it took more than ten minutes; name a folder with fewer files";
        failure::permanent(ErrorKind::TimedOut, why)
    };
    let (files, folders) = found.ok_or_else(too_long)?;
    Ok(Listed { files, folders })
}

/// A small file as a whole. Blocks for a request or two, and for retries.
///
/// # Errors
///
/// As for reading a shard; [`CoreErrorKind::Limit`] where it has more than 64 MiB.
pub fn read(
    descriptors: &DescriptorCache,
    path: &str,
    options: &StorageOptions,
    retries: u32,
) -> Result<Vec<u8>> {
    if location::kind_of(path.as_ref()) == Some(StoreKind::Hub) {
        let connections = descriptors.connections();
        let patience = Patience { timeout: TIMEOUT, is_cancelled: || false };
        let read = repeated(
            retries,
            || false,
            || {
                let client = connections.client(options, &Environment::now())?;
                let file = hub::read(path, options, &client, MAX_READ_BYTES as usize);
                connections.wait(&patience, file)?.ok_or_else(failure::timed_out)
            },
        );
        return read.map_err(|e| e.in_shard(&location::shown_path(path.as_ref())));
    }
    let store = Store::new(descriptors).with_retries(retries);
    let store = Arc::new(store.with_storage_options([(path.into(), options.clone())]));
    let file = RangeReader::new(&store, path.as_ref())?;
    if file.len() > MAX_READ_BYTES {
        let limit = CoreErrorKind::Limit("the file has more than 64 MiB".to_owned());
        return Err(Error::new(limit).in_shard(file.name()));
    }
    let mut bytes = Vec::new();
    file.read_range(0..file.len(), &mut bytes)?;
    Ok(bytes)
}
