//! How much of a recording was decoded, and what was wrong with it.
//!
//! A finding is a loss or a note. A loss ([`Damage`]) is sound that is missing or wrong, and the file
//! proves it: a checksum, a gap in numbers that count packets, a packet that does not decode, an end inside
//! a frame. A note ([`Note`]) is a header, count, time or mark that contradicts the sound, which is all
//! there as far as the file can tell.

use super::{
    error::{DecodeError, Reason},
    spec::Strict,
};
use crate::names::Codec;

/// The kinds of losses.
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

/// The kinds of notes.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Note {
    /// A size, count or length in a header that is not that of the sound.
    HeaderLength,
    /// A field of a header that contradicts the others or the sound, where the sound decides.
    HeaderFields,
    /// Times or positions that contradict the sound.
    Timestamps,
    /// Numbers of pages that do not count them.
    PageNumbers,
    /// A stream without the mark of its end, or with one before its end.
    EndMark,
    /// A stream whose beginning is missing: it plays from its first whole frame.
    LateStart,
    /// Bytes between or behind frames that are no sound, where none is missing.
    Junk,
    /// Headers that come a second time.
    RepeatedHeaders,
    /// A chunk of odd length without its pad byte, or with more of it.
    ChunkPadding,
    /// Tracks before the one that is decoded, which cannot be.
    SkippedTracks,
}

const N_NOTES: usize = Note::ALL.len();

impl Note {
    /// All kinds, by the words that programs compare. Public in Python: they never change. Entries of
    /// audio indexes store their numbers: a new kind stands at the end.
    pub const ALL: [(&'static str, Self); 10] = [
        ("header_length", Self::HeaderLength),
        ("header_fields", Self::HeaderFields),
        ("timestamps", Self::Timestamps),
        ("page_numbers", Self::PageNumbers),
        ("end_mark", Self::EndMark),
        ("late_start", Self::LateStart),
        ("junk", Self::Junk),
        ("repeated_headers", Self::RepeatedHeaders),
        ("chunk_padding", Self::ChunkPadding),
        ("skipped_tracks", Self::SkippedTracks),
    ];
}

/// Counts of a kind of findings.
macro_rules! counts {
    ($(#[$doc:meta])* $name:ident of $kind:ident, $n:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name([u64; $n]);

        impl $name {
            /// How often this kind was met.
            pub fn get(&self, kind: $kind) -> u64 {
                self.0.get(kind as usize).copied().unwrap_or_default()
            }

            /// Whether none was met.
            pub fn is_empty(&self) -> bool {
                *self == Self::default()
            }

            /// The kinds that were met, by their words.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                let counts = $kind::ALL.iter().zip(self.0);
                counts.filter(|&(_, count)| count > 0).map(|((key, _), count)| (*key, count))
            }

            pub(super) fn add(&mut self, kind: $kind, count: u64) {
                if let Some(sum) = self.0.get_mut(kind as usize) {
                    *sum = sum.saturating_add(count);
                }
            }

            /// Both together.
            fn sum(mut self, other: &Self) -> Self {
                for (sum, count) in self.0.iter_mut().zip(other.0) {
                    *sum = sum.saturating_add(count);
                }
                self
            }
        }
    };
}

counts! {
    /// How often each kind of damage was met.
    Counts of Damage, N_KINDS
}

counts! {
    /// How often each kind of note was met.
    Notes of Note, N_NOTES
}

impl Counts {
    /// Both together. A file is truncated once, wherever that was noticed.
    pub(super) fn with(self, other: &Self) -> Self {
        let mut both = self.sum(other);
        if let Some(truncated) = both.0.get_mut(Damage::Truncated as usize) {
            *truncated = (*truncated).min(1);
        }
        both
    }
}

impl Notes {
    /// Both together.
    pub(super) fn with(self, other: &Self) -> Self {
        self.sum(other)
    }

    /// The numbers of the kinds that were met, and their counts.
    pub(super) fn numbered(&self) -> impl Iterator<Item = (u64, u64)> {
        (0..).zip(self.0).filter(|&(_, count)| count > 0)
    }

