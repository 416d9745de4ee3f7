//! Where a stream is resumed, and whether the state belongs to this data set.

use super::opened::Dataset;
use crate::{
    error::{Error, Result},
    order::Fingerprint,
};

/// Where to start in the stream.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// The epoch, from 0.
    pub epoch: u64,
    /// Rows of that epoch that all hosts and workers together have delivered already.
    pub next_index: u64,
    /// The fingerprint that the data set must have; `None` for any.
    pub fingerprint: Option<Fingerprint>,
    /// Whether to go on with another data set, at the same index of the same epoch.
    pub allow_changed: bool,
}

impl Start {
    /// Resumes the order of `dataset`. Returns the number of the next row to deliver here, and the
    /// position of the stream, as (epoch, index).
    pub(crate) fn resume(
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
                     data set that it was saved from, start over without it, or resume at the \
                     same position of the changed data with allow_changed=True"
                )));
            }
            None => {}
        }
        // An index without a fingerprint was counted in batches, which counts a short last batch as a
        // full one.
        let slack = match fingerprint {
            None => rows_per_batch.saturating_mul(order.stride()),
            Some(_) => 0,
        };
        Ok((order.resume_at(epoch, next_index, slack)?, (epoch, next_index)))
    }
}
