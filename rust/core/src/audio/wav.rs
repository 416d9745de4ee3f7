//! RIFF WAVE, RF64 and BW64: header and PCM, straight from the bytes.

use super::{
    bytes::{from, le_u16, le_u32, le_u64},
    cancel::Cancel,
    error::Reason,
    sink::Sink,
    spec::MAX_CHANNELS,
};

/// How one sample is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    U8,
    I16,
    I24,
    I32,
    F32,
    F64,
}

impl Encoding {
    fn n_bytes(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::I16 => 2,
            Self::I24 => 3,
            Self::I32 | Self::F32 => 4,
            Self::F64 => 8,
        }
    }
}

/// Where the samples lie and what they are.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) rate_hz: u32,
    pub(super) n_channels: u16,
    pub(super) n_frames: u64,
    encoding: Encoding,
    data: usize,
}

const PCM: u16 = 1;
const FLOAT: u16 = 3;
const EXTENSIBLE: u16 = 0xFFFE;

/// Reads the chunks up to the samples.
///
/// A data chunk of length 0 or 0xFFFFFFFF that is followed by bytes was written to a pipe: it goes
/// to the end. One that promises more than there is counts as truncated.
pub(super) fn open(bytes: &[u8]) -> Result<Layout, Reason> {
    let mut at = 12;
    let mut format = None;
    let mut data_len_64 = None;
    loop {
        let (Some(id), Some(len)) = (bytes.get(at..at + 4), le_u32(bytes, at + 4)) else {
            let missing =
                if format.is_none() { "there is no fmt chunk" } else { "there is no data chunk" };
            return Err(Reason::malformed(missing));
        };
        let body = at + 8;
        match id {
            b"fmt " => format = Some(Format::parse(from(bytes, body), len)?),
            b"ds64" => data_len_64 = le_u64(bytes, body + 8),
            b"data" => {
                let format = format.ok_or_else(|| Reason::malformed("data comes before fmt"))?;
                let len = match (len, data_len_64) {
                    (u32::MAX, Some(len)) => Some(len),
                    (u32::MAX, None) => None,
                    // A chunk that is really empty ends the file, or other chunks follow it.
                    (0, _) if !is_chunk(from(bytes, body)) => None,
                    (len, _) => Some(u64::from(len)),
                };
                return format.layout(bytes.len(), body, len);
            }
            _ => {}
        }
        at = body.saturating_add(len as usize).saturating_add(len as usize & 1);
    }
}

fn is_chunk(bytes: &[u8]) -> bool {
    bytes.is_empty()
        || bytes.first_chunk::<4>().is_some_and(|id| id.iter().all(|b| (0x20..0x7F).contains(b)))
            && le_u32(bytes, 4).is_some_and(|len| len as usize <= bytes.len() - 8)
}

struct Format {
    rate_hz: u32,
    n_channels: u16,
    encoding: Encoding,
}

impl Format {
    fn parse(body: &[u8], len: u32) -> Result<Self, Reason> {
        let short = || Reason::malformed("the fmt chunk is too short");
        let mut tag = le_u16(body, 0).ok_or_else(short)?;
        let n_channels = le_u16(body, 2).ok_or_else(short)?;
        let rate_hz = le_u32(body, 4).ok_or_else(short)?;
        let block = le_u16(body, 12).ok_or_else(short)?;
        let bits = le_u16(body, 14).ok_or_else(short)?;
        if tag == EXTENSIBLE && len >= 26 {
            tag = le_u16(body, 24).ok_or_else(short)?;
        }
        if n_channels == 0 || n_channels > MAX_CHANNELS {
            return Err(Reason::Limit(format!("{n_channels} channels are not within 1 and 8")));
        }
        // The container of a sample is what the block says; its bits may be fewer, left-justified.
        let n_bytes = block / n_channels;
        let encoding = match (tag, n_bytes) {
            (PCM, 1) => Encoding::U8,
            (PCM, 2) => Encoding::I16,
            (PCM, 3) => Encoding::I24,
            (PCM, 4) => Encoding::I32,
            (FLOAT, 4) => Encoding::F32,
            (FLOAT, 8) => Encoding::F64,
            (PCM | FLOAT, _) => {
                return Err(Reason::malformed(format!("{bits} bits in blocks of {block} bytes")));
            }
            _ => return Err(Reason::UnsupportedCodec(format!("WAV of type {}", tag_name(tag)))),
        };
        if usize::from(block) != encoding.n_bytes() * usize::from(n_channels) {
            return Err(Reason::malformed(format!(
                "{n_channels} channels in blocks of {block} bytes"
            )));
        }
        Ok(Self { rate_hz, n_channels, encoding })
    }

