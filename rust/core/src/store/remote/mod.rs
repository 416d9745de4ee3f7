//! Files behind URLs, read by ranges.
//!
//! A [`RemoteFiles`] is how one [`Store`](super::Store) reaches them. Requests run on a runtime that
//! all stores of a process share ([`Connections`]); the thread that asks for bytes waits for them.
//! Nothing here repeats a request: an error says whether that may help, and how long the server
//! wants to be left alone ([`RequestError`]).

mod answer;
mod connections;
mod content_range;
mod environment;
mod failure;
mod http;
mod hub;
mod list;
mod location;
mod object;
mod options;
mod pages;
mod redirects;

use std::{
    io,
    ops::Range,
    path::Path,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

pub(crate) use self::location::{base_name, has_query, identity};
pub(super) use self::{connections::Connections, environment::Environment, failure::RequestError};
pub use self::{
    failure::errno_of,
    list::{Listed, list, read},
    location::{is_remote, shown_path},
    options::StorageOptions,
};

use self::{
    answer::Answer, connections::Patience, failure::StoreKind, http::HttpFile, object::ObjectFile,
};
use super::backend::{Backend, FileVersion, ReadAt};

/// A request that takes longer is given up: 4 MiB at 140 KB/s.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A request that ends early has got on where it brought this much; with less it has failed.
const MIN_PROGRESS: usize = 64 << 10;

/// What the files of one store have in common.
#[derive(Clone, Debug)]
pub(super) struct RemoteFiles {
    pub(super) connections: Connections,
    pub(super) cancel: Arc<AtomicBool>,
    pub(super) options: StorageOptions,
    pub(super) environment: Environment,
}

/// One file, by what answers for it.
#[derive(Debug)]
enum AnyFile {
    Http(HttpFile),
    Object(ObjectFile),
}

impl AnyFile {
    /// The version of the file, by a request for its first byte: not every server answers `HEAD`, and
    /// a URL may be signed for `GET` alone.
    async fn version(&self) -> io::Result<FileVersion> {
        let mut answer = self.get(0..1).await?;
        // The connection can be used again once the answer is read.
        answer.fill(&mut [0], &mut 0).await?;
        Ok(answer.version)
    }

    /// Asks for a range that is not empty. The answer begins where it does.
    async fn get(&self, range: Range<u64>) -> io::Result<Answer> {
        match self {
            Self::Http(file) => file.get(range).await,
            Self::Object(file) => file.get(range).await,
        }
    }
}

/// One file behind a URL, of which no connection is kept.
#[derive(Debug)]
struct RemoteFile {
    files: RemoteFiles,
    file: AnyFile,
    version: FileVersion,
    /// Another version, once one was seen.
    changed: OnceLock<FileVersion>,
}

impl RemoteFiles {
    /// Waits for `request`; `None` where the time is over.
    fn wait<T>(&self, request: impl Future<Output = io::Result<T>>) -> io::Result<Option<T>> {
        let timeout = self.options.time("timeout").unwrap_or(TIMEOUT);
        let patience = Patience { timeout, is_cancelled: || self.cancel.load(Relaxed) };
        self.connections.wait(&patience, request)
    }

    fn file(&self, path: &Path) -> io::Result<AnyFile> {
        let Self { connections, options, environment, .. } = self;
        let kind = location::kind_of(path).unwrap_or(StoreKind::Http);
        if matches!(kind, StoreKind::Http | StoreKind::Hub) {
            let client = connections.client(options, environment)?;
            return HttpFile::new(path, kind, options, client).map(AnyFile::Http);
        }
        let (bucket, key) = path
            .to_str()
            .and_then(location::bucket_and_key)
            .ok_or_else(|| failure::invalid_url("it has no bucket"))?;
        let key = object::key(key)?;
        let store = connections.store(kind, bucket, options, environment)?;
        Ok(AnyFile::Object(ObjectFile { store, key }))
    }
}

impl Backend for RemoteFiles {
    fn version(&self, path: &Path) -> io::Result<FileVersion> {
        let file = self.file(path)?;
        self.wait(file.version())?.ok_or_else(failure::timed_out)
    }

    /// Makes no request: each reads by itself.
    fn open(&self, path: &Path, version: &FileVersion) -> io::Result<Box<dyn ReadAt>> {
        let file = self.file(path)?;
        let (files, version) = (self.clone(), *version);
        Ok(Box::new(RemoteFile { files, file, version, changed: OnceLock::new() }))
    }
}

impl ReadAt for RemoteFile {
    fn version(&self) -> io::Result<FileVersion> {
        Ok(*self.changed.get().unwrap_or(&self.version))
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let end = self.version.len.min(offset.saturating_add(buf.len() as u64));
        let wanted = end.saturating_sub(offset) as usize;
        let Some(buf) = buf.get_mut(..wanted).filter(|buf| !buf.is_empty()) else { return Ok(0) };
        let mut done = 0;
        let read = self.files.wait(async {
            let mut answer = self.file.get(offset..end).await?;
            if answer.version != self.version {
                // None of its bytes are taken.
                let _ = self.changed.set(answer.version);
                return Ok(());
            }
            answer.fill(buf, &mut done).await
        });
        match read {
            // All that the answer said it has: a server may send less at a time than is asked for.
            Ok(Some(())) if done > 0 => Ok(done),
            Ok(Some(())) if self.changed.get().is_some() => Ok(0),
            Ok(Some(())) => Err(failure::cut_short()),
            // The rest is asked for by itself.
            Ok(None) | Err(_) if done >= MIN_PROGRESS => Ok(done),
            Ok(None) => Err(failure::timed_out()),
            Err(error) => Err(error),
        }
    }

    fn readahead(&self, _: u64, _: usize) {}

    fn drop_cached(&self, _: u64, _: usize) {}
}
