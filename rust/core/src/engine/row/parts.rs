//! Rows of which those bytes alone are read that their crop needs, as the audio index of the shard tells
//! them.

use std::ops::Range;

use super::{
    reader::RowReader,
    spec::RowSpec,
    task::{Attempt, Parts, RawBlob},
};
use crate::{
    engine::{
        cache::{Known, Recording},
        dataset::Dataset,
    },
    error::{Error, Result},
    memory::Permit,
    shard::{Shard, Table},
};
use gristmill_audio::PartPlan;

/// How a recording is read.
#[derive(Debug)]
pub(crate) enum Found {
    /// Whole. `learns` is where it begins in the shard, if it was not looked at before; `is_unknown` tells
    /// whether a part might do, if it were known.
    Whole { learns: Option<u64>, is_unknown: bool },
    /// These parts of it.
    Parts(Box<PartPlan>),
}

impl Found {
    /// Whole, and nothing else will do.
    pub(crate) const WHOLE: Self = Self::Whole { learns: None, is_unknown: false };
}

impl RowReader {
    /// Whether the recording in this range of a shard may be read in parts.
    pub(crate) fn may_have_parts(&self, shard: u32, range: &Range<u64>) -> bool {
        self.context.audio_index.may_have_parts(shard, range)
    }

    /// How the recording in this range of its shard is read.
    pub(crate) fn find_recording(
        &self,
        dataset: &Dataset,
        attempt: &Attempt,
        row: (&Table, usize),
        range: &Range<u64>,
    ) -> Found {
        let shard = attempt.step.row.shard;
        let Some((_, spec)) = dataset.source(shard).audio.as_ref().filter(|_| !attempt.is_whole)
        else {
            return Found::WHOLE;
        };
        let index = &self.context.audio_index;
        match index.find(shard, range) {
            Known::Hidden => Found::Whole { learns: None, is_unknown: true },
            Known::Nothing => Found::WHOLE,
            Known::Unseen => Found::Whole { learns: Some(range.start), is_unknown: true },
            Known::Entry(entry) => {
                // What is wrong with the row is told when it is decoded.
                let of_row = RowSpec::new(dataset, spec, attempt.step, row).ok();
                let plan = of_row.and_then(|row| index.plan(&entry, row.spec(spec), row.draw));
                plan.map_or(Found::WHOLE, |plan| Found::Parts(Box::new(plan)))
            }
        }
    }

    /// Reads what is planned of the recording in the range `whole` of its shard.
    pub(crate) fn read_parts(
        &self,
        (dataset, shard, index): (&Dataset, &Shard, u64),
        plan: PartPlan,
        whole: &Range<u64>,
        own: &mut Option<Permit>,
    ) -> Result<Box<Parts>> {
        let at = |offset: u64| whole.start.saturating_add(offset).min(whole.end);
        let ranges = plan.ranges().iter().map(|range| at(range.start)..at(range.end));
        let ranges: Vec<Range<u64>> = ranges.collect();
        if ranges.len() > 1 {
            // All at once, and not one after the other.
            for range in &ranges {
                shard.readahead(range);
            }
        }
        self.announce(dataset, shard, index, &ranges);
        let bytes = ranges.iter().map(|range| self.read_range(shard, range, own));
        let bytes = bytes.collect::<Result<_>>()?;
        Ok(Box::new(Parts { plan, bytes, start: whole.start }))
    }

    /// Copies what is planned out of a recording that is in memory for its windows, and begins at
    /// `start` in its shard.
    pub(crate) fn copy_parts(
        &self,
        plan: PartPlan,
        recording: &Recording,
        start: u64,
        own: &mut Permit,
    ) -> Result<RawBlob> {
        let account = &self.context.account;
        let copy = |range: &Range<u64>| {
            let part = recording.as_slice().get(range.start as usize..range.end as usize);
            let part = part.ok_or_else(|| Error::internal("a part lies outside its recording"))?;
            let mut bytes = account.buffer(part.len(), own.split(part.len()))?;
            bytes.as_bytes_mut().copy_from_slice(part);
            Ok(bytes)
        };
        let bytes = plan.ranges().iter().map(copy).collect::<Result<_>>()?;
        Ok(RawBlob::Parts(Box::new(Parts { plan, bytes, start })))
    }
}
