//! Joining the rows of a batch.

use super::{dataset::Dataset, row::Context};
use crate::{
    batch::{AudioSlots, Batch, Reservation, Row, assemble},
    error::Result,
    memory::{Lease, Permit},
};

/// The batch of these rows, whose slots have these leases, or the error of the first that failed; and the
/// bytes that the batch takes besides its slots.
pub(crate) fn join(
    context: &Context,
    dataset: &Dataset,
    rows: Result<Vec<Row>>,
    leases: Vec<Lease>,
    reserved: Option<Permit>,
) -> (Result<Batch>, usize) {
    let Context { options, account, metrics, .. } = context;
    let reservation = Reservation::new(reserved.unwrap_or_else(|| account.take(0)));
    let mut leases = leases.into_iter();
    let audio = dataset.first_source().audio.iter().map(|column| AudioSlots {
        blob: column.blob,
        shape: column.shape.as_deref().unwrap_or_default(),
        sample_type: column.spec.sample_type,
        lease: leases.next().unwrap_or_default(),
    });
    let audio = audio.collect();
    let how = (options.batch_size.is_none(), options.column_limit());
    let batch = metrics.assemble.time(|| {
        rows.and_then(|rows| {
            assemble(rows, &dataset.layout, &dataset.shards, audio, &reservation, how)
        })
    });
    (batch, reservation.taken())
}
