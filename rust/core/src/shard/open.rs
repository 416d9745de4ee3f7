//! Opening many shards at once.

use std::{
    any::Any,
    panic::{self, AssertUnwindSafe},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    thread,
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
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let work = || {
        let mut opened = Vec::new();
        // Paths are handed out in order: whatever comes before a failure has been tried.
        while !failed.load(Relaxed) {
            let number = next.fetch_add(1, Relaxed);
            let Some(path) = paths.get(number) else { break };
            let open = AssertUnwindSafe(|| Shard::open(files, path));
            let shard = panic::catch_unwind(open).unwrap_or_else(|panic| Err(panicked(&*panic)));
            failed.fetch_or(shard.is_err(), Relaxed);
            opened.push((number, shard));
        }
        opened
    };
    let n_threads = n_threads.clamp(1, paths.len().max(1));
    let mut opened = Vec::with_capacity(paths.len());
    thread::scope(|scope| {
        // This thread works too, so that a thread that cannot start costs time and nothing else.
        let others: Vec<_> = (1..n_threads)
            .map_while(|n| threads::spawn_scoped(scope, format!("gristmill-open-{n}"), work).ok())
            .collect();
        opened.extend(work());
        for other in others {
            opened.extend(other.join().unwrap_or_else(|panic| vec![(0, Err(panicked(&*panic)))]));
        }
    });
    opened.sort_by_key(|(number, _)| *number);
    let shards: Vec<Shard> = opened.into_iter().map(|(_, shard)| shard).collect::<Result<_>>()?;
    check_schemas(&shards)?;
    Ok(shards)
}

/// Opens the files of these shards on up to `n_threads` threads, in this order, so that reads need
/// not wait for that. What goes wrong, those reads tell.
pub fn open_ahead(shards: &[&Shard], n_threads: usize) {
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(shard) = shards.get(next.fetch_add(1, Relaxed)) {
            shard.open_ahead();
        }
    };
    thread::scope(|scope| {
        for n in 1..n_threads.min(shards.len()) {
            if threads::spawn_scoped(scope, format!("gristmill-open-{n}"), work).is_err() {
                break;
            }
        }
        work();
    });
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
