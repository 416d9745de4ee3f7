//! Files behind URLs, read by ranges.
//!
//! A [`RemoteFiles`] is how one [`Store`](super::Store) reaches them. Requests run on a runtime that
//! all stores of a process share ([`Connections`]); the thread that asks for bytes waits for them.
//! Nothing here repeats a request: an error says whether that may help, and how long the server
//! wants to be left alone ([`RequestError`]).

mod connections;
mod content_range;
mod failure;
mod http;
mod location;

use std::{
    io,
    path::Path,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

pub(crate) use self::location::{base_name, identity};
pub(super) use self::{connections::Connections, failure::RequestError};
pub use self::{
    failure::errno_of,
    location::{is_remote, shown_path},
};

use self::{connections::Patience, http::HttpFile};
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
}

/// One file behind a URL, of which no connection is kept.
#[derive(Debug)]
struct RemoteFile {
    files: RemoteFiles,
    file: HttpFile,
    version: FileVersion,
    /// Another version, once one was seen.
    changed: OnceLock<FileVersion>,
}

impl RemoteFiles {
    /// Waits for `request`; `None` where the time is over.
    fn wait<T>(&self, request: impl Future<Output = io::Result<T>>) -> io::Result<Option<T>> {
        let patience = Patience { timeout: TIMEOUT, is_cancelled: || self.cancel.load(Relaxed) };
        self.connections.wait(&patience, request)
    }

    fn http_file(&self, path: &Path) -> io::Result<HttpFile> {
        HttpFile::new(path, self.connections.client()?)
    }
}

impl Backend for RemoteFiles {
    fn version(&self, path: &Path) -> io::Result<FileVersion> {
        let file = self.http_file(path)?;
        self.wait(file.version())?.ok_or_else(failure::timed_out)
    }

    /// Makes no request: each reads by itself.
    fn open(&self, path: &Path, version: &FileVersion) -> io::Result<Box<dyn ReadAt>> {
        let file = self.http_file(path)?;
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
            Ok(Some(())) if done == wanted || done >= MIN_PROGRESS => Ok(done),
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
