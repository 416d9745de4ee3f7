//! RIFF WAVE, RF64 and BW64: the header. The samples are [`pcm`](crate::demux::pcm).

use crate::{
    bytes::{from, le_u16, le_u32, le_u64},
    demux::{
        container::{Container, Input, OpenResult},
        pcm::{self, Encoding, Endian::Little, Format, PcmLayout},
        stated::{Chunks, MOST_FORGOTTEN, Outer, Stated, is_forgotten, sample_bytes},
    },
    error::Reason,
    names::Codec,
    report::{Ledger, Note},
    stream::Scratch,
};

const PCM: u16 = 1;
const FLOAT: u16 = 3;
const A_LAW: u16 = 6;
const MU_LAW: u16 = 7;
const EXTENSIBLE: u16 = 0xFFFE;

const CHUNKS: Chunks =
    Chunks { size: |chunk| le_u32(chunk, 4).map(u64::from), header: 8, is_padded: true };

/// RIFF WAVE, RF64 and BW64.
pub(crate) struct Wav;

impl Container for Wav {
    fn find(&self, bytes: &[u8], at: usize) -> Option<usize> {
        let rest = bytes.get(at..)?;
        let is_riff = matches!(rest.first_chunk(), Some(b"RIFF" | b"RF64" | b"BW64"));
        (is_riff && rest.get(8..12) == Some(b"WAVE")).then_some(at)
    }

    fn codec(&self, _: &[u8], _: usize) -> Option<Codec> {
        Some(Codec::Wav)
    }

    fn open(&self, input: Input<'_>, _: &mut Scratch, ledger: &mut Ledger) -> OpenResult {
        let layout = open(input.bytes, input.at, ledger)?;
        Ok(Box::new(pcm::Stored { codec: Codec::Wav, layout }))
    }
}

/// Reads the chunks of the file at `offset`, up to the samples.
///
/// A data chunk that says 0 and is followed by what are no chunks goes to the end, and so does one that says
/// next to nothing in a long file. [`Stated`] tells what becomes of one that promises more than there is.
fn open(bytes: &[u8], offset: usize, ledger: &mut Ledger) -> Result<PcmLayout, Reason> {
    let mut at = offset.saturating_add(12);
    let mut format = None;
    let mut sizes = None;
    loop {
        let (Some(id), Some(len)) = (from(bytes, at).first_chunk::<4>(), le_u32(bytes, at + 4))
        else {
            let missing =
                if format.is_none() { "there is no fmt chunk" } else { "there is no data chunk" };
            return Err(Reason::malformed(missing));
        };
        let body = at + 8;
        match id {
            b"fmt " => format = Some(parse(from(bytes, body), len)?),
            b"ds64" => sizes = Some(Sizes { body: from(bytes, body), len }),
            b"data" => {
                let (format, block) =
                    format.ok_or_else(|| Reason::malformed("data comes before fmt"))?;
                if format.block() != u64::from(block) {
                    let why = format!("its frames have {} bytes, not {block}", format.block());
                    ledger.remark(Note::HeaderFields, 1, Reason::malformed(why))?;
                }
                let len = match (u64::from(len), sizes.and_then(|sizes| sizes.data())) {
                    (0xFFFF_FFFF, Some(len)) if len != u64::MAX => Some(len),
                    (0xFFFF_FFFF, _) => None,
                    (len, _) => Some(len),
                };
                let there = from(bytes, body).len() as u64;
                let is_explained = len.is_none_or(|len| {
                    let end = body.saturating_add(usize::try_from(len).unwrap_or(usize::MAX));
                    end >= bytes.len()
                        || CHUNKS.explain(bytes, end.saturating_add((end - body) & 1))
                });
                let is_forgotten =
                    |&len: &u64| is_forgotten(len, there.saturating_sub(len)) && !is_explained;
                let outer = Outer::of(riff_end(bytes, offset, sizes), bytes.len());
                let stated = Stated {
                    len: len.filter(|len| !is_forgotten(len)),
                    told: len.filter(|&len| len > 0),
                    header: (body - offset) as u64,
                    is_closed: outer.is_right,
                    is_odd: outer.is_wrong || !is_explained,
                };
                return format.layout(bytes, body, &stated, ledger);
            }
            _ => {}
        }
        let len = match sizes.filter(|_| len == u32::MAX).and_then(|sizes| sizes.other(*id)) {
            Some(len) => usize::try_from(len).unwrap_or(usize::MAX),
            None => len as usize,
        };
        at = CHUNKS.next(bytes, body, len);
        CHUNKS.remark(at - body, len, ledger)?;
    }
}

