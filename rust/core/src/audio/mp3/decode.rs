//! Feeds frames to the decoder, from early enough on that a crop has the same bits as the whole.

use symphonia::{
    core::{
        audio::{Audio, GenericAudioBufferRef},
        codecs::audio::{
            AudioCodecParameters, AudioDecoder, AudioDecoderOptions,
            well_known::{CODEC_ID_MP1, CODEC_ID_MP2, CODEC_ID_MP3},
        },
        packet::PacketRef,
        units::{Duration, Timestamp},
    },
    default::codecs::MpaDecoder,
};

use super::{
    header::Header,
    scan::{Frame, Layout},
};
use crate::audio::{Codec, cancel::Cancel, error::Reason, report::Damage, sink::Sink};

/// The MPEG frames that a window needs.
#[derive(Clone, Debug)]
pub(in crate::audio) struct Entry {
    frames: Vec<Frame>,
    /// The number of the first of them in the stream.
    first: u64,
    /// How many of them only warm the decoder up.
    n_warm_up: usize,
}

/// MPEG frames before the wanted one whose spectra must be right: overlap of the transform, then
/// memory of the synthesis filter, which for MPEG-2 reaches one frame further. Layers I and II have
/// that memory only, of 480 PCM frames: two of layer I, one of layer II.
const EXACT_BEFORE: usize = 2;

impl Entry {
    /// The frames for `len` PCM frames from playable frame `start` on.
    ///
    /// Main data may begin up to 511 bytes (MPEG-2: 255) of earlier main data back, so the way
    /// back goes over frames until it has that many bytes. That is exact: a decoder that starts
    /// there holds what one that started at the beginning holds.
    pub(in crate::audio) fn find(
        bytes: &[u8],
        layout: &Layout,
        frames: &[Frame],
        start: u64,
        len: u64,
    ) -> Self {
        let from_pcm = start + layout.delay;
        let end = (from_pcm + len).div_ceil(layout.frame_len).min(frames.len() as u64) as usize;
        let wanted = ((from_pcm / layout.frame_len) as usize).min(end);
        let mut begin = wanted.saturating_sub(EXACT_BEFORE);
        let mut missing = frames
            .get(begin)
            .and_then(|f| Header::read(bytes, f.offset).ok())
            .map_or(0, |header| header.reservoir_len());
        while missing > 0 && begin > 0 {
            begin -= 1;
            let main_data_len = frames.get(begin).map_or(0, |f| f.main_data_len);
            missing = missing.saturating_sub(usize::from(main_data_len));
        }
        let frames = frames.get(begin..end).unwrap_or_default().to_vec();
        Self { frames, first: begin as u64, n_warm_up: wanted - begin }
    }

    #[cfg(test)]
    pub(super) fn n_mpeg_frames(&self) -> usize {
        self.frames.len()
    }
}

/// Decodes the frames of `entry`.
pub(in crate::audio) fn decode(
    bytes: &[u8],
    layout: &Layout,
    entry: &Entry,
    sink: &mut Sink<'_>,
    cancel: &Cancel,
) -> Result<(), Reason> {
    let mut params = AudioCodecParameters::new();
    params.for_codec(match layout.codec {
        Codec::Mp1 => CODEC_ID_MP1,
        Codec::Mp2 => CODEC_ID_MP2,
        _ => CODEC_ID_MP3,
    });
    let mut decoder = MpaDecoder::try_new(&params, &AudioDecoderOptions::default().gapless(false))
        .map_err(|e| Reason::malformed(e.to_string()))?;
    let mut n_corrupt = 0;
    let mut pts = (entry.first * layout.frame_len) as i64 - layout.delay as i64;
    for (i, frame) in entry.frames.iter().enumerate() {
        cancel.check()?;
        let data = bytes.get(frame.offset..frame.offset + usize::from(frame.len));
        let packet = PacketRef::new(
            0,
            Timestamp::new(pts),
            Duration::new(layout.frame_len),
            data.unwrap_or_default(),
        );
        match decoder.decode_ref(&packet) {
            Ok(GenericAudioBufferRef::F32(pcm)) if pcm.frames() as u64 == layout.frame_len => {
                // What only warms up ends before the window, so the sink drops it.
                match (pcm.plane(0), pcm.plane(1)) {
                    (Some(left), Some(right)) if layout.n_channels == 2 => {
                        sink.push(pts, &[left, right]);
                    }
                    (Some(mono), None) if layout.n_channels == 1 => sink.push(pts, &[mono]),
                    _ => sink.note(Damage::ParamsChanged, 1, Reason::ParamsChanged)?,
                }
            }
            // A frame that only warms up may lack its reservoir, which is further back.
            _ if i < entry.n_warm_up => {}
            _ => n_corrupt += 1,
        }
        pts += layout.frame_len as i64;
    }
    sink.note_corrupt(n_corrupt)
}
