//! Apple's Core Audio Format with linear samples: the header. The samples are
//! [`pcm`](crate::demux::pcm).

use crate::{
    bytes::{be_u32, be_u64, from},
    demux::{
        container::{Container, Input, OpenResult},
        pcm::{self, Encoding, Endian, Format, PcmLayout},
        stated::{Chunks, Stated, is_forgotten, sample_bytes},
    },
    error::Reason,
    names::Codec,
    report::{Ledger, Note},
    stream::Scratch,
};

const IS_FLOAT: u32 = 1;
const IS_LITTLE_ENDIAN: u32 = 2;

const CHUNKS: Chunks = Chunks { size: |chunk| be_u64(chunk, 4), header: 12, is_padded: false };

/// Core Audio Format, version 1.
pub(crate) struct Caf;

impl Container for Caf {
    fn find(&self, bytes: &[u8], at: usize) -> Option<usize> {
        bytes.get(at..)?.starts_with(b"caff\0\x01").then_some(at)
    }

    fn codec(&self, _: &[u8], _: usize) -> Option<Codec> {
        Some(Codec::Caf)
    }

    fn open(&self, input: Input<'_>, _: &mut Scratch, ledger: &mut Ledger) -> OpenResult {
        let layout = open(input.bytes, input.at, ledger)?;
        Ok(Box::new(pcm::Stored { codec: Codec::Caf, layout }))
    }
}

/// Reads the chunks of the file at `offset`, up to the samples. A data chunk of negative length goes to the
/// end, and so does one that says next to nothing and is followed by what are no chunks.
fn open(bytes: &[u8], offset: usize, ledger: &mut Ledger) -> Result<PcmLayout, Reason> {
    let mut at = offset.saturating_add(8);
    let mut format = None;
    while let (Some(id), Some(len)) = (from(bytes, at).first_chunk::<4>(), be_u64(bytes, at + 4)) {
        let body = at + 12;
        match id {
            b"desc" if format.is_none() => format = Some(parse(from(bytes, body))?),
            b"data" => {
                let (format, block) =
                    format.ok_or_else(|| Reason::malformed("data comes before desc"))?;
                if format.block() != block {
                    let why = format!("its frames have {} bytes, not {block}", format.block());
                    ledger.remark(Note::HeaderFields, 1, Reason::malformed(why))?;
                }
                // The samples come behind a count of edits.
                let data = body + 4;
                let there = from(bytes, data).len() as u64;
                let len = len.checked_sub(4).filter(|&len| len < i64::MAX as u64 - 4);
                let is_explained = len.is_none_or(|len| {
                    len >= there || CHUNKS.explain(bytes, data.saturating_add(len as usize))
                });
                let is_forgotten =
                    |&len: &u64| is_forgotten(len, there.saturating_sub(len)) && !is_explained;
                let stated = Stated {
                    len: len.filter(|len| !is_forgotten(len)),
                    told: len,
                    header: (data - offset) as u64,
                    is_closed: false,
                    is_odd: !is_explained,
                };
                return format.layout(bytes, data, &stated, ledger);
            }
            _ => {}
        }
        at = body.saturating_add(usize::try_from(len).unwrap_or(usize::MAX)).min(bytes.len());
    }
    let missing =
        if format.is_none() { "there is no desc chunk" } else { "there is no data chunk" };
    Err(Reason::malformed(missing))
}

/// The format, and what the header says of the bytes of a frame.
fn parse(desc: &[u8]) -> Result<(Format, u64), Reason> {
    let short = || Reason::malformed("the desc chunk is too short");
    let rate = f64::from_bits(be_u64(desc, 0).ok_or_else(short)?);
    let kind = from(desc, 8).first_chunk::<4>().ok_or_else(short)?;
    let flags = be_u32(desc, 12).ok_or_else(short)?;
    let packet_bytes = be_u32(desc, 16).ok_or_else(short)?;
    let packet_frames = be_u32(desc, 20).ok_or_else(short)?;
    let n_channels = be_u32(desc, 24).ok_or_else(short)?;
    let bits = be_u32(desc, 28).ok_or_else(short)?;
    let rate = rate.round();
    if !(0.0..f64::from(u32::MAX)).contains(&rate) {
        return Err(Reason::malformed("the rate is no frequency"));
    }
    let endian = if flags & IS_LITTLE_ENDIAN == 0 { Endian::Big } else { Endian::Little };
    let of_packet = packet_bytes.checked_div(n_channels).unwrap_or(0);
    let encoding = match kind {
        b"lpcm" if flags & IS_FLOAT != 0 => {
            let bits = if matches!(bits, 32 | 64) { bits } else { of_packet.saturating_mul(8) };
            Encoding::float(bits / 8, endian)
        }
        b"lpcm" => Encoding::signed(sample_bytes(bits, of_packet), endian),
        b"alaw" => Some(Encoding::ALaw),
        b"ulaw" => Some(Encoding::MuLaw),
        kind => return Err(Reason::UnsupportedCodec(kind_name(*kind))),
    };
    let odd = || {
        Reason::malformed(format!(
            "{packet_frames} frames of {n_channels} channels of {bits} bits in {packet_bytes} bytes"
        ))
    };
    let format = Format::new(rate as u32, n_channels, encoding.ok_or_else(odd)?)?;
    let block = u64::from(packet_bytes).checked_div(packet_frames.into());
    Ok((format, block.unwrap_or(packet_bytes.into())))
}

