//! Joining the rows of a batch.

use super::{dataset::Dataset, row::Context};
use crate::{
    batch::{AudioSlots, Batch, Reservation, Row, assemble},
    error::Result,
    memory::{Lease, Permit},
};

/// The batch of these rows, or the error of the first that failed; and the bytes that the batch
/// takes besides its slots.
pub(crate) fn join(
    context: &Context,
    dataset: &Dataset,
    rows: Result<Vec<Row>>,
    lease: Lease,
    reserved: Option<Permit>,
) -> (Result<Batch>, usize) {
    let Context { options, account, metrics, .. } = context;
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
