//! Seek tables: a crop out of a few of a recording's bytes, without the others.
//!
//! An [`Entry`] is what a walk over one whole recording found: what its headers say, and at which byte a
//! frame begins, for one frame every two seconds or so. [`Decoder::plan_and_learn`] makes one on the way;
//! [`Decoder::plan_part`] tells which bytes a crop needs, and [`Decoder::render_part`] gives the same
//! samples and the same report out of them as the whole recording would.
//!
//! An entry is not trusted. A part is decoded as strictly as a recording: frames must begin at its first
//! byte, follow each other without a gap and end at its last, and nothing in it may be damaged. If a part is
//! anything else, the whole recording is read and decides.
//!
//! [`Decoder::plan_and_learn`]: crate::Decoder::plan_and_learn
//! [`Decoder::plan_part`]: crate::Decoder::plan_part
//! [`Decoder::render_part`]: crate::Decoder::render_part

use std::sync::Arc;

use crate::{
    crc,
    demux::SEEK_TABLES,
    info::AudioInfo,
    limits::{MAX_PCM_CHANNELS, RATES_HZ},
    names::Codec,
    report::{Damage, Ledger, Notes},
    spec::Strict,
    stream::{About, MAX_NUMBER, Reader, SeekTable, put_number},
};

/// The first byte of an entry. It changes when the format does, or when the same recording gets another length
/// or timeline.
const VERSION: u8 = 2;

/// What stands for the kind of the table in an entry without one.
const NO_TABLE: u8 = 0;

/// What a walk over one whole and undamaged recording found: what its headers say, and which of its bytes
/// hold which frames. Clones share their memory.
#[derive(Clone, Debug)]
pub struct Entry {
    pub(crate) about: About,
    /// Whether the recording ends within a frame: no error, but counted in reports.
    is_cut: bool,
    notes: Notes,
    pub(crate) table: Option<Arc<dyn SeekTable>>,
}

impl Entry {
    /// The entry of a sound recording; `None` where a number is too large for one.
    pub(crate) fn new(
        about: About,
        is_cut: bool,
        notes: Notes,
        table: impl FnOnce() -> Option<Box<dyn SeekTable>>,
    ) -> Option<Self> {
        let is_storable = about.n_bytes <= MAX_NUMBER && about.info.n_frames <= MAX_NUMBER;
        is_storable.then(|| Self { about, is_cut, notes, table: table().map(Arc::from) })
    }

    /// What the recording's headers say.
    pub fn info(&self) -> &AudioInfo {
        &self.about.info
    }

    /// Bytes of the whole recording. The entry is of no use to a recording of another length.
    pub fn n_bytes(&self) -> u64 {
        self.about.n_bytes
    }

    /// Whether parts of the recording can be read. If not, the entry tells no more than [`Self::info`].
    pub fn has_table(&self) -> bool {
        self.table.is_some()
    }

    /// Bytes that [`Self::to_bytes`] leaves out, because many recordings of one encoder share them; empty
    /// if there are none.
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

    /// Reads what [`Self::to_bytes`] wrote; `headers` are those that it left out.
    ///
    /// `None` if the bytes are no entry, are of another version, do not belong to these headers, or
    /// contradict each other.
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
        let is_possible =
            RATES_HZ.contains(&rate_hz) && (1..=MAX_PCM_CHANNELS).contains(&n_channels);
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
            let (_, read) = SEEK_TABLES.iter().find(|(known, _)| *known == kind)?;
            Some(Arc::from(read(&mut reader, headers, &about)?))
        };
        reader.is_empty().then_some(Self { about, is_cut: codec & 1 == 1, notes, table })
    }

    /// What opening the recording finds.
    pub(crate) fn ledger(&self) -> Ledger {
        let mut ledger = Ledger::default();
        ledger.mark(Damage::PartialFrame, u64::from(self.is_cut));
        ledger.note(&self.notes);
        ledger
    }

    /// Whether what opening the recording finds is an error.
    pub(crate) fn is_refused(&self, strict: Strict) -> bool {
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
