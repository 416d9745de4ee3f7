//! The peer of our Vorbis decoder: Symphonia 0.6, which finds pages and seeks by itself.

use std::{io::Cursor, ops::Range};

use symphonia::core::{
    audio::{Audio, GenericAudioBufferRef},
    codecs::audio::{AudioDecoder, AudioDecoderOptions},
    formats::{FormatOptions, FormatReader, SeekMode, SeekTo},
    io::{MediaSourceStream, MediaSourceStreamOptions},
    units::Timestamp,
};
use symphonia_codec_vorbis::VorbisDecoder;
use symphonia_format_ogg::OggReader;

use super::Job;

/// The decoding of a [`Job`] by it, ready to be done again and again.
pub(crate) struct Peer {
    bytes: Vec<u8>,
    /// Kept, as our setups are.
    decoder: VorbisDecoder,
    frames: Range<i64>,
    planes: Vec<Vec<f32>>,
}

impl Peer {
    /// Checks that it gives the job's samples.
    pub(crate) fn of(job: &mut Job) -> Self {
        let plan = job.plan();
        let frames = plan.crop().start as i64..plan.crop().end as i64;
        let reader = open(&job.bytes);
        let params = reader.tracks()[0].codec_params.as_ref().unwrap().audio().unwrap();
        let decoder = VorbisDecoder::try_new(params, &AudioDecoderOptions::default()).unwrap();
        let planes = vec![Vec::new(); usize::from(plan.n_channels())];
        let mut peer = Self { bytes: job.bytes.clone(), decoder, frames, planes };
        assert_eq!(peer.run(), job.run());
        for (a, b) in peer.planes.iter().flatten().zip(&job.out) {
            assert!((a - b).abs() < 1e-5, "Symphonia has {a}, and we {b}");
        }
        peer
    }

    /// What is measured: from encoded bytes to samples. The frames that came out.
    pub(crate) fn run(&mut self) -> usize {
        let mut reader = open(&self.bytes);
        self.decoder.reset();
        self.planes.iter_mut().for_each(Vec::clear);
        if self.frames.start > 0 {
            let to = SeekTo::Timestamp {
                ts: Timestamp::new(self.frames.start),
                track_id: reader.tracks()[0].id,
            };
            reader.seek(SeekMode::Accurate, to).unwrap();
        }
        while let Some(packet) = reader.next_packet().unwrap() {
            let at = packet.pts.get();
            if at >= self.frames.end {
                break;
            }
            let GenericAudioBufferRef::F32(pcm) = self.decoder.decode(&packet).unwrap() else {
                panic!("not floats")
            };
            for (from, to) in pcm.iter_planes().zip(&mut self.planes) {
                let wanted = |frame: i64| ((frame - at).max(0) as usize).min(from.len());
                to.extend_from_slice(&from[wanted(self.frames.start)..wanted(self.frames.end)]);
            }
        }
        self.planes[0].len()
    }
}

fn open(bytes: &[u8]) -> OggReader<'static> {
    let source = Box::new(Cursor::new(bytes.to_vec()));
    let stream = MediaSourceStream::new(source, MediaSourceStreamOptions::default());
    OggReader::try_new(stream, FormatOptions::default()).unwrap()
}