    /// Adds to the kind of this number; `None` if there is no such kind.
    pub(super) fn add_numbered(&mut self, number: u64, count: u64) -> Option<()> {
        let (_, kind) = Note::ALL.get(usize::try_from(number).ok()?)?;
        self.add(*kind, count);
        Some(())
    }
}

/// How much of one recording, or of the crop of it, was decoded, and what was wrong with it.
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
    /// The damage that was met on the way. Damage outside the part asked for may not have been met.
    pub damage: Counts,
    /// What contradicts the sound, none of which is missing as far as the file can tell.
    pub notes: Notes,
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

/// Collects findings, or lets the first of them be an error.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ledger {
    counts: Counts,
    notes: Notes,
    strict: Strict,
}

impl Ledger {
    /// One that counts damage instead of returning it as an error.
    pub(super) const LENIENT: Self =
        Self { counts: Counts([0; N_KINDS]), notes: Notes([0; N_NOTES]), strict: Strict::Lenient };

    /// An empty one.
    pub(super) fn new(strict: Strict) -> Self {
        Self { strict, ..Self::default() }
    }

    /// An empty one that is as strict as this.
    pub(super) fn anew(&self) -> Self {
        Self::new(self.strict)
    }

    /// Whether damage is counted instead of ending in an error.
    pub(super) fn is_lenient(&self) -> bool {
        self.strict == Strict::Lenient
    }

    /// Meets damage, which is sound that is missing or wrong: an error, or a count.
    pub(super) fn lose(
        &mut self,
        damage: Damage,
        count: u64,
        reason: Reason,
    ) -> Result<(), Reason> {
        if !self.is_lenient() {
            return Err(reason);
        }
        self.mark(damage, count);
        Ok(())
    }

    /// Meets what contradicts the sound and takes nothing from it: a count, and an error only where
    /// notes are errors too.
    pub(super) fn remark(&mut self, note: Note, count: u64, reason: Reason) -> Result<(), Reason> {
        if self.strict == Strict::Pedantic && count > 0 {
            return Err(reason);
        }
        self.notes.add(note, count);
        Ok(())
    }

    /// Counts what is no error either way.
    pub(super) fn mark(&mut self, damage: Damage, count: u64) {
        self.counts.add(damage, count);
    }

    /// Counts notes that were met before.
    pub(super) fn note(&mut self, notes: &Notes) {
        self.notes = self.notes.with(notes);
    }

    /// The damage that was counted.
    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    /// The notes that were counted.
    pub(super) fn notes(&self) -> Notes {
        self.notes
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
        for (i, (_, note)) in Note::ALL.iter().enumerate() {
            assert_eq!(*note as usize, i);
        }
    }

    #[test]
    fn damage_is_an_error_or_a_count() {
        let mut strict = Ledger::default();
        assert_eq!(strict.lose(Damage::Junk, 2, Reason::NonFinite), Err(Reason::NonFinite));
        strict.mark(Damage::PartialFrame, 1);
        assert_eq!(strict.counts().iter().collect::<Vec<_>>(), [("partial_frame", 1)]);
        let mut lenient = Ledger::LENIENT;
        assert_eq!(lenient.lose(Damage::Junk, 2, Reason::NonFinite), Ok(()));
        lenient.mark(Damage::Truncated, 1);
        let both = lenient.counts().with(&lenient.counts());
        assert_eq!((both.get(Damage::Junk), both.get(Damage::Truncated)), (4, 1));
        assert!(!both.is_empty() && Counts::default().is_empty());
    }

    #[test]
    fn notes_are_errors_only_where_that_is_asked_for() {
        let meet = |strict| {
            let mut ledger = Ledger::new(strict);
            let found = ledger.remark(Note::Timestamps, 2, Reason::NonFinite);
            (found, ledger.notes().get(Note::Timestamps))
        };
        assert_eq!(meet(Strict::Lenient), (Ok(()), 2));
        assert_eq!(meet(Strict::Strict), (Ok(()), 2));
        assert_eq!(meet(Strict::Pedantic), (Err(Reason::NonFinite), 0));
        let mut pedantic = Ledger::new(Strict::Pedantic);
        assert_eq!(pedantic.remark(Note::Timestamps, 0, Reason::NonFinite), Ok(()));
        let mut notes = Notes::default();
        assert_eq!((notes.add_numbered(2, 5), notes.add_numbered(99, 1)), (Some(()), None));
        assert_eq!(notes.numbered().collect::<Vec<_>>(), [(2, 5)]);
        assert_eq!(notes.iter().collect::<Vec<_>>(), [("timestamps", 5)]);
    }
}
