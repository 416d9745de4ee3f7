//! Our decoder of layer III beside Symphonia's, frame by frame, on sound and on damaged frames.

use std::path::Path;

use proptest::prelude::*;
use symphonia::{
    core::{
        audio::{Audio, GenericAudioBufferRef},
        codecs::audio::{
            AudioCodecParameters, AudioDecoder, AudioDecoderOptions, well_known::CODEC_ID_MP3,
        },
        packet::PacketRef,
        units::{Duration, Timestamp},
    },
    default::codecs::MpaDecoder,
};

use super::{header::Header, layer3};
use crate::{
    demux::mpeg::{index::Index, scan},
    report::Ledger,
};

/// The frames of the fuzz targets' seeds: mono and stereo of MPEG-1, 2 and 2.5, with short blocks.
fn seeds() -> Vec<Vec<Vec<u8>>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/mp3");
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let frames = |path: &Path| {
        let bytes = std::fs::read(path).unwrap();
        let first = (0..).find_map(|at| scan::find_first(&bytes, at)).unwrap();
        let mut index = Index::default();
        scan::open(&bytes, first, &mut index, &mut Ledger::default()).unwrap();
        let part = index.span(0, index.n_frames());
        part.iter(&bytes).map(|f| bytes[f.offset..f.offset + usize::from(f.len)].to_vec()).collect()
    };
    paths.iter().map(|path| frames(path)).collect()
}

struct Both {
    ours: layer3::Decoder,
    theirs: MpaDecoder,
}

impl Both {
    fn new(frame: &[u8]) -> Self {
        let mut params = AudioCodecParameters::new();
        params.for_codec(CODEC_ID_MP3);
        let options = AudioDecoderOptions::default().gapless(false);
        let header = Header::read(frame, 0).unwrap();
        Self {
            ours: layer3::Decoder::new(header.n_channels()),
            theirs: MpaDecoder::try_new(&params, &options).unwrap(),
        }
    }

    /// The largest difference, relative to what is loud; `None` if both refuse the frame.
    fn compare(&mut self, frame: &[u8]) -> Result<Option<f32>, String> {
        let packet = PacketRef::new(0, Timestamp::new(0), Duration::new(0), frame);
        let ours = self.ours.decode(frame, 0);
        match (ours, self.theirs.decode_ref(&packet)) {
            (Some(ours), Ok(GenericAudioBufferRef::F32(theirs))) => {
                let mut worst = 0f32;
                for (ours, theirs) in ours.iter().zip(theirs.iter_planes()) {
                    assert_eq!(ours.len(), theirs.len());
                    let loudest = theirs.iter().fold(1f32, |loudest, x| loudest.max(x.abs()));
                    for (a, b) in ours.iter().zip(theirs) {
                        worst = worst.max((a - b).abs() / loudest);
                    }
                }
                Ok(Some(worst))
            }
            (None, Err(_)) => Ok(None),
            (ours, _) => {
                Err(format!("only {} refused it", if ours.is_some() { "theirs" } else { "ours" }))
            }
        }
    }
}

#[test]
fn sound_frames_equal_symphonias() {
    for frames in seeds() {
        let mut both = Both::new(&frames[0]);
        for (i, frame) in frames.iter().enumerate() {
            let worst = both.compare(frame).unwrap().unwrap();
            assert!(worst < 2e-6, "frame {i}: {worst}");
        }
    }
}

#[test]
fn every_instruction_set_gives_the_same_bits() {
    for frames in seeds() {
        let n_channels = Header::read(&frames[0], 0).unwrap().n_channels();
        let (mut fast, mut plain) =
            (layer3::Decoder::new(n_channels), layer3::Decoder::plain(n_channels));
        for frame in &frames {
            let bits =
                |planes: [&[f32]; 2]| planes.map(|x| x.iter().map(|x| x.to_bits()).collect());
            let (a, b): ([Vec<_>; 2], [Vec<_>; 2]) =
                (bits(fast.decode(frame, 0).unwrap()), bits(plain.decode(frame, 0).unwrap()));
            assert!(a == b);
        }
    }
}

/// Where a bit may be flipped: not in the header, and not in what says where the main data begin,
/// since the decoders differ in what of earlier frames they keep.
fn is_comparable(frame: &[u8], bit: usize) -> bool {
    let header = Header::read(frame, 0).unwrap();
    let start = if header.has_crc { 48 } else { 32 };
    bit >= start + 9
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn damaged_frames_equal_symphonias(
        seed in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 1..6),
    ) {
        thread_local!(static SEEDS: Vec<Vec<Vec<u8>>> = seeds());
        let frames = SEEDS.with(|seeds| seed.get(seeds).clone());
        let at = at.index(frames.len());
        let mut both = Both::new(&frames[0]);
        for frame in &frames[..at] {
            both.compare(frame).unwrap();
        }
        let mut frame = frames[at].clone();
        for (bit, in_front) in flips {
            // Every second time in the side information.
            let bit = bit.index(8 * if in_front { frame.len().min(36) } else { frame.len() });
            if is_comparable(&frame, bit) {
                frame[bit / 8] ^= 0x80 >> (bit % 8);
            }
        }
        // Symphonia 0.6.1 decodes mixed blocks to garbage, and refuses joint stereo of different
        // blocks even where nothing is joint.
        prop_assume!(!layer3::has_odd_blocks(&frame));
        match both.compare(&frame) {
            Ok(worst) => prop_assert!(worst.unwrap_or(0.0) < 1e-5, "{worst:?}"),
            Err(why) => prop_assert!(false, "{why}"),
        }
    }
}
