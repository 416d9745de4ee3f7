//! Where decoded frames go: into their place by number, mixed to the wanted channels on the way.

use super::{
    error::Reason,
    report::{Damage, Ledger},
    spec::{Channels, Picked, Strict},
};

/// How the channels of a file become those that are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mix {
    /// `(c0 + c1 + ...) * (1 / n)`, in this order, in `f32`.
    Mean,
    /// The first channels, as many as there are planes.
    Take,
    /// One channel into all planes.
    Spread,
    /// These channels.
    Pick(Picked),
    /// None is kept: there are no planes. Samples that are not finite are counted.
    Discard,
}

impl Mix {
    /// The mix and the number of planes for a file of `found` channels.
    pub(super) fn choose(wanted: Channels, found: u16) -> Result<(Self, u16), Reason> {
        match wanted {
            Channels::Mono if found == 1 => Ok((Self::Take, 1)),
            Channels::Mono => Ok((Self::Mean, 1)),
            Channels::Keep => Ok((Self::Take, found)),
            Channels::Exact(wanted) if wanted <= found => Ok((Self::Take, wanted)),
            Channels::Exact(wanted) if found == 1 => Ok((Self::Spread, wanted)),
            Channels::Exact(wanted) => Err(Reason::TooFewChannels { found, wanted }),
            Channels::Picked(picked) => {
                let last = picked.places().iter().copied().max().unwrap_or_default();
                if last >= found {
                    let wanted = last.saturating_add(1);
                    return Err(Reason::TooFewChannels { found, wanted });
                }
                Ok((Self::Pick(picked), picked.places().len() as u16))
            }
        }
    }
}

/// A sample as decoders hand it over.
pub(super) trait Sample: Copy {
    /// Whether all values are numbers.
    const IS_FINITE: bool;

    fn to_f32(self) -> f32;

    /// Whether it is neither NaN nor infinite.
    fn is_finite(self) -> bool {
        true
    }
}

impl Sample for f32 {
    const IS_FINITE: bool = false;

    fn to_f32(self) -> f32 {
        self
    }

    fn is_finite(self) -> bool {
        Self::is_finite(self)
    }
}

/// Full scale is 2^31, whatever the bits of the file.
impl Sample for i32 {
    const IS_FINITE: bool = true;

    fn to_f32(self) -> f32 {
        self as f32 * (1.0 / 2_147_483_648.0)
    }
}

/// Takes frames in order of time and keeps those of its window.
///
/// Plane `c` begins at `c * stride` of the buffer; frame `first` of the recording comes first.
#[derive(Debug)]
pub(super) struct Sink<'a> {
    planes: &'a mut [f32],
    stride: usize,
    mix: Mix,
    first: u64,
    len: usize,
    filled: usize,
    gap: bool,
    /// Frames among the filled ones that nothing came for.
    n_missing: usize,
    /// Where the last of their stretches ends.
    gap_end: Option<usize>,
    /// Samples that were NaN or infinite, where none are kept.
    n_non_finite: u64,
    /// Whether all samples that were kept are numbers.
    is_finite: bool,
    ledger: Ledger,
}

impl<'a> Sink<'a> {
    /// A sink for `len` frames from frame `first` on, into `planes` that begin `stride` apart.
    pub(super) fn new(
        planes: &'a mut [f32],
        stride: usize,
        mix: Mix,
        first: u64,
        len: usize,
    ) -> Self {
        let ledger = Ledger::default();
        let (gap, gap_end) = (false, None);
        let (filled, n_missing, n_non_finite) = (0, 0, 0);
        Self {
            planes,
            stride,
            mix,
            first,
            len,
            filled,
            gap,
            n_missing,
            gap_end,
            n_non_finite,
            is_finite: true,
            ledger,
        }
    }

    /// A sink that keeps nothing of `len` frames from frame `first` on: memory for none of them.
    pub(super) fn discarding(first: u64, len: usize) -> Self {
        Self::new(&mut [], 0, Mix::Discard, first, len)
    }

    /// Samples that were NaN or infinite, of a sink that discards.
    pub(super) fn n_non_finite(&self) -> u64 {
        self.n_non_finite
    }

    /// Whether all samples that were kept are numbers: neither NaN nor infinite.
    pub(super) fn is_finite(&self) -> bool {
        self.is_finite
    }

    /// The same, for which these findings are errors. If none are, zeros stand for frames that do not
    /// come.
    pub(super) fn with(self, strict: Strict) -> Self {
        Self { ledger: Ledger::new(strict), ..self }
    }

    /// Whether damage is counted instead of ending in an error.
    pub(super) fn is_lenient(&self) -> bool {
        self.ledger.is_lenient()
    }

