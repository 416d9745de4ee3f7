//! From the granules of one link to the frames of the whole recording.

use std::ops::Range;

use crate::{limits::MAX_CHANNELS, report::Ledger, sink::Sink};

/// Where the frames of one link of a chain go. Time in it is in granules.
pub(super) struct LinkSink<'a, 'b> {
    pub(super) sink: &'a mut Sink<'b>,
    pub(super) first: u64,
    pub(super) played: Range<u64>,
}

impl<'a, 'b> LinkSink<'a, 'b> {
    /// For the only stream of a file.
    pub(super) fn new(sink: &'a mut Sink<'b>, played: Range<u64>) -> Self {
        Self { sink, first: 0, played }
    }
}

impl LinkSink<'_, '_> {
    /// Whether damage is counted instead of ending in an error.
    pub(super) fn is_lenient(&self) -> bool {
        self.sink.is_lenient()
    }

    /// The damage that was met while decoding.
    pub(super) fn ledger(&mut self) -> &mut Ledger {
        self.sink.ledger()
    }

    /// The granule of the next frame that is missing.
    pub(super) fn next(&self) -> u64 {
        self.sink.next().saturating_sub(self.first) + self.played.start
    }

    /// Whether nothing more of this link is needed.
    pub(super) fn is_full(&self) -> bool {
        self.sink.is_full() || self.next() >= self.played.end
    }

    /// Takes the frames from `granule` on, up to the end of the link.
    pub(super) fn push<P: AsRef<[f32]>>(&mut self, granule: i64, planes: &[P]) {
        let n_left = (self.played.end as i64).saturating_sub(granule).max(0) as usize;
        let mut slices = [&[][..]; MAX_CHANNELS as usize];
        for (slice, plane) in slices.iter_mut().zip(planes) {
            let plane = plane.as_ref();
            *slice = plane.get(..n_left).unwrap_or(plane);
        }
        let slices = slices.get(..planes.len()).unwrap_or_default();
        self.sink.push(granule - self.played.start as i64 + self.first as i64, slices);
    }
}
