//! Frames into the sink, through Symphonia's decoder.

use symphonia::{
    core::{
        audio::{Audio, GenericAudioBufferRef},
        codecs::audio::{
            AudioCodecParameters, AudioDecoder, AudioDecoderOptions, well_known::CODEC_ID_FLAC,
        },
        packet::PacketRef,
        units::{Duration, Timestamp},
    },
    default::codecs::FlacDecoder,
};

use super::{frame::Header, info::StreamInfo};
use crate::audio::{error::Reason, sink::Sink, spec::MAX_CHANNELS};

/// Decodes frames one by one; they need nothing of each other.
pub(in crate::audio) struct Feed {
    info: StreamInfo,
    decoder: Option<(FlacDecoder, u32)>,
    n_corrupt: u64,
}

impl Feed {
    pub(in crate::audio) fn new(info: StreamInfo) -> Self {
        Self { info, decoder: None, n_corrupt: 0 }
    }

    /// Counts a frame whose bytes are damaged.
    pub(in crate::audio) fn skip(&mut self) {
        self.n_corrupt += 1;
    }

    /// Decodes a frame whose bytes are as they were written.
    pub(in crate::audio) fn push(
        &mut self,
        header: &Header,
        pts: u64,
        data: &[u8],
        sink: &mut Sink<'_>,
    ) -> Result<(), Reason> {
        let is_rate = header.rate_hz.is_none_or(|rate| rate == self.info.rate_hz);
        let bits = header.bits.unwrap_or(self.info.bits);
        if header.n_channels != self.info.n_channels || !is_rate {
            return Err(Reason::ParamsChanged);
        }
        if bits == 32 && header.has_difference {
            let what = "FLAC of 32 bits with stereo differences".to_owned();
            return Err(Reason::UnsupportedCodec(what));
        }
        let packet = PacketRef::new(0, Timestamp::new(0), Duration::new(0), data);
        let decoder = self.decoder(header.n_frames)?;
        match decoder.decode_ref(&packet) {
            Ok(GenericAudioBufferRef::S32(pcm)) => {
                let mut planes = [&[][..]; MAX_CHANNELS as usize];
                for (slice, plane) in planes.iter_mut().zip(pcm.iter_planes()) {
                    *slice = plane;
                }
                sink.push(pts as i64, planes.get(..pcm.num_planes()).unwrap_or_default());
            }
            _ => self.n_corrupt += 1,
        }
        Ok(())
    }

    /// The error, if frames were damaged.
    pub(in crate::audio) fn finish(&self) -> Result<(), Reason> {
        match self.n_corrupt {
            0 => Ok(()),
            count => Err(Reason::CorruptPackets { count }),
        }
    }

    /// A decoder for blocks of this length: STREAMINFO may be wrong about the longest.
    fn decoder(&mut self, n_frames: u32) -> Result<&mut FlacDecoder, Reason> {
        let decoder = match self.decoder.take() {
            Some((decoder, most)) if n_frames <= most => (decoder, most),
            _ => {
                let mut params = AudioCodecParameters::new();
                params.for_codec(CODEC_ID_FLAC).with_extra_data(self.info.plain(n_frames));
                let decoder = FlacDecoder::try_new(&params, &AudioDecoderOptions::default())
                    .map_err(|e| Reason::malformed(e.to_string()))?;
                (decoder, n_frames)
            }
        };
        Ok(&mut self.decoder.insert(decoder).0)
    }
}
