//! Opening many shards at once.

use std::{
    panic::{self, AssertUnwindSafe},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use super::{IndexDir, Labels, Shard, joint::Joint};
use crate::{Error, ErrorKind, Result, store::Store, threads};

/// Opens shards on up to `n_threads` threads, and joins their schemas: from then on, all of them have
/// the columns that all of them have, by name, each of a type that holds the values of all, and class
/// ids are those of all classes, or `labels` refuses them.
///
/// Nearly all of the time is spent waiting for storage, so more threads than CPUs are worthwhile.
///
/// # Errors
///
/// That of the first path, in the order given, that does not open, however the threads ran. Columns
/// that cannot be joined are refused by [`Shard::check_column`].
pub fn open_all(
    store: &Arc<Store>,
    index_dir: &IndexDir,
    paths: &[PathBuf],
    n_threads: usize,
    labels: Labels,
) -> Result<Vec<Shard>> {
    let mut opened: Vec<Option<Result<Shard>>> = paths.iter().map(|_| None).collect();
    let first_failed = AtomicUsize::new(usize::MAX);
    let jobs = paths.iter().zip(&mut opened).enumerate().collect();
    threads::parallel_for_each("gristmill-open", jobs, n_threads, |(number, (path, slot))| {
        // Paths before a failed one are still opened, so that the first error is returned.
        if number < first_failed.load(Relaxed) {
            let open = AssertUnwindSafe(|| Shard::open(store, index_dir, path));
            let shard = panic::catch_unwind(open).unwrap_or_else(|payload| {
                let message = threads::panic_message(&*payload);
                Err(Error::new(ErrorKind::WorkerPanicked(message)))
            });
            if shard.is_err() {
                first_failed.fetch_min(number, Relaxed);
            }
            *slot = Some(shard);
        }
    });
    let mut shards: Vec<Shard> = opened.into_iter().flatten().collect::<Result<_>>()?;
    let own: Vec<_> = shards.iter().map(|shard| (shard.name(), shard.own_schema())).collect();
    if let Some((joint, new_ids)) = Joint::new(&own, labels) {
        let joint = Arc::new(joint);
        for (shard, new_ids) in shards.iter_mut().zip(new_ids) {
            shard.join(&joint, new_ids);
        }
    }
    Ok(shards)
}

/// Opens the files of these shards on up to `n_threads` threads, in this order, so that reads do not
/// have to. Errors are left to those reads.
pub fn open_files(shards: Vec<&Shard>, n_threads: usize) {
    threads::parallel_for_each("gristmill-open", shards, n_threads, Shard::open_file);
}