/// Where the file at `offset` ends, if its first chunk says so.
fn riff_end(bytes: &[u8], offset: usize, sizes: Option<Sizes<'_>>) -> Option<u64> {
    let len = match le_u32(bytes, offset.saturating_add(4))? {
        0 => None,
        u32::MAX => sizes?.riff().filter(|&len| len != 0 && len != u64::MAX),
        len => Some(u64::from(len)),
    };
    Some(len?.saturating_add(offset as u64 + 8))
}

/// Whether the samples of a WAV file begin within these first bytes of it, and so many are promised that
/// nothing behind them has a say in their number.
pub(crate) fn has_data(head: &[u8]) -> bool {
    if !head.starts_with(b"RIFF") || head.get(8..12) != Some(b"WAVE") {
        return false;
    }
    let mut at = 12usize;
    while let (Some(id), Some(len)) = (from(head, at).first_chunk::<4>(), le_u32(head, at + 4)) {
        if id == b"data" {
            return u64::from(len) > MOST_FORGOTTEN;
        }
        at = CHUNKS.next(head, at + 8, len as usize);
    }
    false
}

/// The `ds64` chunk, EBU Tech 3306: sizes of chunks that say 0xFFFFFFFF.
#[derive(Clone, Copy)]
struct Sizes<'a> {
    body: &'a [u8],
    len: u32,
}

impl Sizes<'_> {
    fn data(&self) -> Option<u64> {
        le_u64(self.body, 8).filter(|_| self.len >= 16)
    }

    fn riff(&self) -> Option<u64> {
        le_u64(self.body, 0).filter(|_| self.len >= 8)
    }

    /// The size of a chunk other than `data`, from the table at the end.
    fn other(&self, id: [u8; 4]) -> Option<u64> {
        let n_entries = le_u32(self.body, 24)? as usize;
        let table = self.body.get(28..self.len as usize)?;
        let entry = table.chunks_exact(12).take(n_entries).find(|entry| entry.starts_with(&id))?;
        le_u64(entry, 4)
    }
}

/// The sub-formats of `WAVE_FORMAT_EXTENSIBLE` end in this, behind the tag: the one that Microsoft
/// gives to all tags, and that of Ambisonics B-format.
const GUID_TAILS: [&[u8; 14]; 2] = [
    b"\0\0\0\0\x10\0\x80\0\0\xAA\0\x38\x9B\x71",
    b"\0\0\x21\x07\xD3\x11\x86\x44\xC8\xC1\xCA\0\0\0",
];