    fn layout(self, n_bytes: usize, data: usize, len: Option<u64>) -> Result<Layout, Reason> {
        let block = (self.encoding.n_bytes() * usize::from(self.n_channels)) as u64;
        let n_frames = n_bytes.saturating_sub(data) as u64 / block;
        let expected = len.map_or(n_frames, |len| len / block);
        if expected > n_frames {
            return Err(Reason::Truncated { decoded: n_frames, expected: Some(expected) });
        }
        let Self { rate_hz, n_channels, encoding } = self;
        Ok(Layout { rate_hz, n_channels, n_frames: expected, encoding, data })
    }
}

fn tag_name(tag: u16) -> String {
    match tag {
        0x0002 => "Microsoft ADPCM".to_owned(),
        0x0006 => "A-law".to_owned(),
        0x0007 => "mu-law".to_owned(),
        0x0011 => "IMA ADPCM".to_owned(),
        0x0031 => "GSM 6.10".to_owned(),
        0x0055 => "MP3".to_owned(),
        _ => format!("{tag:#06x}"),
    }
}

/// Frames that are converted at a time: all channels of a block stay in the first-level cache.
const BLOCK: usize = 512;

/// Converts the frames that the sink misses.
pub(super) fn decode(
    bytes: &[u8],
    layout: &Layout,
    sink: &mut Sink<'_>,
    cancel: &Cancel,
) -> Result<(), Reason> {
    match layout.encoding {
        Encoding::U8 => {
            convert::<1>(bytes, layout, sink, cancel, |[b]| (f32::from(b) - 128.0) * (1.0 / 128.0))
        }
        Encoding::I16 => convert::<2>(bytes, layout, sink, cancel, |b| {
            f32::from(i16::from_le_bytes(b)) * (1.0 / 32_768.0)
        }),
        Encoding::I24 => convert::<3>(bytes, layout, sink, cancel, |[a, b, c]| {
            (i32::from_le_bytes([0, a, b, c]) >> 8) as f32 * (1.0 / 8_388_608.0)
        }),
        Encoding::I32 => convert::<4>(bytes, layout, sink, cancel, |b| {
            i32::from_le_bytes(b) as f32 * (1.0 / 2_147_483_648.0)
        }),
        Encoding::F32 => convert::<4>(bytes, layout, sink, cancel, f32::from_le_bytes),
        Encoding::F64 => {
            convert::<8>(bytes, layout, sink, cancel, |b| f64::from_le_bytes(b) as f32)
        }
    }
}

fn convert<const W: usize>(
    bytes: &[u8],
    layout: &Layout,
    sink: &mut Sink<'_>,
    cancel: &Cancel,
    to_f32: impl Fn([u8; W]) -> f32,
) -> Result<(), Reason> {
    let n_channels = usize::from(layout.n_channels);
    let mut planes = [[0.0; BLOCK]; MAX_CHANNELS as usize];
    let mut pts = sink.next();
    let start = layout.data + pts as usize * n_channels * W;
    for block in from(bytes, start).chunks(BLOCK * n_channels * W) {
        cancel.check()?;
        let (samples, _) = block.as_chunks::<W>();
        let n_frames = samples.len() / n_channels;
        match &mut planes {
            // One and two channels in a form that the compiler vectorises.
            [mono, ..] if n_channels == 1 => {
                for (to, &sample) in mono.iter_mut().zip(samples) {
                    *to = to_f32(sample);
                }
            }
            [left, right, ..] if n_channels == 2 => {
                let pairs = samples.as_chunks::<2>().0;
                for ((left, right), &[l, r]) in left.iter_mut().zip(right).zip(pairs) {
                    (*left, *right) = (to_f32(l), to_f32(r));
                }
            }
            planes => {
                for (c, plane) in planes.iter_mut().take(n_channels).enumerate() {
                    let channel = samples.iter().skip(c).step_by(n_channels);
                    for (to, &sample) in plane.iter_mut().zip(channel) {
                        *to = to_f32(sample);
                    }
                }
            }
        }
        let mut slices = [&[][..]; MAX_CHANNELS as usize];
        for (slice, plane) in slices.iter_mut().zip(&planes) {
            *slice = plane.get(..n_frames).unwrap_or_default();
        }
        sink.push(pts as i64, slices.get(..n_channels).unwrap_or_default());
        if sink.is_full() {
            break;
        }
        pts += n_frames as u64;
    }
    Ok(())
}
