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
    cache::AudioIndexes,
    count::Progress,
    dataset::{Dataset, Options},
    row::StreamItems,
    work::{Queue, ReaderCount, SharedQueue},
};
use crate::{memory::Account, metrics::Metrics, store::Store};

/// The options, the data set, and a share of the process's resources.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) options: Options,
    /// Set once the shards are open.
    pub(crate) dataset: OnceLock<Dataset>,
    pub(crate) account: Arc<Account>,
    pub(crate) store: Arc<Store>,
    pub(crate) metrics: Metrics,
    pub(crate) reader_count: ReaderCount,
    pub(crate) audio_index: AudioIndexes,
    pub(crate) progress: Progress,
    pub(crate) closed: Arc<AtomicBool>,
    pub(crate) budget_notice: BudgetNotice,
}

impl Context {
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// That recordings are resampled to the rate of the features, if they are; once.
    pub(crate) fn take_rate_notice(&self) -> Option<String> {
        self.dataset.get()?.rate_notice.take(self.metrics.resample.count() > 0)
    }

    /// That rows took more than the budget, if they did; once.
    pub(crate) fn take_budget_notice(&self) -> Option<String> {
        self.budget_notice.take(self.options.memory_budget, self.account.peak())
    }
}

/// What is said once where the next batch alone takes more than the budget.
#[derive(Debug, Default)]
pub(crate) struct BudgetNotice(AtomicBool);

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
pub(crate) struct StreamContext {
    pub(crate) context: Arc<Context>,
    pub(crate) queue: Arc<SharedQueue<StreamItems>>,
}

impl Deref for StreamContext {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.context
    }
}

impl StreamContext {
    /// Changes the queue, wakes those that can go on, and times idle readers.
    pub(crate) fn update<T>(&self, change: impl FnOnce(&mut Queue<StreamItems>) -> T) -> T {
        self.queue.update_timed(&self.metrics.idle, self.reader_count.get(), change)
    }
}

/// Who is told what happens while rows are read: rows may wait for it.
pub(crate) trait ReadEvents: fmt::Debug + Send + Sync {
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
