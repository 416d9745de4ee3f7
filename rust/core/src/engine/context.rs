//! What all parts of a stream, or of random access, refer to.

use std::{
    fmt,
    ops::Deref,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{
    audio_index::AudioIndexes, dataset::Dataset, options::Options, part_counts::Progress,
    queue::Queue, reader_count::ReaderCount, row_task::StreamItems, shared_queue::SharedQueue,
};
use crate::{memory::Account, metrics::Metrics, store::Store};

/// The options, the data set, and a share of the process's resources.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) options: Options,
    /// Set once the shards are open.
    pub(super) dataset: OnceLock<Dataset>,
    pub(super) account: Arc<Account>,
    pub(super) store: Arc<Store>,
    pub(super) metrics: Metrics,
    pub(super) reader_count: ReaderCount,
    pub(super) audio_index: AudioIndexes,
    pub(super) progress: Progress,
    pub(super) closed: Arc<AtomicBool>,
    pub(super) budget_notice: BudgetNotice,
}

impl Context {
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// That recordings are resampled to the rate of the features, if they are; once.
    pub(super) fn take_rate_notice(&self) -> Option<String> {
        self.dataset.get()?.rate_notice.take(self.metrics.resample.count() > 0)
    }

    /// That rows took more than the budget, if they did; once.
    pub(super) fn take_budget_notice(&self) -> Option<String> {
        self.budget_notice.take(self.options.memory_budget, self.account.peak())
    }
}

/// What is said once where the next batch alone takes more than the budget.
#[derive(Debug, Default)]
pub(super) struct BudgetNotice(AtomicBool);

impl BudgetNotice {
    /// A tenth more is within what is promised.
    fn take(&self, budget: usize, peak: usize) -> Option<String> {
        let is_over = peak > budget.saturating_add(budget / 10);
        (is_over && !self.0.swap(true, Ordering::Relaxed)).then(|| {
            format!(
                "memory_budget={budget} is exceeded: what the training loop holds and the next batch \
                 take more together. Raise it, or take smaller batches or fewer columns; \
                 it.stats().memory.peak_bytes says how much it was"
            )
        })
    }
}

/// The context of a stream, with its queue.
#[derive(Debug)]
pub(super) struct StreamContext {
    pub(super) context: Arc<Context>,
    pub(super) queue: Arc<SharedQueue<StreamItems>>,
}

impl Deref for StreamContext {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.context
    }
}

impl StreamContext {
    /// Changes the queue, wakes those that can go on, and times idle readers.
    pub(super) fn update<T>(&self, change: impl FnOnce(&mut Queue<StreamItems>) -> T) -> T {
        self.queue.update_timed(&self.metrics.idle, self.reader_count.get(), change)
    }
}

/// Who is told what happens while rows are read: rows may wait for it.
pub(super) trait ReadEvents: fmt::Debug + Send + Sync {
    /// The number of loads of tables and blocks that have ended, well or not.
    fn n_loads(&self) -> u64;

    /// One more has ended.
    fn load_ended(&self);

    /// The requests of an urgent row were sent.
    fn requested(&self, index: u64);
}

impl ReadEvents for StreamContext {
    fn n_loads(&self) -> u64 {
        self.queue.read(Queue::n_loads)
    }

    fn load_ended(&self) {
        self.update(Queue::load_ended);
    }

    fn requested(&self, index: u64) {
        self.update(|queue| queue.requested(index));
    }
}
