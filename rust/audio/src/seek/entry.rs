//! One recording's entry, and its bytes.

use std::sync::Arc;

use super::{About, Reader, SeekTable, put_number, table::KINDS, wire::MAX_NUMBER};
use crate::{
    crc,
    decoder::plan::Plan,
    demux::Scratch,
    info::AudioInfo,
    limits::{MAX_CHANNELS, RATES_HZ},
    names::Codec,
    report::{Counts, Damage, Ledger, Notes},
    spec::Strict,
};

/// The first byte of an entry. Another one is another format, or means other lengths of recordings.
const VERSION: u8 = 2;

/// The kind of an entry that has no table.
const NO_TABLE: u8 = 0;

/// What a walk over one whole and undamaged recording found: what its headers say, and where its frames
/// lie. Clones share their memory.
#[derive(Clone, Debug)]
pub struct Entry {
    pub(super) about: About,
    /// Whether it ends within a frame, which is no error and counted all the same.
    is_cut: bool,
    notes: Notes,
    pub(super) table: Option<Arc<dyn SeekTable>>,
}

impl Entry {
    /// The entry of a recording that was opened and planned with this scratch memory; `None` where
    /// something was wrong with it.
    pub(super) fn learn(bytes: &[u8], plan: &Plan, scratch: &Scratch) -> Option<Self> {
        let mut cut = Counts::default();
        cut.add(Damage::PartialFrame, 1);
        let is_cut = plan.report.damage == cut;
        let is_sound = !plan.is_salvaged && (is_cut || plan.report.damage.is_empty());
        let about = About { info: plan.info, n_bytes: bytes.len() as u64 };
        if !is_sound || about.n_bytes > MAX_NUMBER || about.info.n_frames > MAX_NUMBER {
            return None;
        }
        let table = plan.recording.seek_table(bytes, scratch).map(Arc::from);
        Some(Self { about, is_cut, notes: plan.report.notes, table })
    }

    /// What the recording's headers say.
    pub fn info(&self) -> &AudioInfo {
        &self.about.info
    }

    /// Bytes of the whole recording. An entry is not for a recording of any other length.
    pub fn n_bytes(&self) -> u64 {
        self.about.n_bytes
    }

    /// Whether parts can be read: if not, the entry tells no more than [`Self::info`].
    pub fn has_table(&self) -> bool {
        self.table.is_some()
    }

    /// Bytes that many recordings of one encoder have in common, which [`Self::to_bytes`] leaves out, or
    /// none.
    pub fn headers(&self) -> &[u8] {
        self.table.as_ref().map_or(&[], |table| table.headers())
    }

    /// The entry in bytes, without [`Self::headers`].
    pub fn to_bytes(&self) -> Vec<u8> {
        let Self { about: About { info, n_bytes }, is_cut, notes, table } = self;
        let kind = table.as_ref().map_or(NO_TABLE, |table| table.kind());
        let mut out = vec![VERSION, kind, info.codec.number() << 1 | u8::from(*is_cut)];
        for n in [u64::from(info.rate_hz), info.n_channels.into(), info.n_frames, *n_bytes] {
            put_number(&mut out, n);
        }
        put_number(&mut out, notes.numbered().count() as u64);
        for n in notes.numbered().flat_map(|(kind, count)| [kind, count]) {
            put_number(&mut out, n.min(MAX_NUMBER));
        }
        if let Some(table) = table {
            table.write(&mut out);
        }
        out.extend(checksum(&out, self.headers()));
        out
    }

    /// The entry of these bytes, which [`Self::to_bytes`] wrote, and of these headers.
    ///
    /// Any bytes may come: what is no entry, of another version, not of these headers, or contradicts
    /// itself is `None`.
    pub fn from_bytes(bytes: &[u8], headers: &[u8]) -> Option<Self> {
        let (bytes, sum) = bytes.split_last_chunk::<4>()?;
        if *bytes.first()? != VERSION || *sum != checksum(bytes, headers) {
            return None;
        }
        let mut reader = Reader::new(bytes);
        reader.byte()?;
        let (kind, codec) = (reader.byte()?, reader.byte()?);
        let rate_hz = u32::try_from(reader.number()?).ok()?;
        let n_channels = u16::try_from(reader.number()?).ok()?;
        let is_possible = RATES_HZ.contains(&rate_hz) && (1..=MAX_CHANNELS).contains(&n_channels);
        let info = AudioInfo {
            codec: Codec::of_number(codec >> 1).filter(|_| is_possible)?,
            rate_hz,
            n_channels,
            n_frames: reader.number()?,
        };
        let about = About { info, n_bytes: reader.number()? };
        let mut notes = Notes::default();
        for _ in 0..reader.number()? {
            notes.add_numbered(reader.number()?, reader.number()?)?;
        }
        let table = if kind == NO_TABLE {
            None
        } else {
            let (_, read) = KINDS.iter().find(|(known, _)| *known == kind)?;
            Some(Arc::from(read(&mut reader, headers, &about)?))
        };
        reader.is_empty().then_some(Self { about, is_cut: codec & 1 == 1, notes, table })
    }

    /// What opening the recording finds.
    pub(super) fn ledger(&self) -> Ledger {
        let mut ledger = Ledger::default();
        ledger.mark(Damage::PartialFrame, u64::from(self.is_cut));
        ledger.note(&self.notes);
        ledger
    }

    /// Whether what opening the recording finds is an error.
    pub(super) fn is_refused(&self, strict: Strict) -> bool {
        strict == Strict::Pedantic && !self.notes.is_empty()
    }
}

/// Binds an entry to its headers.
fn checksum(bytes: &[u8], headers: &[u8]) -> [u8; 4] {
    crc::update(crc::update(0, bytes), headers).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_codec_has_a_number() {
        for &codec in Codec::ALL {
            let info = AudioInfo { codec, rate_hz: 44_100, n_channels: 2, n_frames: 1_984_500 };
            let about = About { info, n_bytes: 7_938_044 };
            let mut notes = Notes::default();
            notes.add_numbered(2, u64::from(codec == Codec::Opus)).unwrap();
            let entry = Entry { about, is_cut: codec == Codec::Mp3, notes, table: None };
            let bytes = entry.to_bytes();
            let same = Entry::from_bytes(&bytes, &[]).expect("its own bytes");
            assert_eq!((same.about, same.is_cut, same.notes), (about, entry.is_cut, notes));
            assert!(!same.has_table() && Entry::from_bytes(&bytes, &[0]).is_none());
            assert!((0..bytes.len()).all(|n| Entry::from_bytes(&bytes[..n], &[]).is_none()));
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_an_entry_or_none(mut bytes: Vec<u8>, headers: Vec<u8>) {
            if let Some(first) = bytes.first_mut() {
                *first = VERSION;
            }
            let sum = checksum(&bytes, &headers);
            bytes.extend(sum);
            if let Some(entry) = Entry::from_bytes(&bytes, &headers) {
                proptest::prop_assert!(entry.info().n_frames <= MAX_NUMBER);
            }
        }
    }
}
