//! The lengths of recordings, for filters on `duration` where the shards have no such column.

use super::parts::{Length, Pass, Progress, lengths_key};
use crate::{
    engine::dataset::{Options, SourceOptions},
    error::{Error, Result},
    select::DurationSource,
    shard::Shard,
};
use gristmill_audio::AudioSpec;

/// The lengths of the recordings of some shards, by what windows are counted by.
#[derive(Debug)]
pub(crate) struct RecordingDurations<'a> {
    pass: Pass<'a>,
    column: &'a str,
    spec: &'a AudioSpec,
    has_files: bool,
}

impl<'a> RecordingDurations<'a> {
    pub(crate) fn new(
        shards: &'a [Shard],
        (options, source): (&'a Options, &SourceOptions),
        (column, spec): (&'a str, &'a AudioSpec),
        progress: &'a Progress,
    ) -> Self {
        let pass = Pass::new(shards, options, progress);
        Self { pass, column, spec, has_files: source.root.is_some() }
    }
}

impl DurationSource for RecordingDurations<'_> {
    fn key(&self) -> u64 {
        lengths_key(self.column, self.spec)
    }

    fn durations(&self) -> Result<Vec<Vec<Option<f64>>>> {
        if self.has_files {
            return Err(Error::config(
                "filters= asks for \"duration\", which the shards have no column of; lengths are \
                 known only of recordings in the shards, not of files under root=: write the \
                 recordings into the shards with gm.pack, or add a column",
            ));
        }
        let lengths = self.pass.lengths(self.column, self.spec)?;
        let duration = |length: &Length| Some(length.info()?.duration_s());
        Ok(lengths.iter().map(|of_shard| of_shard.iter().map(duration).collect()).collect())
    }
}
