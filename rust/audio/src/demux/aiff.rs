//! AIFF and AIFF-C: the header. The samples are [`pcm`](crate::demux::pcm).

use crate::{
    bytes::{be_u16, be_u32, be_u64, from},
    demux::{
        container::{Container, Input, OpenResult},
        pcm::{
            self, Encoding,
            Endian::{Big, Little},
            Format, PcmLayout,
        },
        stated::{Chunks, Outer, Stated, is_forgotten},
    },
    error::{Exceeded, Reason},
    names::Codec,
    report::Ledger,
    stream::Scratch,
};

const CHUNKS: Chunks =
    Chunks { size: |chunk| be_u32(chunk, 4).map(u64::from), header: 8, is_padded: true };

/// AIFF and AIFF-C.
pub(crate) struct Aiff;

impl Container for Aiff {
    fn find(&self, bytes: &[u8], at: usize) -> Option<usize> {
        let rest = bytes.get(at..)?;
        let is_aiff = matches!(rest.get(8..12), Some(b"AIFF" | b"AIFC"));
        (rest.starts_with(b"FORM") && is_aiff).then_some(at)
    }

    fn codec(&self, _: &[u8], _: usize) -> Option<Codec> {
        Some(Codec::Aiff)
    }

    fn open(&self, input: Input<'_>, _: &mut Scratch, ledger: &mut Ledger) -> OpenResult {
        let layout = open(input.bytes, input.at, ledger)?;
        Ok(Box::new(pcm::Stored { codec: Codec::Aiff, layout }))
    }
}

/// Reads the chunks of the file at `offset`. They come in any order.
///
/// The SSND chunk has the samples that it says, as players have it. Where it says nothing that can be, the COMM
/// chunk does; and where COMM says that no more are missing, none are.
fn open(bytes: &[u8], offset: usize, ledger: &mut Ledger) -> Result<PcmLayout, Reason> {
    let is_aifc =
        bytes.get(offset.saturating_add(8)..).is_some_and(|form| form.starts_with(b"AIFC"));
    let mut at = offset.saturating_add(12);
    let mut common = None;
    let mut sound = None;
    while let (Some(id), Some(len)) = (from(bytes, at).first_chunk::<4>(), be_u32(bytes, at + 4)) {
        let body = at + 8;
        match id {
            b"COMM" if common.is_none() => {
                common = Some(Common::parse(from(bytes, body), len, is_aifc)?);
            }
            b"SSND" if sound.is_none() => sound = Some((body, len)),
            _ => {}
        }
        if common.is_some() && sound.is_some() {
            break;
        }
        at = CHUNKS.next(bytes, body, len as usize);
        CHUNKS.remark(at - body, len as usize, ledger)?;
    }
    let common = common.ok_or_else(|| Reason::malformed("there is no COMM chunk"))?;
    let Some((body, len)) = sound else {
        // A file without frames need not have the chunk.
        return match common.n_frames {
            0 => {
                let (len, told) = (Some(0), None);
                let stated = Stated { len, told, header: 0, is_closed: true, is_odd: false };
                common.format.layout(&[], 0, &stated, ledger)
            }
            _ => Err(Reason::malformed("there is no SSND chunk")),
        };
    };
    let skip = be_u32(bytes, body).ok_or_else(|| Reason::malformed("the SSND chunk is cut"))?;
    let data = body.saturating_add(8).saturating_add(skip as usize);
    let there = from(bytes, data).len() as u64;
    let counted = Some(u64::from(common.n_frames) * common.format.block())
        .filter(|_| !matches!(common.n_frames, 0 | u32::MAX));
    let held = match len {
        0 | u32::MAX => None,
        len => Some(u64::from(len).saturating_sub(8 + u64::from(skip))),
    };
    let end = body.saturating_add(len as usize + (len & 1) as usize);
    let is_explained = held.is_none() || end >= bytes.len() || CHUNKS.explain(bytes, end);
    let is_forgotten =
        |&held: &u64| is_forgotten(held, there.saturating_sub(held)) && !is_explained;
    let form = be_u32(bytes, offset.saturating_add(4)).filter(|len| !matches!(len, 0 | &u32::MAX));
    let outer = Outer::of(form.map(|len| offset as u64 + 8 + u64::from(len)), bytes.len());
    let is_closed = outer.is_right || counted.is_some_and(|counted| counted <= there);
    let stated = Stated {
        told: counted.or(held),
        len: held.filter(|held| !is_forgotten(held)).or(counted.filter(|_| held.is_none())),
        header: (data - offset) as u64,
        is_closed,
        is_odd: outer.is_wrong || !is_explained,
    };
    common.format.layout(bytes, data, &stated, ledger)
}

