//! What all parts of a stream refer to.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering},
};

use super::{
    dataset::Dataset, options::Options, queue::Queue, row_task::StreamItems,
    shared_queue::SharedQueue,
};
use crate::{memory::Account, metrics::Metrics, store::Store};

/// A stream's options, data set and queue, and its share of the process's resources.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) options: Options,
    /// Set once the shards are open.
    pub(super) dataset: OnceLock<Dataset>,
    pub(super) queue: Arc<SharedQueue<StreamItems>>,
    pub(super) account: Arc<Account>,
    pub(super) store: Arc<Store>,
    pub(super) metrics: Metrics,
    pub(super) closed: Arc<AtomicBool>,
}

impl Context {
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Changes the queue, wakes those that can go on, and times idle readers.
    pub(super) fn update<T>(&self, change: impl FnOnce(&mut Queue<StreamItems>) -> T) -> T {
        let n_readers = self.options.n_readers();
        self.queue.update_timed(&self.metrics.idle, n_readers, change)
    }
}
