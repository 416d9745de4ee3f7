//! What came of a recording, and what was wrong with it.

use super::{
    codec::Codec,
    error::{DecodeError, Reason},
};

/// The kinds of damage that are counted.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Damage {
    /// Files that end before what their headers promise, or before the mark of their end.
    Truncated,
    /// Streams without a count of frames that end inside a frame. Whether something is missing
    /// cannot be told, so this is the one kind that is no error.
    PartialFrame,
    /// Ogg pages that are missing or unreadable.
    LostPages,
    /// Stretches of bytes between frames, or long ones behind the last, that are no frames.
    Junk,
    /// Ogg pages and FLAC frames whose checksum is wrong.
    Checksums,
    /// Packets that did not decode, or not to the frames that they should.
    CorruptPackets,
    /// Places between packets where others are missing.
    LostPackets,
    /// Frames of another rate or number of channels.
    ParamsChanged,
    /// Positions that contradict each other.
    Timeline,
    /// Samples that were NaN or infinite, which are 0 in the result.
    NonFinite,
    /// Panics inside a decoder, which ended the decoding.
    DecoderPanics,
    /// Stretches of the result that are zeros because nothing could be decoded.
    Gaps,
}

const N_KINDS: usize = Damage::ALL.len();

impl Damage {
    /// All kinds, by the words that programs compare. Public in Python: they never change.
    pub const ALL: [(&'static str, Self); 12] = [
        ("truncated", Self::Truncated),
        ("partial_frame", Self::PartialFrame),
        ("lost_pages", Self::LostPages),
        ("junk", Self::Junk),
        ("checksums", Self::Checksums),
        ("corrupt_packets", Self::CorruptPackets),
        ("lost_packets", Self::LostPackets),
        ("params_changed", Self::ParamsChanged),
        ("timeline", Self::Timeline),
        ("non_finite", Self::NonFinite),
        ("decoder_panics", Self::DecoderPanics),
        ("gaps", Self::Gaps),
    ];
}

/// How often each kind of damage was met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts([u64; N_KINDS]);

impl Counts {
    /// How often this kind was met.
    pub fn get(&self, damage: Damage) -> u64 {
        self.0.get(damage as usize).copied().unwrap_or_default()
    }

    /// Whether none was met.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The kinds that were met, by their words.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = Damage::ALL.iter().zip(self.0);
        counts.filter(|&(_, count)| count > 0).map(|((key, _), count)| (*key, count))
    }

    pub(super) fn add(&mut self, damage: Damage, count: u64) {
        if let Some(sum) = self.0.get_mut(damage as usize) {
            *sum = sum.saturating_add(count);
        }
    }

    /// Both together. A file is truncated once, wherever that was noticed.
    pub(super) fn with(mut self, other: &Self) -> Self {
        for (sum, count) in self.0.iter_mut().zip(other.0) {
            *sum = sum.saturating_add(count);
        }
        if let Some(truncated) = self.0.get_mut(Damage::Truncated as usize) {
            *truncated = (*truncated).min(1);
        }
        self
    }
}

/// What came of one recording, or of the part of it that was asked for.
///
/// Frames are those of the recording, at its own rate, on all channels at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecodeReport {
    /// Frames of the whole recording, as its headers promise them.
    pub frames_promised: u64,
    /// Frames that the result was made from: the part asked for, and what the resampler needs
    /// around it.
    pub frames_wanted: u64,
    /// Frames among them that were decoded. The others are zeros.
    pub frames_decoded: u64,
    /// The damage that was met on the way. What lies outside the part asked for may not have been.
    pub damage: Counts,
}

impl DecodeReport {
    /// Frames that are zeros because nothing could be decoded.
    pub fn frames_missing(&self) -> u64 {
        self.frames_wanted.saturating_sub(self.frames_decoded)
    }

    /// Refuses a recording of which a larger share of frames is missing than `max_missing`.
    ///
    /// # Errors
    ///
    /// [`Reason::Missing`].
    pub fn check_missing(&self, codec: Codec, max_missing: Option<f64>) -> Result<(), DecodeError> {
        let (wanted, missing) = (self.frames_wanted, self.frames_missing());
        match max_missing {
            Some(share) if missing as f64 > share * wanted as f64 => {
                Err(Reason::Missing { missing, wanted }.of(codec))
            }
            _ => Ok(()),
        }
    }
}

/// Collects damage, or lets the first of it be an error.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ledger {
    counts: Counts,
    is_lenient: bool,
}

impl Ledger {
    /// One that goes on after damage.
    pub(super) const LENIENT: Self = Self { counts: Counts([0; N_KINDS]), is_lenient: true };

    /// Whether damage is counted and passed over.
    pub(super) fn is_lenient(&self) -> bool {
        self.is_lenient
    }

    /// Meets damage: an error, or a count.
    pub(super) fn note(
        &mut self,
        damage: Damage,
        count: u64,
        reason: Reason,
    ) -> Result<(), Reason> {
        if !self.is_lenient {
            return Err(reason);
        }
        self.mark(damage, count);
        Ok(())
    }

    /// Counts what is no error either way.
    pub(super) fn mark(&mut self, damage: Damage, count: u64) {
        self.counts.add(damage, count);
    }

    /// What was counted.
    pub(super) fn counts(&self) -> Counts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_stand_where_their_numbers_say() {
        for (i, (_, damage)) in Damage::ALL.iter().enumerate() {
            assert_eq!(*damage as usize, i);
        }
    }

    #[test]
    fn damage_is_an_error_or_a_count() {
        let mut strict = Ledger::default();
        assert_eq!(strict.note(Damage::Junk, 2, Reason::NonFinite), Err(Reason::NonFinite));
        strict.mark(Damage::PartialFrame, 1);
        assert_eq!(strict.counts().iter().collect::<Vec<_>>(), [("partial_frame", 1)]);
        let mut lenient = Ledger::LENIENT;
        assert_eq!(lenient.note(Damage::Junk, 2, Reason::NonFinite), Ok(()));
        lenient.mark(Damage::Truncated, 1);
        let both = lenient.counts().with(&lenient.counts());
        assert_eq!((both.get(Damage::Junk), both.get(Damage::Truncated)), (4, 1));
        assert!(!both.is_empty() && Counts::default().is_empty());
    }
}