struct Common {
    n_frames: u32,
    format: Format,
}

impl Common {
    fn parse(body: &[u8], len: u32, is_aifc: bool) -> Result<Self, Reason> {
        let body = body.get(..len as usize).unwrap_or(body);
        let short = || Reason::malformed("the COMM chunk is too short");
        let n_channels = be_u16(body, 0).ok_or_else(short)?;
        let n_frames = be_u32(body, 2).ok_or_else(short)?;
        let bits = be_u16(body, 6).ok_or_else(short)?;
        let rate = be_u16(body, 8).zip(be_u64(body, 10)).ok_or_else(short)?;
        let rate_hz = rate_hz(rate.0, rate.1)?;
        // The container is the next whole byte; fewer bits are left-justified.
        let n_bytes = u32::from(bits).div_ceil(8);
        let kind =
            if is_aifc { *from(body, 18).first_chunk::<4>().ok_or_else(short)? } else { *b"NONE" };
        let encoding = match &kind {
            b"NONE" | b"twos" => Encoding::signed(n_bytes, Big),
            b"sowt" => Encoding::signed(n_bytes, Little),
            b"raw " => (n_bytes == 1).then_some(Encoding::U8),
            b"in24" => Some(Encoding::I24(Big)),
            b"42ni" | b"42n1" => Some(Encoding::I24(Little)),
            b"in32" => Some(Encoding::I32(Big)),
            b"23ni" | b"23n1" => Some(Encoding::I32(Little)),
            b"fl32" | b"FL32" => Some(Encoding::F32(Big)),
            b"fl64" | b"FL64" => Some(Encoding::F64(Big)),
            b"alaw" | b"ALAW" => Some(Encoding::ALaw),
            b"ulaw" | b"ULAW" => Some(Encoding::MuLaw),
            kind => return Err(Reason::UnsupportedCodec(compression_name(*kind))),
        };
        let encoding =
            encoding.ok_or_else(|| Reason::malformed(format!("samples of {bits} bits")))?;
        Ok(Self { n_frames, format: Format::new(rate_hz, n_channels.into(), encoding)? })
    }
}

fn compression_name(kind: [u8; 4]) -> String {
    let name = match &kind {
        b"ima4" => "IMA ADPCM",
        b"MAC3" | b"MAC6" => "MACE",
        b"GSM " => "GSM 6.10",
        b"dwvw" | b"DWVW" => "DWVW",
        b"QDMC" | b"QDM2" => "QDesign",
        b"Qclp" => "QUALCOMM PureVoice",
        b"G722" | b"G726" | b"G728" => "G.722, G.726 or G.728",
        _ => return format!("AIFF-C of type {}", kind.escape_ascii()),
    };
    format!("AIFF-C with {name}")
}

