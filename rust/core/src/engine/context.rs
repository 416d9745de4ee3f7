//! What all stages of a stream refer to.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering},
};

use super::{dataset::Dataset, options::Options, queue::Queue, row::Flow, shell::Shell};
use crate::{memory::Account, metrics::Metrics, store::Store};

/// A stream's options, its data, its queue, and its part of what the process has.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) options: Options,
    /// Set once the shards are open.
    pub(super) dataset: OnceLock<Dataset>,
    pub(super) queue: Arc<Shell<Flow>>,
    pub(super) account: Arc<Account>,
    pub(super) store: Arc<Store>,
    pub(super) metrics: Metrics,
    pub(super) closed: Arc<AtomicBool>,
}

impl Context {
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Changes the queue, wakes those who can go on, and measures readers that cannot.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Queue<Flow>) -> T) -> T {
        let n_readers = self.options.n_readers();
        self.queue.with_idle(&self.metrics.idle, n_readers, change)
    }
}
