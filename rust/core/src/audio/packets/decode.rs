//! Feeds packets to their decoder, straight from the file's bytes.

use symphonia::{
    core::{
        audio::{Audio, AudioBuffer, Channels, GenericAudioBufferRef},
        codecs::audio::{
            AudioCodecParameters, AudioDecoder, AudioDecoderOptions, well_known::CODEC_ID_AAC,
        },
        packet::PacketRef,
        units::{Duration, Timestamp},
    },
    default::codecs::AacDecoder,
};

use super::{Coding, Entry, Layout, Packet, track};
use crate::audio::{
    aac, alac,
    cancel::Cancel,
    error::Reason,
    flac, mp3,
    opus::{self, PacketDecoder},
    sink::{Sample, Sink},
    spec::MAX_CHANNELS,
    vorbis,
};

/// PCM frames that are converted at a time.
const PCM_PIECE: usize = 4096;

/// Decodes the packets of `entry` until the sink is full.
pub(in crate::audio) fn decode(
    bytes: &[u8],
    layout: &Layout,
    entry: &Entry,
    cache: &mut vorbis::Cache,
    sink: &mut Sink<'_>,
    cancel: &Cancel,
) -> Result<(), Reason> {
    let mut params = AudioCodecParameters::new();
    let options = AudioDecoderOptions::default().gapless(false);
    let malformed = |e: symphonia::core::errors::Error| Reason::malformed(e.to_string());
    let mut run = Run { bytes, layout, entry, cancel };
    match &layout.coding {
        Coding::Pcm(_) => run.pcm(sink),
        // A new one for each row: the state of its noise generator outlives a reset.
        Coding::Aac => {
            params.for_codec(CODEC_ID_AAC).with_sample_rate(layout.rate_hz);
            params.with_channels(Channels::Discrete(layout.n_channels));
            run.aac(&mut AacDecoder::try_new(&params, &options).map_err(malformed)?, sink)
        }
        Coding::Alac(config) => run.alac(*config, sink),
        Coding::Flac(info) => run.flac(*info, sink),
        Coding::Mp3 => run.mp3(sink),
        Coding::Opus(stream) => run.opus(stream, sink),
        Coding::Vorbis(headers) => run.vorbis(cache.get(headers)?, sink),
    }
}

struct Run<'a> {
    bytes: &'a [u8],
    layout: &'a Layout,
    entry: &'a Entry,
    cancel: &'a Cancel,
}

