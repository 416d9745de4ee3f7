//! Where a stream is taken up, and whether what was saved there belongs to this data.

use super::dataset::Dataset;
use crate::{
    error::{Error, Result},
    order::Fingerprint,
};

/// Where in the stream to start.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// The epoch, from 0.
    pub epoch: u64,
    /// Rows of that epoch that were delivered already, by all hosts and workers together.
    pub next_index: u64,
    /// The fingerprint that the data set must have; `None` for any.
    pub fingerprint: Option<Fingerprint>,
    /// Whether to go on with other data all the same, at the same place of the same epoch.
    pub allow_changed: bool,
}

impl Start {
    /// The next row to deliver here, and the position in the stream, as epoch and rows of it.
    pub(super) fn find(
        &self,
        dataset: &mut Dataset,
        rows_per_batch: u64,
    ) -> Result<(u64, (u64, u64))> {
        let Self { mut epoch, mut next_index, fingerprint, allow_changed } = *self;
        let order = &mut dataset.order;
        let difference = fingerprint.and_then(|saved| dataset.fingerprint.difference(&saved));
        match difference {
            Some(_) if allow_changed => (epoch, next_index) = order.nearest(epoch, next_index),
            Some(difference) => {
                return Err(Error::config(format!(
                    "the state belongs to another data set: {difference}; restore it into the \
                     data set that it was saved from, start afresh without it, or go on at the \
                     same place of the changed data with allow_changed=True"
                )));
            }
            None => {}
        }
        // An index that was counted in batches takes the last one for a full one.
        let slack = match fingerprint {
            None => rows_per_batch.saturating_mul(order.stride()),
            Some(_) => 0,
        };
        Ok((order.resume_at(epoch, next_index, slack)?, (epoch, next_index)))
    }
}
