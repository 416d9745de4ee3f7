//! From the rows of a batch to the batch.

use std::sync::Arc;

use super::{context::Context, dataset::Dataset, queue::Complete, row::Flow};
use crate::{
    batch::{Audio, Batch, Row, Space, assemble},
    error::Result,
    memory::{Lease, Permit},
};

/// Joins the rows of batches.
#[derive(Debug)]
pub(super) struct Assembler {
    pub(super) context: Arc<Context>,
}

impl Assembler {
    /// Joins the rows of a batch, whose last one was just filed.
    pub(super) fn finish(&self, dataset: &Dataset, complete: Complete<Flow>) {
        let Complete { first, rows, rest, reserved } = complete;
        let (batch, other_bytes) = self.join(dataset, rows, rest, reserved);
        self.context.change(|queue| queue.finish(first, batch, other_bytes));
    }

    /// The rows as a batch, or the first one's error, and what it takes besides its slots.
    pub(super) fn join(
        &self,
        dataset: &Dataset,
        rows: Result<Vec<Row>>,
        slots: Lease,
        reserved: Option<Permit>,
    ) -> (Result<Batch>, usize) {
        let Context { options, account, metrics, .. } = &*self.context;
        let space = Space::new(reserved.unwrap_or_else(|| account.take(0)));
        let shape = dataset.slot_shape.as_deref().unwrap_or_default();
        let audio = Audio { shape, sample_type: dataset.sample_type(), slots };
        let how = (options.batch_size.is_none(), options.column_limit());
        let batch = metrics.assemble.time(|| {
            rows.and_then(|rows| {
                assemble(rows, &dataset.layout, &dataset.shards, audio, &space, how)
            })
        });
        (batch, space.taken())
    }
}