impl Run<'_> {
    /// The playable frame that a packet begins with.
    fn pts(&self, packet: &Packet) -> i64 {
        packet.start as i64 - self.layout.delay as i64
    }

    fn aac(&mut self, decoder: &mut dyn AudioDecoder, sink: &mut Sink<'_>) -> Result<(), Reason> {
        let mut n_corrupt = 0;
        let mut end = None;
        for (i, packet) in self.entry.packets.iter().enumerate() {
            if sink.is_full() {
                break;
            }
            self.cancel.check()?;
            if end.replace(packet.end()).is_some_and(|end| end != packet.start) {
                decoder.reset(); // packets are lost before this one
            }
            let pts = self.pts(packet);
            let data = packet.data(self.bytes).unwrap_or_default();
            let is_sound = aac::check_block(data, self.layout.n_channels);
            let frame = PacketRef::new(0, Timestamp::new(pts), Duration::new(0), data);
            let decoded = if is_sound { decoder.decode_ref(&frame).ok() } else { None };
            let came = match decoded {
                Some(GenericAudioBufferRef::F32(pcm)) => self.push(packet, pcm, sink),
                _ => false,
            };
            if !came {
                // What it left behind has nothing to do with the next packet.
                decoder.reset();
            }
            // What warms up may itself lack what came before it, but for the last, which overlaps.
            if !came && i + 1 >= self.entry.n_warm_up {
                n_corrupt += 1;
            }
        }
        sink.note_corrupt(n_corrupt)
    }

    /// Hands over what a packet gave, if it is what was promised.
    fn push<S: Sample + symphonia::core::audio::sample::Sample>(
        &self,
        packet: &Packet,
        pcm: &AudioBuffer<S>,
        sink: &mut Sink<'_>,
    ) -> bool {
        let n_channels = usize::from(self.layout.n_channels);
        if pcm.frames() != packet.n_frames as usize || pcm.num_planes() != n_channels {
            return false;
        }
        let mut planes = [&[][..]; MAX_CHANNELS as usize];
        for (slice, plane) in planes.iter_mut().zip(pcm.iter_planes()) {
            *slice = plane;
        }
        sink.push(self.pts(packet), planes.get(..n_channels).unwrap_or_default());
        true
    }

    fn alac(&mut self, config: alac::Config, sink: &mut Sink<'_>) -> Result<(), Reason> {
        let mut decoder = alac::Decoder::new(config);
        let n_channels = usize::from(self.layout.n_channels);
        let mut n_corrupt = 0;
        for packet in &self.entry.packets {
            if sink.is_full() {
                break;
            }
            self.cancel.check()?;
            let data = packet.data(self.bytes).unwrap_or_default();
            let is_sound = track::is_alac(data, self.layout.n_channels);
            let planes = if is_sound { decoder.decode(data) } else { None };
            match planes.as_ref().and_then(|planes| planes.get(..n_channels)) {
                Some(planes) if planes.iter().all(|p| p.len() == packet.n_frames as usize) => {
                    sink.push(self.pts(packet), planes);
                }
                _ => n_corrupt += 1,
            }
        }
        sink.note_corrupt(n_corrupt)
    }

    fn opus(&mut self, stream: &opus::Stream, sink: &mut Sink<'_>) -> Result<(), Reason> {
        let mut decoder = PacketDecoder::new(&stream.head, stream.has_silk)?;
        let (mut n_corrupt, mut end) = (0, None);
        for packet in &self.entry.packets {
            if sink.is_full() {
                break;
            }
            self.cancel.check()?;
            if end.replace(packet.end()).is_some_and(|end| end != packet.start) {
                decoder = PacketDecoder::new(&stream.head, stream.has_silk)?; // packets are lost before this one
            }
            let data = packet.data(self.bytes).unwrap_or_default();
            let planes = decoder.decode(data);
            let planes = planes.filter(|p| p.iter().all(|p| p.len() == packet.n_frames as usize));
            let Some(planes) = planes else {
                n_corrupt += 1;
                decoder = PacketDecoder::new(&stream.head, stream.has_silk)?;
                continue;
            };
            let mut slices = [&[][..]; MAX_CHANNELS as usize];
            for (slice, plane) in slices.iter_mut().zip(planes) {
                *slice = plane;
            }
            sink.push(self.pts(packet), slices.get(..planes.len()).unwrap_or_default());
        }
        sink.note_corrupt(n_corrupt)
    }

    fn vorbis(&mut self, decoder: &mut vorbis::Decoder, sink: &mut Sink<'_>) -> Result<(), Reason> {
        let (mut n_corrupt, mut end) = (0, None);
        for packet in &self.entry.packets {
            if sink.is_full() {
                break;
            }
            self.cancel.check()?;
            if end.replace(packet.end()).is_some_and(|end| end != packet.start) {
                decoder.reset(); // packets are lost before this one
            }
            let is_first = decoder.is_new();
            let planes = decoder.decode(packet.data(self.bytes).unwrap_or_default());
            let n_frames = packet.n_frames as usize;
            match planes {
                // The first packet only prepares the next one.
                Some(_) if is_first => {}
                Some(planes) if planes.iter().all(|plane| plane.len() == n_frames) => {
                    let mut slices = [&[][..]; MAX_CHANNELS as usize];
                    for (slice, plane) in slices.iter_mut().zip(planes) {
                        *slice = plane;
                    }
                    sink.push(self.pts(packet), slices.get(..planes.len()).unwrap_or_default());
                }
                _ => {
                    n_corrupt += 1;
                    decoder.reset();
                }
            }
        }
        sink.note_corrupt(n_corrupt)
    }

    fn flac(&mut self, info: flac::StreamInfo, sink: &mut Sink<'_>) -> Result<(), Reason> {
        let mut feed = flac::Feed::new(info);
        for packet in &self.entry.packets {
            if sink.is_full() {
                break;
            }
            self.cancel.check()?;
            let data = packet.data(self.bytes).unwrap_or_default();
            let header = flac::Header::parse(data).filter(|h| h.n_frames == packet.n_frames);
            match header.filter(|_| flac::is_intact(data)) {
                Some(header) => feed.push(&header, self.pts(packet), data, sink)?,
                None => feed.skip(),
            }
        }
        feed.finish(sink)
    }

    fn mp3(&mut self, sink: &mut Sink<'_>) -> Result<(), Reason> {
        let mut decoder = mp3::Decoder::new(self.layout.n_channels);
        let (mut n_corrupt, mut end) = (0, None);
        for packet in &self.entry.packets {
            if sink.is_full() {
                break;
            }
            self.cancel.check()?;
            if end.replace(packet.end()).is_some_and(|end| end != packet.start) {
                decoder.lose();
            }
            let planes = decoder.decode(packet.data(self.bytes).unwrap_or_default(), 0);
            let n_frames = packet.n_frames as usize;
            match planes.as_ref().and_then(|p| p.get(..usize::from(self.layout.n_channels))) {
                Some(planes) if planes.iter().all(|plane| plane.len() == n_frames) => {
                    sink.push(self.pts(packet), planes);
                }
                _ => n_corrupt += 1,
            }
        }
        sink.note_corrupt(n_corrupt)
    }

    fn pcm(&mut self, sink: &mut Sink<'_>) -> Result<(), Reason> {
        let Coding::Pcm(pcm) = &self.layout.coding else { return Ok(()) };
        let n_channels = usize::from(self.layout.n_channels);
        let mut samples = Vec::new();
        // A packet may be as long as the file.
        let piece_bytes = PCM_PIECE * (n_channels * pcm.n_bytes()).max(1);
        for packet in &self.entry.packets {
            let mut pts = self.pts(packet);
            for piece in packet.data(self.bytes).unwrap_or_default().chunks(piece_bytes) {
                self.cancel.check()?;
                let n_frames = pcm.convert(piece, n_channels, &mut samples);
                let mut planes = [&[][..]; MAX_CHANNELS as usize];
                for (slice, plane) in planes.iter_mut().zip(samples.chunks_exact(n_frames.max(1))) {
                    *slice = plane;
                }
                sink.push(pts, planes.get(..n_channels).unwrap_or_default());
                pts += n_frames as i64;
            }
        }
        Ok(())
    }
}
