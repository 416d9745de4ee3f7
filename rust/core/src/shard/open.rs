//! Opening many shards at once.

use std::{
    any::Any,
    panic::{self, AssertUnwindSafe},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use super::{Files, Shard, schema};
use crate::{Error, ErrorKind, Result, threads};

/// Opens shards on up to `n_threads` threads, and checks that they have one schema.
///
/// Waiting for storage, not computing, is what takes the time, so that more threads than CPUs are
/// worthwhile.
///
/// # Errors
///
/// That of the first path, in the order given, that does not open, however the threads ran; then
/// `Schema` for the first shard whose columns differ from the first shard's in name, type or
/// nullability.
pub fn open_all(files: &Arc<Files>, paths: &[PathBuf], n_threads: usize) -> Result<Vec<Shard>> {
    let mut opened: Vec<Option<Result<Shard>>> = paths.iter().map(|_| None).collect();
    let first_failed = AtomicUsize::new(usize::MAX);
    let jobs = paths.iter().zip(&mut opened).enumerate().collect();
    threads::share_out("gristmill-open", jobs, n_threads, |(number, (path, slot))| {
        // What comes before a failure is opened all the same: the first one is told.
        if number < first_failed.load(Relaxed) {
            let open = AssertUnwindSafe(|| Shard::open(files, path));
            let shard = panic::catch_unwind(open).unwrap_or_else(|panic| Err(panicked(&*panic)));
            if shard.is_err() {
                first_failed.fetch_min(number, Relaxed);
            }
            *slot = Some(shard);
        }
    });
    let shards: Vec<Shard> = opened.into_iter().flatten().collect::<Result<_>>()?;
    check_schemas(&shards)?;
    Ok(shards)
}

/// Opens the files of these shards on up to `n_threads` threads, in this order, so that reads need
/// not wait for that. What goes wrong, those reads tell.
pub fn open_ahead(shards: Vec<&Shard>, n_threads: usize) {
    threads::share_out("gristmill-open", shards, n_threads, Shard::open_ahead);
}

fn panicked(payload: &(dyn Any + Send)) -> Error {
    Error::new(ErrorKind::WorkerPanicked(threads::panic_message(payload)))
}

fn check_schemas(shards: &[Shard]) -> Result<()> {
    let Some((first, others)) = shards.split_first() else { return Ok(()) };
    for other in others {
        let (a, b) = (first.schema().fields(), other.schema().fields());
        if let Some((column, what)) = schema::first_difference(a, b) {
            let reason = format!(
                "{} and {} differ: {what}; give shards of one schema",
                first.name(),
                other.name()
            );
            return Err(Error::schema(column, reason));
        }
    }
    Ok(())
}
