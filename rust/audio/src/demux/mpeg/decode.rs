//! Feeds frames to the decoder, from early enough on that a crop has the same bits as the whole.

use symphonia::{
    core::{
        audio::{Audio, GenericAudioBufferRef},
        codecs::audio::{
            AudioCodecParameters, AudioDecoder, AudioDecoderOptions,
            well_known::{CODEC_ID_MP1, CODEC_ID_MP2},
        },
        packet::PacketRef,
        units::{Duration, Timestamp},
    },
    default::codecs::MpaDecoder,
};

use super::{
    index::{Frame, Index, Span},
    scan::MpegLayout,
};
use crate::{
    cancel::Cancel,
    codec::mp3::{header::Header, layer3},
    error::Reason,
    names::Codec,
    sink::Sink,
};

/// The MPEG frames that a window needs.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    frames: Span,
    /// The number of the first of them in the stream.
    first: u64,
    /// How many of them come before the window.
    n_warm_up: usize,
    /// How many of those are there only for main data that begin in them.
    n_kept: usize,
    /// The PCM frame of the stream that the window begins with.
    from_pcm: u64,
}

/// MPEG frames of layers I and II before the wanted one that must be right: the synthesis filter
/// remembers 480 PCM frames.
const EXACT_BEFORE: u64 = 2;

/// The numbers of the MPEG frames that a window needs.
pub(super) struct Needed {
    from_pcm: u64,
    /// The first one that must be right: the reservoir of main data comes before it.
    pub(super) exact: u64,
    /// The first one of the window.
    wanted: u64,
    /// Behind the last one.
    pub(super) end: u64,
}

impl Needed {
    /// Those for `len` PCM frames from playable frame `start` on, out of `n_mpeg_frames`.
    pub(super) fn of(layout: &MpegLayout, n_mpeg_frames: u64, start: u64, len: u64) -> Self {
        let from_pcm = start + layout.delay;
        let end = (from_pcm + len).div_ceil(layout.frame_len).min(n_mpeg_frames);
        let wanted = (from_pcm / layout.frame_len).min(end);
        let exact = match layout.codec {
            Codec::Mp3 => {
                let granule = (from_pcm / layer3::GRANULE_LEN).saturating_sub(layer3::N_BEFORE);
                (granule * layer3::GRANULE_LEN / layout.frame_len).min(wanted)
            }
            _ => wanted.saturating_sub(EXACT_BEFORE),
        };
        Self { from_pcm, exact, wanted, end }
    }
}

impl Wanted {
    /// The frames for `len` PCM frames from playable frame `start` on.
    ///
    /// Main data may begin up to 511 bytes (MPEG-2: 255) of earlier main data back, so the way
    /// back goes over frames until it has that many bytes. That is exact: a decoder that starts
    /// there holds what one that started at the beginning holds.
    pub(crate) fn find(
        bytes: &[u8],
        layout: &MpegLayout,
        index: &Index,
        start: u64,
        len: u64,
    ) -> Self {
        let Needed { from_pcm, exact, wanted, end } =
            Needed::of(layout, index.n_frames() as u64, start, len);
        let (exact, wanted, end) = (exact as usize, wanted as usize, end as usize);
        let begin = if exact < index.n_frames() {
            index.reservoir_start(bytes, exact, layout.reservoir_len)
        } else {
            exact
        };
        let frames = index.span(begin, end);
        let (n_warm_up, n_kept) = (wanted - begin, exact - begin);
        Self { frames, first: begin as u64, n_warm_up, n_kept, from_pcm }
    }

    /// The number of the first frame that is decoded.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    #[cfg(test)]
    pub(super) fn n_mpeg_frames(&self) -> usize {
        self.frames.n_frames()
    }
}

/// Decodes the frames of `wanted`.
pub(crate) fn decode(
    bytes: &[u8],
    layout: &MpegLayout,
    wanted: &Wanted,
    sink: &mut Sink<'_>,
    cancel: &Cancel,
) -> Result<(), Reason> {
    if layout.codec == Codec::Mp3 {
        decode_layer3(bytes, layout, wanted, sink, cancel)
    } else {
        decode_lower(bytes, layout, wanted, sink, cancel)
    }
}

impl Wanted {
    /// Each frame with its bytes and its first PCM frame in the stream.
    fn iter<'a>(
        &'a self,
        bytes: &'a [u8],
        layout: &MpegLayout,
    ) -> impl Iterator<Item = (&'a [u8], u64)> {
        let starts = (self.first..).map(|i| i * layout.frame_len);
        let data = |frame: Frame| bytes.get(frame.offset..frame.offset + usize::from(frame.len));
        self.frames.iter(bytes).map(move |frame| data(frame).unwrap_or_default()).zip(starts)
    }
}

fn decode_layer3(
    bytes: &[u8],
    layout: &MpegLayout,
    wanted: &Wanted,
    sink: &mut Sink<'_>,
    cancel: &Cancel,
) -> Result<(), Reason> {
    let mut decoder = layer3::Decoder::new(layout.n_channels);
    let first_granule = wanted.from_pcm / layer3::GRANULE_LEN;
    let mut n_corrupt = 0;
    for (i, (data, start)) in wanted.iter(bytes, layout).enumerate() {
        cancel.check()?;
        if i < wanted.n_kept {
            decoder.keep(data);
            continue;
        }
        let n_early = first_granule.saturating_sub(start / layer3::GRANULE_LEN);
        match decoder.decode(data, n_early) {
            _ if i < wanted.n_warm_up => {}
            Some(planes) => {
                let planes = planes.get(..usize::from(layout.n_channels)).unwrap_or_default();
                sink.push(start as i64 - layout.delay as i64, planes);
            }
            None => n_corrupt += 1,
        }
    }
    sink.note_corrupt(n_corrupt)
}

/// Layers I and II.
fn decode_lower(
    bytes: &[u8],
    layout: &MpegLayout,
    wanted: &Wanted,
    sink: &mut Sink<'_>,
    cancel: &Cancel,
) -> Result<(), Reason> {
    let mut params = AudioCodecParameters::new();
    params.for_codec(if layout.codec == Codec::Mp1 { CODEC_ID_MP1 } else { CODEC_ID_MP2 });
    let mut decoder = MpaDecoder::try_new(&params, &AudioDecoderOptions::default().gapless(false))
        .map_err(|e| Reason::malformed(e.to_string()))?;
    let mut n_corrupt = 0;
    for (i, (data, start)) in wanted.iter(bytes, layout).enumerate() {
        cancel.check()?;
        let pts = start as i64 - layout.delay as i64;
        let duration = Duration::new(layout.frame_len);
        let packet = PacketRef::new(0, Timestamp::new(pts), duration, data);
        let is_fit = Header::read(data, 0).is_ok_and(|h| h.n_channels() == layout.n_channels);
        let decoded = if is_fit { decoder.decode_ref(&packet).ok() } else { None };
        match decoded {
            Some(GenericAudioBufferRef::F32(pcm)) if pcm.frames() as u64 == layout.frame_len => {
                let planes = [pcm.plane(0), pcm.plane(1)].map(Option::unwrap_or_default);
                let planes = planes.get(..usize::from(layout.n_channels)).unwrap_or_default();
                // What only warms up ends before the window, so the sink drops it.
                sink.push(pts, planes);
            }
            _ => {
                // The next frame begins in silence, wherever decoding began.
                decoder.reset();
                n_corrupt += u64::from(i >= wanted.n_warm_up);
            }
        }
    }
    sink.note_corrupt(n_corrupt)
}
