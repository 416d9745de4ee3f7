//! FLAC, RFC 9639, through Symphonia's demuxer and decoder.
//!
//! Metadata blocks are walked by their length here, and only STREAMINFO is passed on: pictures are
//! not copied, and an odd cue sheet or comment does not cost the recording.

use std::io::{self, Read, Seek, SeekFrom};

use symphonia::{
    core::{
        audio::{Audio, GenericAudioBufferRef},
        codecs::{
            CodecParameters,
            audio::{AudioDecoder, AudioDecoderOptions},
        },
        errors::Error,
        formats::{FormatOptions, FormatReader, SeekMode, SeekTo},
        io::{MediaSource, MediaSourceStream, MediaSourceStreamOptions},
        units::Timestamp,
    },
    default::{codecs::FlacDecoder, formats::FlacReader},
};

use super::{
    bytes::{be_u32, from, u8_at},
    cancel::Cancel,
    error::Reason,
    sink::Sink,
    spec::MAX_CHANNELS,
};

const STREAMINFO_LEN: usize = 34;
const HEAD_LEN: usize = 8 + STREAMINFO_LEN;

/// What STREAMINFO says, and where the audio begins.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) rate_hz: u32,
    pub(super) n_channels: u16,
    pub(super) n_frames: u64,
    /// The stream marker and STREAMINFO alone.
    head: [u8; HEAD_LEN],
    audio: usize,
}

/// Frames for each byte above which a promised length is checked before anything is sized by it.
/// Music has less than one; digital silence has thousands.
const PLAUSIBLE_FRAMES_PER_BYTE: u64 = 8;

/// Reads the metadata blocks of the stream at `offset`.
pub(super) fn open(bytes: &[u8], offset: usize, cancel: &Cancel) -> Result<Layout, Reason> {
    let mut at = offset + 4;
    let mut info = None;
    loop {
        let header = be_u32(bytes, at).ok_or_else(|| Reason::malformed("no audio follows"))?;
        let (kind, len) = (header >> 24 & 0x7F, (header & 0x00FF_FFFF) as usize);
        if kind == 0 && info.is_none() {
            info = from(bytes, at + 4).first_chunk::<STREAMINFO_LEN>();
        }
        at = at + 4 + len;
        if header >> 31 == 1 {
            break;
        }
    }
    let info = info.ok_or_else(|| Reason::malformed("there is no STREAMINFO"))?;
    let packed =
        u64::from(be_u32(info, 10).unwrap_or(0)) << 32 | u64::from(be_u32(info, 14).unwrap_or(0));
    let rate_hz = (packed >> 44) as u32;
    let n_channels = (packed >> 41 & 7) as u16 + 1;
    let mut head = [0; HEAD_LEN];
    head.iter_mut().zip(b"fLaC\x80\0\0\x22".iter().chain(info)).for_each(|(to, from)| *to = *from);
    let promised = packed & 0xF_FFFF_FFFF;
    let mut layout = Layout { rate_hz, n_channels, n_frames: promised, head, audio: at };
    let n_bytes = bytes.len().saturating_sub(at) as u64;
    if promised == 0 || promised / PLAUSIBLE_FRAMES_PER_BYTE > n_bytes {
        let counted = count(bytes, &layout, cancel)?;
        if promised > counted {
            return Err(Reason::Truncated { decoded: counted, expected: Some(promised) });
        }
        if promised == 0 {
            layout.n_frames = counted;
        }
    }
    Ok(layout)
}

/// Counts the frames by walking the packets, without decoding them.
fn count(bytes: &[u8], layout: &Layout, cancel: &Cancel) -> Result<u64, Reason> {
    let mut reader = reader(bytes, layout)?;
    let mut end = 0;
    while let Ok(Some(packet)) = reader.next_packet() {
        cancel.check()?;
        end = end.max((packet.pts.get().max(0) as u64).saturating_add(packet.dur.get()));
    }
    Ok(end)
}

fn reader<'a>(bytes: &'a [u8], layout: &Layout) -> Result<FlacReader<'a>, Reason> {
    let source = Source { head: layout.head, tail: from(bytes, layout.audio), at: 0 };
    let stream = MediaSourceStream::new(Box::new(source), MediaSourceStreamOptions::default());
    FlacReader::try_new(stream, FormatOptions::default())
        .map_err(|e| Reason::malformed(e.to_string()))
}

/// Decodes from frame `start` (0: from the first packet) until the sink is full.
pub(super) fn decode(
    bytes: &[u8],
    layout: &Layout,
    start: u64,
    sink: &mut Sink<'_>,
    cancel: &Cancel,
) -> Result<(), Reason> {
    let mut reader = reader(bytes, layout)?;
    let malformed = |e: Error| Reason::malformed(e.to_string());
    let track = reader.tracks().first();
    let Some(CodecParameters::Audio(params)) = track.and_then(|t| t.codec_params.as_ref()) else {
        return Err(Reason::malformed("there is no audio track"));
    };
    let mut decoder =
        FlacDecoder::try_new(params, &AudioDecoderOptions::default()).map_err(malformed)?;
    if start > 0 {
        let ts = Timestamp::new(start as i64);
        reader
            .seek(SeekMode::Accurate, SeekTo::Timestamp { ts, track_id: 0 })
            .map_err(malformed)?;
    }
    let mut n_corrupt = 0;
    while !sink.is_full() {
        cancel.check()?;
        // At the end of the bytes there is an error or there is none: what came is what counts.
        let Ok(Some(packet)) = reader.next_packet() else { break };
        if n_channels(&packet.data).is_some_and(|n| n != layout.n_channels) {
            return Err(Reason::ParamsChanged);
        }
        let Ok(GenericAudioBufferRef::S32(pcm)) = decoder.decode(&packet) else {
            n_corrupt += 1;
            continue;
        };
        let mut planes = [&[][..]; MAX_CHANNELS as usize];
        for (slice, plane) in planes.iter_mut().zip(pcm.iter_planes()) {
            *slice = plane;
        }
        sink.push(packet.pts.get(), planes.get(..pcm.num_planes()).unwrap_or_default());
    }
    match n_corrupt {
        0 => Ok(()),
        count => Err(Reason::CorruptPackets { count }),
    }
}

/// The channels that a frame header states, RFC 9639 section 9.1.3.
fn n_channels(frame: &[u8]) -> Option<u16> {
    match u8_at(frame, 3)? >> 4 {
        n @ 0..=7 => Some(u16::from(n) + 1),
        8..=10 => Some(2),
        _ => None,
    }
}

/// The file without its metadata.
struct Source<'a> {
    head: [u8; HEAD_LEN],
    tail: &'a [u8],
    at: u64,
}

impl Source<'_> {
    fn len(&self) -> u64 {
        (HEAD_LEN + self.tail.len()) as u64
    }
}

impl Read for Source<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let at = usize::try_from(self.at).unwrap_or(usize::MAX);
        let mut rest = match self.head.get(at..) {
            Some(head) if !head.is_empty() => head,
            _ => from(self.tail, at.saturating_sub(HEAD_LEN)),
        };
        let n = rest.read(buf)?;
        self.at += n as u64;
        Ok(n)
    }
}

impl Seek for Source<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.len().checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

impl MediaSource for Source<'_> {
    fn is_seekable(&self) -> bool {
        true
    }

    fn byte_len(&self) -> Option<u64> {
        Some(self.len())
    }
}