    /// The damage that was met while decoding.
    pub(super) fn ledger(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    /// Meets damage: an error, or a count.
    pub(super) fn lose(
        &mut self,
        damage: Damage,
        count: u64,
        reason: Reason,
    ) -> Result<(), Reason> {
        self.ledger.lose(damage, count, reason)
    }

    /// Counts packets that did not decode, if there are any.
    pub(super) fn note_corrupt(&mut self, count: u64) -> Result<(), Reason> {
        match count {
            0 => Ok(()),
            _ => self.lose(Damage::CorruptPackets, count, Reason::CorruptPackets { count }),
        }
    }

    /// Frames that came.
    pub(super) fn n_decoded(&self) -> u64 {
        (self.filled - self.n_missing) as u64
    }

    /// Fills up with zeros.
    pub(super) fn fill_rest(&mut self) {
        self.skip(self.len - self.filled);
    }

    /// Zeros for the next `n_frames`.
    fn skip(&mut self, n_frames: usize) {
        if n_frames == 0 {
            return;
        }
        let range = self.filled..self.filled + n_frames;
        for plane in self.planes.chunks_mut(self.stride.max(1)) {
            plane.get_mut(range.clone()).unwrap_or_default().fill(0.0);
        }
        self.filled += n_frames;
        self.n_missing += n_frames;
        if self.gap_end != Some(range.start) {
            self.ledger.mark(Damage::Gaps, 1);
        }
        self.gap_end = Some(self.filled);
    }

    /// The next frame that is missing.
    pub(super) fn next(&self) -> u64 {
        self.first + self.filled as u64
    }

    /// Whether the window is full.
    pub(super) fn is_full(&self) -> bool {
        self.filled == self.len
    }

    /// Whether frames were left out between others.
    pub(super) fn has_gap(&self) -> bool {
        self.gap
    }

    /// Forgets what came so far.
    pub(super) fn restart(&mut self) {
        (self.filled, self.n_missing, self.n_non_finite) = (0, 0, 0);
        (self.gap, self.gap_end, self.is_finite) = (false, None, true);
        self.ledger = self.ledger.anew();
    }

    /// Takes the frames from `pts` on, one slice a channel; frames outside the window are
    /// dropped. `pts` below 0 is encoder delay.
    pub(super) fn push<S: Sample>(&mut self, pts: i64, channels: &[&[S]]) {
        let n_frames = channels.first().map_or(0, |c| c.len());
        let next = self.next() as i64;
        let end = pts.saturating_add(n_frames as i64);
        if end <= next || self.is_full() {
            return;
        }
        let mut next = next;
        if pts > next {
            self.gap = true;
            if !self.is_lenient() {
                return;
            }
            let n_missing = u64::try_from(pts - next).unwrap_or_default();
            self.skip((self.len - self.filled).min(n_missing as usize));
            if self.is_full() {
                return;
            }
            next = pts;
        }
        let skip = (next - pts) as usize;
        let take = (n_frames - skip).min(self.len - self.filled);
        let range = self.filled..self.filled + take;
        match self.mix {
            Mix::Mean => self.push_mean(range.clone(), skip, channels),
            Mix::Discard => {
                let wanted = channels.iter().filter_map(|c| c.get(skip..skip + take));
                let non_finite = |samples: &[S]| samples.iter().filter(|x| !x.is_finite()).count();
                self.n_non_finite += wanted.map(non_finite).sum::<usize>() as u64;
            }
            Mix::Take => {
                for (plane, channel) in self.planes.chunks_mut(self.stride.max(1)).zip(channels) {
                    copy(plane.get_mut(range.clone()), channel.get(skip..));
                }
            }
            Mix::Pick(picked) => {
                let planes = self.planes.chunks_mut(self.stride.max(1));
                for (plane, place) in planes.zip(picked.places()) {
                    let channel = channels.get(usize::from(*place));
                    copy(plane.get_mut(range.clone()), channel.and_then(|c| c.get(skip..)));
                }
            }
            Mix::Spread => {
                let channel = channels.first().and_then(|c| c.get(skip..));
                for plane in self.planes.chunks_mut(self.stride.max(1)) {
                    copy(plane.get_mut(range.clone()), channel);
                }
            }
        }
        if !S::IS_FINITE {
            // While they are in the cache.
            let mut planes = self.planes.chunks(self.stride.max(1));
            self.is_finite &= planes.all(|plane| all_finite(plane.get(range.clone())));
        }
        self.filled += take;
    }

    fn push_mean<S: Sample>(
        &mut self,
        range: std::ops::Range<usize>,
        skip: usize,
        channels: &[&[S]],
    ) {
        let Some(out) = self.planes.get_mut(range) else { return };
        let scale = 1.0 / channels.len() as f32;
        if let [left, right] = channels {
            let (left, right) = (left.get(skip..), right.get(skip..));
            let pairs = left.unwrap_or_default().iter().zip(right.unwrap_or_default());
            for (out, (l, r)) in out.iter_mut().zip(pairs) {
                *out = (l.to_f32() + r.to_f32()) * scale;
            }
            return;
        }
        let mut rest = channels.iter();
        copy(Some(&mut *out), rest.next().and_then(|c| c.get(skip..)));
        for channel in rest {
            for (out, x) in out.iter_mut().zip(channel.get(skip..).unwrap_or_default()) {
                *out += x.to_f32();
            }
        }
        for x in out {
            *x *= scale;
        }
    }
}

/// Whether all samples are numbers.
pub(super) fn all_finite(samples: Option<&[f32]>) -> bool {
    // A product with 0 is NaN for what is not finite, and sums keep it. Sixteen of them go together, where a
    // test of each sample would go one by one.
    let (blocks, rest) = samples.unwrap_or_default().as_chunks::<16>();
    let mut lanes = [0.0f32; 16];
    for block in blocks {
        for (lane, x) in lanes.iter_mut().zip(block) {
            *lane += x * 0.0;
        }
    }
    !lanes.iter().any(|lane| lane.is_nan()) && rest.iter().all(|x| x.is_finite())
}

fn copy<S: Sample>(to: Option<&mut [f32]>, from: Option<&[S]>) {
    for (to, from) in to.unwrap_or_default().iter_mut().zip(from.unwrap_or_default()) {
        *to = from.to_f32();
    }
}