/// The format, and what the header says of the bytes of a frame.
fn parse(body: &[u8], len: u32) -> Result<(Format, u16), Reason> {
    let whole = body;
    let body = body.get(..len as usize).unwrap_or(body);
    let short = || Reason::malformed("the fmt chunk is too short");
    let mut tag = le_u16(body, 0).ok_or_else(short)?;
    let n_channels = le_u16(body, 2).ok_or_else(short)?;
    let rate_hz = le_u32(body, 4).ok_or_else(short)?;
    let block = le_u16(body, 12).ok_or_else(short)?;
    // Without the bits of a sample, the block tells its bytes. Some writers count them short.
    let bits = if len > 14 { le_u16(whole, 14).ok_or_else(short)? } else { 0 };
    let mut valid_bits = 0;
    if tag == EXTENSIBLE {
        valid_bits = le_u16(body, 18).ok_or_else(short)?;
        tag = le_u16(body, 24).ok_or_else(short)?;
        let tail = body.get(26..40).ok_or_else(short)?;
        if !GUID_TAILS.iter().any(|known| *known == tail) {
            return Err(Reason::UnsupportedCodec("WAV of an unknown extensible type".to_owned()));
        }
    }
    let of_block = u32::from(block.checked_div(n_channels).unwrap_or(0));
    let n_bytes = match sample_bytes(bits.into(), of_block) {
        // Two fields that agree outvote the third.
        _ if valid_bits > 0 && u32::from(valid_bits).div_ceil(8) == of_block => of_block,
        n => n,
    };
    let encoding = match tag {
        PCM if n_bytes == 1 => Some(Encoding::U8),
        PCM => Encoding::signed(n_bytes, Little),
        FLOAT if bits == 64 || bits != 32 && of_block == 8 => Some(Encoding::F64(Little)),
        FLOAT if bits == 32 || of_block == 4 => Some(Encoding::F32(Little)),
        FLOAT => None,
        A_LAW => Some(Encoding::ALaw),
        MU_LAW => Some(Encoding::MuLaw),
        _ => return Err(Reason::UnsupportedCodec(format!("WAV of type {}", tag_name(tag)))),
    };
    let odd = || {
        Reason::malformed(format!(
            "{n_channels} channels of {bits} bits in blocks of {block} bytes"
        ))
    };
    match encoding {
        None if n_channels > 0 => Err(odd()),
        encoding => {
            let encoding = encoding.unwrap_or(Encoding::U8);
            Ok((Format::new(rate_hz, n_channels.into(), encoding)?, block))
        }
    }
}

