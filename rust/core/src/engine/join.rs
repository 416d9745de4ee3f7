//! Joining the rows of a batch.

use std::sync::Arc;

use super::{
    context::{Context, StreamContext},
    dataset::Dataset,
    row::StreamItems,
    work::CompleteBatch,
};
use crate::{
    batch::{AudioSlots, Batch, Reservation, Row, assemble},
    error::Result,
    memory::{Lease, Permit},
};

/// Joins the rows of batches.
#[derive(Debug)]
pub(crate) struct Assembler {
    pub(crate) context: Arc<StreamContext>,
}

impl Assembler {
    /// Joins the rows of a batch that is complete.
    pub(crate) fn finish(&self, dataset: &Dataset, mut complete: CompleteBatch<StreamItems>) {
        let rows = complete.take_rows().map(|rows| rows.into_iter().map(|row| *row).collect());
        let CompleteBatch { first, lease, reserved, .. } = complete;
        let (batch, other_bytes) = self.context.join(dataset, rows, lease, reserved);
        self.context.update(|queue| queue.finish_batch(first, batch, other_bytes));
    }
}

impl Context {
    /// The batch of these rows, or the error of the first that failed; and the bytes that the batch
    /// takes besides its slots.
    pub(crate) fn join(
        &self,
        dataset: &Dataset,
        rows: Result<Vec<Row>>,
        lease: Lease,
        reserved: Option<Permit>,
    ) -> (Result<Batch>, usize) {
        let Self { options, account, metrics, .. } = self;
        let reservation = Reservation::new(reserved.unwrap_or_else(|| account.take(0)));
        let shape = dataset.slot_shape.as_deref().unwrap_or_default();
        let audio = AudioSlots { shape, sample_type: dataset.sample_type(), lease };
        let how = (options.batch_size.is_none(), options.column_limit());
        let batch = metrics.assemble.time(|| {
            rows.and_then(|rows| {
                assemble(rows, &dataset.layout, &dataset.shards, audio, &reservation, how)
            })
        });
        (batch, reservation.taken())
    }
}