fn kind_name(kind: [u8; 4]) -> String {
    let name = match &kind {
        b"aac " => "AAC",
        b"aach" | b"aacp" => "HE-AAC",
        b"alac" => "ALAC",
        b"ima4" => "IMA ADPCM",
        b"MAC3" | b"MAC6" => "MACE",
        b".mp1" | b".mp2" | b".mp3" => "MPEG audio",
        b"opus" => "Opus",
        b"flac" => "FLAC",
        b"ac-3" | b"ec-3" => "AC-3",
        b"ilbc" => "iLBC",
        _ => return format!("CAF of type {}", kind.escape_ascii()),
    };
    format!("CAF with {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(bytes: &[u8], offset: usize) -> Result<PcmLayout, Reason> {
        super::open(bytes, offset, &mut Ledger::default())
    }

    fn chunk(id: [u8; 4], len: i64, body: &[u8]) -> Vec<u8> {
        [&id[..], &len.to_be_bytes(), body].concat()
    }

    fn desc(rate: f64, kind: [u8; 4], words: [u32; 5]) -> Vec<u8> {
        let words = words.map(u32::to_be_bytes).concat();
        chunk(*b"desc", 32, &[&rate.to_be_bytes(), &kind[..], &words].concat())
    }

    fn file(chunks: &[Vec<u8>]) -> Vec<u8> {
        [&b"caff\0\x01\0\0"[..], &chunks.concat()].concat()
    }

    fn with(desc: Vec<u8>) -> Result<PcmLayout, Reason> {
        let free = chunk(*b"free", 3, b"abc");
        open(&file(&[desc, free, chunk(*b"data", 20, &[0; 20])]), 0)
    }

    #[test]
    fn the_length_may_be_unknown_or_a_lie() {
        let desc = desc(48_000.0, *b"lpcm", [0, 4, 1, 2, 16]);
        let with = |len| open(&file(&[desc.clone(), chunk(*b"data", len, &[0; 23])]), 0);
        assert_eq!(with(13).unwrap().n_frames, 2);
        let cut = Reason::Truncated { decoded: 4, expected: Some(24) };
        assert_eq!(with(100).unwrap_err(), cut);
        for len in [-1, -2, 0, 3, 4, i64::MIN, i64::MAX, 23 + 44] {
            assert_eq!(with(len).unwrap().n_frames, 4, "{len}");
        }
        let info = chunk(*b"info", 4, &[0; 4]);
        let empty = open(&file(&[desc, chunk(*b"data", 4, &[0; 4]), info]), 0);
        assert_eq!(empty.unwrap().n_frames, 0);
    }

    #[test]
    fn formats_are_told_by_their_packets() {
        for (words, n_frames) in [
            ([0, 2, 1, 1, 16], 8),
            ([2, 3, 1, 1, 24], 5),
            ([2, 4, 1, 1, 20], 4),
            ([3, 8, 1, 2, 32], 2),
            ([1, 8, 1, 1, 64], 2),
            ([0, 1, 1, 1, 8], 16),
        ] {
            assert_eq!(with(desc(8000.0, *b"lpcm", words)).unwrap().n_frames, n_frames);
        }
        assert_eq!(with(desc(8000.0, *b"ulaw", [0, 1, 1, 1, 8])).unwrap().n_frames, 16);
        for words in [[0, 5, 1, 2, 16], [0, 4, 2, 1, 16], [0, 0, 0, 2, 16]] {
            assert!(with(desc(8000.0, *b"lpcm", words)).is_ok());
        }
        for words in [[1, 2, 1, 1, 16], [0, 8, 1, 1, 64], [0, 0, 1, 1, 0]] {
            let error = with(desc(8000.0, *b"lpcm", words)).unwrap_err();
            assert!(matches!(error, Reason::MalformedHeader(_)), "{error:?}");
        }
        for n_channels in [0, 1025, u32::MAX] {
            let error =
                with(desc(8000.0, *b"alaw", [0, n_channels, 1, n_channels, 8])).unwrap_err();
            assert!(matches!(error, Reason::Limit(_)), "{error:?}");
        }
        for rate in [-1.0, f64::NAN, f64::INFINITY, 1e12] {
            assert!(with(desc(rate, *b"lpcm", [0, 2, 1, 1, 16])).is_err());
        }
        let error = with(desc(8000.0, *b"alac", [0, 0, 4096, 2, 16])).unwrap_err();
        assert_eq!(error, Reason::UnsupportedCodec("CAF with ALAC".to_owned()));
    }

    proptest::proptest! {
        #[test]
        fn hostile_chunks_end_in_a_layout_or_an_error(
            words in proptest::array::uniform5(0u32..40),
            kind in proptest::sample::select(vec![*b"lpcm", *b"alaw", *b"ulaw", *b"aac "]),
            lens in proptest::array::uniform2(proptest::num::i64::ANY),
            tail in proptest::collection::vec(proptest::num::u8::ANY, 0..80),
        ) {
            let desc = desc(44_100.0, kind, words);
            let free = chunk(*b"free", lens[0] & 127, &tail);
            let bytes = file(&[desc, free, chunk(*b"data", lens[1] >> 58, &tail), tail]);
            if let Ok(layout) = open(&bytes, 0) {
                proptest::prop_assert!(layout.n_frames <= bytes.len() as u64);
            }
        }
    }
}
