//! What all threads of a stream refer to, and what passes through its queue.

use std::{
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::{
    batch::{Batch, Row},
    engine::{
        count::Progress,
        dataset::Dataset,
        join::join,
        row::{BatchTask, Context, RowTask, Slots},
        wait::ReadEvents,
        work::{CompleteBatch, Items, Queue, ReaderCount, SharedQueue},
    },
    memory::Lease,
};

/// The types of what passes through the queue of a stream.
#[derive(Debug)]
pub(crate) struct StreamItems;

impl Items for StreamItems {
    type Parked = ReadTask;
    // Boxed, so that little is copied under the lock.
    type Read = Box<RowTask>;
    type Row = Box<Row>;
    type Slot = Slots;
    type Lease = Vec<Lease>;
    type Batch = Batch;
}

/// Claimed rows that are being read.
#[derive(Debug)]
pub(crate) enum ReadTask {
    /// One row.
    Row(Box<RowTask>),
    /// A batch of rows without blobs.
    Batch(Box<BatchTask>),
}

/// The context of a stream, with its queue.
#[derive(Debug)]
pub(crate) struct StreamContext {
    pub(crate) context: Arc<Context>,
    pub(crate) queue: Arc<SharedQueue<StreamItems>>,
    pub(crate) reader_count: ReaderCount,
    pub(crate) progress: Progress,
    pub(crate) budget_notice: BudgetNotice,
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

    /// Joins the rows of a batch that is complete.
    pub(crate) fn finish(&self, dataset: &Dataset, mut complete: CompleteBatch<StreamItems>) {
        let rows = complete.take_rows().map(|rows| rows.into_iter().map(|row| *row).collect());
        let CompleteBatch { first, lease, reserved, .. } = complete;
        let (batch, other_bytes) = join(self, dataset, rows, lease, reserved);
        self.update(|queue| queue.finish_batch(first, batch, other_bytes));
    }
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

/// What is said once where the next batch alone takes more than the budget.
#[derive(Debug, Default)]
pub(crate) struct BudgetNotice(AtomicBool);

impl BudgetNotice {
    /// A tenth more is within what is promised.
    pub(crate) fn take(&self, budget: usize, peak: usize) -> Option<String> {
        let is_over = peak > budget.saturating_add(budget / 10);
        (is_over && !self.0.swap(true, Ordering::Relaxed)).then(|| {
            format!(
                "memory_budget={budget} is exceeded: the batches that the training loop keeps and \
                 the next one take more together. Raise it, or take smaller batches or fewer \
                 columns; it.stats().memory.peak_bytes says how much it was"
            )
        })
    }
}
