//! AAC-LC in the packets of a container.

use symphonia::{
    core::{
        audio::{Audio, Channels, GenericAudioBufferRef},
        codecs::audio::{
            AudioCodecParameters, AudioDecoder, AudioDecoderOptions, well_known::CODEC_ID_AAC,
        },
        packet::PacketRef,
        units::{Duration, Timestamp},
    },
    default::codecs::AacDecoder,
};

use super::{
    config::Config,
    raw::{FRAME_LEN, check_block},
    sbr::refuse_sbr,
};
use crate::{
    error::Reason,
    limits::MAX_CHANNELS,
    names::Codec,
    stream::{
        Coding, Counter, Decode, DecoderResult, Kept, Outcome, Packet, PacketSink, Shape, Track,
        WarmUp,
    },
};

/// The track of an `AudioSpecificConfig`.
pub(crate) fn track(config: &[u8]) -> Result<Track, Reason> {
    let Config { rate_hz, n_channels } = Config::read(config)?;
    Ok(Track { frame_len: FRAME_LEN, ..Track::new(Codec::Aac, rate_hz, n_channels, Coded) })
}

/// Packets of AAC-LC.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coded;

impl Coding for Coded {
    /// The overlap needs one packet, and the one before it to be decoded as it was.
    fn warm_up(&self) -> WarmUp {
        WarmUp::Packets(2)
    }

    fn counter(&self, _: &Track) -> Result<Counter, Reason> {
        Ok(Box::new(|_| Ok(FRAME_LEN)))
    }

    fn settle(&mut self, bytes: &[u8], packets: &[Packet], rate_hz: u32) -> Result<(), Reason> {
        refuse_sbr(bytes, packets, rate_hz)
    }

    /// There is only one.
    fn seek_header(&self) -> Option<Vec<u8>> {
        Some(Vec::new())
    }

    /// A new one for each row: the state of its noise generator outlives a reset.
    fn decoder<'a>(&'a self, shape: Shape, _: &'a mut Kept) -> DecoderResult<'a> {
        let mut params = AudioCodecParameters::new();
        params.for_codec(CODEC_ID_AAC).with_sample_rate(shape.rate_hz);
        params.with_channels(Channels::Discrete(shape.n_channels));
        let options = AudioDecoderOptions::default().gapless(false);
        let inner = AacDecoder::try_new(&params, &options);
        Ok(Box::new(Decoder(inner.map_err(|e| Reason::malformed(e.to_string()))?)))
    }
}

struct Decoder(AacDecoder);

impl Decode for Decoder {
    fn decode(&mut self, packet: &[u8], out: &mut PacketSink<'_, '_>) -> Result<Outcome, Reason> {
        let outcome = self.push(packet, out);
        if outcome != Outcome::Decoded {
            // What it left behind has nothing to do with the next packet.
            self.0.reset();
        }
        Ok(outcome)
    }

    fn lose(&mut self) {
        self.0.reset();
    }
}

impl Decoder {
    fn push(&mut self, packet: &[u8], out: &mut PacketSink<'_, '_>) -> Outcome {
        if !check_block(packet, out.n_channels) {
            return Outcome::Corrupt;
        }
        let frame = PacketRef::new(0, Timestamp::new(out.pts), Duration::new(0), packet);
        match self.0.decode_ref(&frame) {
            Ok(GenericAudioBufferRef::F32(pcm))
                if pcm.num_planes() == usize::from(out.n_channels) =>
            {
                let mut planes = [&[][..]; MAX_CHANNELS as usize];
                for (slice, plane) in planes.iter_mut().zip(pcm.iter_planes()) {
                    *slice = plane;
                }
                out.push(&planes)
            }
            _ => Outcome::Corrupt,
        }
    }
}