/// A rate in the 80 bits of IEEE 754 extended precision, as the nearest whole number.
fn rate_hz(sign_and_exponent: u16, mantissa: u64) -> Result<u32, Reason> {
    // The mantissa has its point behind the first bit; the exponent is biased by 16383.
    match sign_and_exponent.checked_sub(16_383).filter(|&exponent| exponent < 32) {
        Some(exponent) => {
            let halves = mantissa >> (62 - exponent);
            u32::try_from(halves.div_ceil(2))
                .map_err(|_| Exceeded::fixed("max_sample_rate", "a rate above 2^32 Hz"))
        }
        None => Err(Reason::malformed("the rate is no frequency")),
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
        [&id[..], &(body.len() as u32).to_be_bytes(), body, &pad].concat()
    }

    const RATE_44100: [u8; 10] = [0x40, 0x0E, 0xAC, 0x44, 0, 0, 0, 0, 0, 0];

    fn comm(n_channels: u16, n_frames: u32, bits: u16, kind: &[u8]) -> Vec<u8> {
        let head = [&n_channels.to_be_bytes()[..], &n_frames.to_be_bytes(), &bits.to_be_bytes()];
        chunk(*b"COMM", &[&head.concat(), &RATE_44100[..], kind].concat())
    }

    fn ssnd(skip: u32, samples: &[u8]) -> Vec<u8> {
        let head = [&skip.to_be_bytes()[..], &[0; 4], &vec![9; skip as usize]].concat();
        chunk(*b"SSND", &[&head, samples].concat())
    }

    fn file(form: [u8; 4], chunks: &[Vec<u8>]) -> Vec<u8> {
        [&b"FORM\0\0\0\0"[..], &form, &chunks.concat()].concat()
    }

    #[test]
    fn chunks_come_in_any_order() {
        let (comm, ssnd) = (comm(1, 3, 16, b""), ssnd(6, &[1, 2, 3, 4, 5, 6]));
        let one = open(&file(*b"AIFF", &[comm.clone(), ssnd.clone()]), 0).unwrap();
        let other = open(&file(*b"AIFF", &[ssnd, chunk(*b"NAME", b"abc"), comm]), 0).unwrap();
        assert_eq!((one.rate_hz, one.n_channels, one.n_frames), (44_100, 1, 3));
        assert_eq!((other.rate_hz, other.n_channels, other.n_frames), (44_100, 1, 3));
    }

    #[test]
    fn frames_are_those_that_are_promised_and_there() {
        let with = |promised, samples: &[u8]| {
            let bytes = file(*b"AIFF", &[comm(1, promised, 16, b""), ssnd(0, samples)]);
            open(&bytes, 0).map(|layout| layout.n_frames)
        };
        for counted in [2, 0, u32::MAX, 9] {
            assert_eq!(with(counted, &[0; 6]), Ok(3), "{counted}");
        }
        let mut cut = file(*b"AIFF", &[comm(1, 10, 16, b""), ssnd(0, &[0; 20])]);
        cut.truncate(cut.len() - 14);
        let truncated = Reason::Truncated { decoded: 3, expected: Some(10) };
        assert_eq!(open(&cut, 0).unwrap_err(), truncated);
        let none = file(*b"AIFF", &[comm(1, 0, 16, b"")]);
        assert_eq!(open(&none, 0).unwrap().n_frames, 0);
        let mut piped = file(*b"AIFF", &[comm(1, 0, 16, b""), ssnd(0, &[0; 6])]);
        let at = piped.len() - 18;
        piped[at..at + 4].fill(0);
        assert_eq!(open(&piped, 0).unwrap().n_frames, 3);
    }

    #[test]
    fn rates_are_whole_numbers() {
        assert_eq!(rate_hz(0x400E, 0xAC44 << 48), Ok(44_100));
        assert_eq!(rate_hz(0x400D, 0xAC44 << 48), Ok(22_050));
        assert_eq!(rate_hz(0x400C, 0xAC44 << 48), Ok(11_025));
        assert_eq!(rate_hz(0x3FFF, 1 << 63), Ok(1));
        assert!(rate_hz(0x401F, u64::MAX).is_err());
        assert!(rate_hz(0xC00E, 0xAC44 << 48).is_err());
    }

    #[test]
    fn types_are_named() {
        let with = |kind: &[u8], bits| {
            open(&file(*b"AIFC", &[comm(1, 1, bits, kind), ssnd(0, &[0; 8])]), 0)
        };
        for kind in [b"NONE", b"twos", b"sowt", b"in24", b"in32", b"fl32", b"fl64", b"alaw"] {
            assert!(with(kind, 16).unwrap().n_frames >= 1);
        }
        let error = with(b"ima4", 16).unwrap_err();
        assert_eq!(error, Reason::UnsupportedCodec("AIFF-C with IMA ADPCM".to_owned()));
        assert!(matches!(with(b"a\0\xFFb", 16), Err(Reason::UnsupportedCodec(_))));
        assert!(matches!(with(b"NONE", 33), Err(Reason::MalformedHeader(_))));
        assert!(matches!(with(b"NONE", 0), Err(Reason::MalformedHeader(_))));
        assert!(matches!(with(b"", 16), Err(Reason::MalformedHeader(_))));
    }

    proptest::proptest! {
        #[test]
        fn hostile_chunks_end_in_a_layout_or_an_error(
            form in proptest::sample::select(vec![*b"AIFF", *b"AIFC"]),
            chunks in proptest::collection::vec(
                (
                    proptest::sample::select(vec![*b"COMM", *b"SSND", *b"NAME"]),
                    proptest::option::of(proptest::num::u32::ANY),
                    proptest::collection::vec(proptest::num::u8::ANY, 0..40),
                ),
                0..5,
            ),
        ) {
            let chunks: Vec<_> = chunks
                .into_iter()
                .map(|(id, len, body)| {
                    let len = len.unwrap_or(body.len() as u32);
                    [&id[..], &len.to_be_bytes(), &body].concat()
                })
                .collect();
            let bytes = file(form, &chunks);
            if let Ok(layout) = open(&bytes, 0) {
                proptest::prop_assert!(layout.n_frames <= bytes.len() as u64);
            }
        }
    }
}