fn tag_name(tag: u16) -> String {
    match tag {
        0x0002 => "Microsoft ADPCM".to_owned(),
        0x0011 => "IMA ADPCM".to_owned(),
        0x0031 => "GSM 6.10".to_owned(),
        0x0040 | 0x0045 | 0x0064 | 0x0065 => "G.721, G.726 or G.722 ADPCM".to_owned(),
        0x0050 => "MPEG layer II".to_owned(),
        0x0055 => "MP3".to_owned(),
        0x00FF | 0x1600 | 0x1610 => "AAC".to_owned(),
        0x0092 | 0x2000 => "AC-3".to_owned(),
        0x0161..=0x0163 => "WMA".to_owned(),
        _ => format!("{tag:#06x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(bytes: &[u8], offset: usize) -> Result<PcmLayout, Reason> {
        super::open(bytes, offset, &mut Ledger::default())
    }

    fn chunk(id: [u8; 4], body: &[u8]) -> Vec<u8> {
        let pad = vec![0; body.len() & 1];
        [&id[..], &(body.len() as u32).to_le_bytes(), body, &pad].concat()
    }

    fn fmt(tag: u16, n_channels: u16, block: u16, bits: u16) -> Vec<u8> {
        let mut body = [tag, n_channels].map(u16::to_le_bytes).concat();
        body.extend([48_000u32, 0].map(u32::to_le_bytes).concat());
        body.extend([block, bits].map(u16::to_le_bytes).concat());
        body
    }

    fn file(chunks: &[Vec<u8>]) -> Vec<u8> {
        [&b"RIFF\0\0\0\0WAVE"[..], &chunks.concat()].concat()
    }

    #[test]
    fn sizes_of_64_bits_hold_where_32_do_not_reach() {
        let mut ds64 = [0u64, 8, 2].map(u64::to_le_bytes).concat();
        ds64.extend(1u32.to_le_bytes());
        ds64.extend(b"bext\x06\0\0\0\0\0\0\0");
        let huge = |id: &[u8; 4], body: &[u8]| [&id[..], &[0xFF; 4], body].concat();
        let bytes = file(&[
            chunk(*b"ds64", &ds64),
            huge(b"bext", b"abcdef"),
            chunk(*b"fmt ", &fmt(PCM, 2, 4, 16)),
            huge(b"data", &[1; 20]),
        ]);
        assert_eq!(open(&bytes, 0).unwrap().n_frames, 2);
        let unfinished = [0u64, u64::MAX, 0].map(u64::to_le_bytes).concat();
        let bytes = file(&[
            chunk(*b"ds64", &unfinished),
            chunk(*b"fmt ", &fmt(PCM, 2, 4, 16)),
            huge(b"data", &[1; 20]),
        ]);
        assert_eq!(open(&bytes, 0).unwrap().n_frames, 5);
    }

    #[test]
    fn lengths_that_mean_unknown_go_to_the_end() {
        for (len, n_frames) in
            [(0u32, 5), (u32::MAX, 5), (0x7FFF_F000, 5), (0x7FFF_EFFD, 5), (0x8000_0000, 5), (8, 2)]
        {
            let mut bytes =
                file(&[chunk(*b"fmt ", &fmt(PCM, 2, 4, 16)), chunk(*b"data", &[1; 20])]);
            let at = bytes.len() - 24;
            bytes[at..at + 4].copy_from_slice(&len.to_le_bytes());
            assert_eq!(open(&bytes, 0).unwrap().n_frames, n_frames, "{len:#x}");
        }
        let empty = file(&[
            chunk(*b"fmt ", &fmt(PCM, 2, 4, 16)),
            chunk(*b"data", &[]),
            chunk(*b"LIST", b"INFOabcd"),
        ]);
        assert_eq!(open(&empty, 0).unwrap().n_frames, 0);
    }

    #[test]
    fn extensible_types_are_named_by_the_whole_of_their_identifier() {
        let with = |tag: u16, tail: &[u8]| {
            let mut body = fmt(EXTENSIBLE, 1, 4, 32);
            body.extend([&22u16.to_le_bytes()[..], &[0; 6], &tag.to_le_bytes(), tail].concat());
            open(&file(&[chunk(*b"fmt ", &body), chunk(*b"data", &[0; 8])]), 0)
        };
        assert_eq!(with(FLOAT, GUID_TAILS[0]).unwrap().n_frames, 2);
        assert_eq!(with(PCM, GUID_TAILS[1]).unwrap().n_frames, 2);
        assert!(matches!(with(PCM, &[7; 14]), Err(Reason::UnsupportedCodec(_))));
        assert!(matches!(with(PCM, &[]), Err(Reason::MalformedHeader(_))));
    }

    #[test]
    fn impossible_formats_are_refused() {
        let with = |fmt: Vec<u8>| {
            open(&file(&[chunk(*b"fmt ", &fmt), chunk(*b"data", &[0; 64])]), 0).unwrap_err()
        };
        for fmt in [fmt(PCM, 1, 8, 64), fmt(PCM, 1, 0, 0), fmt(FLOAT, 1, 2, 16)] {
            assert!(matches!(with(fmt), Reason::MalformedHeader(_)));
        }
        assert!(matches!(with(fmt(PCM, 0, 2, 16)), Reason::Limit(_)));
        assert!(matches!(with(fmt(PCM, 1025, 2050, 16)), Reason::Limit(_)));
        assert!(matches!(with(fmt(0x11, 1, 1, 4)), Reason::UnsupportedCodec(_)));
    }

    proptest::proptest! {
        #[test]
        fn hostile_chunks_end_in_a_layout_or_an_error(
            tag in proptest::sample::select(vec![PCM, FLOAT, A_LAW, MU_LAW, EXTENSIBLE, 2]),
            fields in proptest::collection::vec(0u16..40, 3),
            id in proptest::sample::select(vec![*b"ds64", *b"LIST", *b"data", *b"fmt "]),
            lens in proptest::array::uniform2(proptest::num::u32::ANY),
            tail in proptest::collection::vec(proptest::num::u8::ANY, 0..80),
        ) {
            let fmt = fmt(tag, fields[0], fields[1], fields[2]);
            let raw = |id: [u8; 4], len: u32| [id, len.to_le_bytes()].concat();
            let bytes = file(&[raw(id, lens[0] & 63), tail.clone(), chunk(*b"fmt ", &fmt), raw(*b"data", lens[1]), tail]);
            if let Ok(layout) = open(&bytes, 0) {
                proptest::prop_assert!(layout.n_frames <= bytes.len() as u64);
            }
        }
    }
}
