//! Interleaved PCM in packets, as Matroska has it.

use crate::{
    error::Reason,
    limits::MAX_CHANNELS,
    stream::{
        Coding, Counter, Decode, DecoderResult, Kept, Outcome, PacketSink, Shape, Track, WarmUp,
    },
};

/// PCM frames that are converted at a time: a packet may be as long as the file.
const PIECE: usize = 4096;

/// How a sample is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pcm {
    kind: Kind,
    n_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Unsigned,
    Little,
    Big,
    Float,
}

impl Pcm {
    /// The storage that a codec identifier of Matroska and its bit depth stand for.
    pub(crate) fn of_matroska(id: &str, bits: u64) -> Option<Self> {
        let kind = match (id, bits) {
            ("A_PCM/INT/LIT" | "A_PCM/INT/BIG", 8) => Kind::Unsigned,
            ("A_PCM/INT/LIT", 16 | 24 | 32) => Kind::Little,
            ("A_PCM/INT/BIG", 16 | 24 | 32) => Kind::Big,
            ("A_PCM/FLOAT/IEEE", 32 | 64) => Kind::Float,
            _ => return None,
        };
        Some(Self { kind, n_bytes: bits as usize / 8 })
    }

    /// Converts a packet into planes, one channel after the other, and gives their length.
    fn convert(self, packet: &[u8], n_channels: usize, out: &mut Vec<f32>) -> usize {
        let n_frames = packet.len() / (n_channels * self.n_bytes).max(1);
        out.clear();
        for channel in 0..n_channels {
            let samples = packet.chunks_exact(self.n_bytes.max(1));
            let samples = samples.skip(channel).step_by(n_channels.max(1)).take(n_frames);
            out.extend(samples.map(|sample| self.to_f32(sample)));
        }
        n_frames
    }

    fn to_f32(self, sample: &[u8]) -> f32 {
        // Left-justified in 32 bits, so that one scale serves every width.
        let mut wide = [0; 4];
        match (self.kind, sample) {
            (Kind::Unsigned, &[byte]) => return (f32::from(byte) - 128.0) * (1.0 / 128.0),
            (Kind::Float, _) => {
                let single = sample.first_chunk().map(|&bytes| f32::from_le_bytes(bytes));
                let double = sample.first_chunk().map(|&bytes| f64::from_le_bytes(bytes) as f32);
                return double.or(single).unwrap_or_default();
            }
            (Kind::Big, _) => wide.iter_mut().zip(sample).for_each(|(to, &from)| *to = from),
            _ => wide.iter_mut().zip(sample.iter().rev()).for_each(|(to, &from)| *to = from),
        }
        i32::from_be_bytes(wide) as f32 * (1.0 / 2_147_483_648.0)
    }
}

impl Coding for Pcm {
    fn warm_up(&self) -> WarmUp {
        WarmUp::Packets(0)
    }

    fn counter(&self, track: &Track) -> Result<Counter, Reason> {
        let block = (self.n_bytes * usize::from(track.n_channels)).max(1);
        Ok(Box::new(move |packet| {
            if !packet.len().is_multiple_of(block) {
                return Err(Reason::malformed("a packet is no PCM packet"));
            }
            Ok((packet.len() / block) as u32)
        }))
    }

    fn decoder<'a>(&'a self, _: Shape, _: &'a mut Kept) -> DecoderResult<'a> {
        Ok(Box::new(Decoder { pcm: *self, samples: Vec::new() }))
    }
}

struct Decoder {
    pcm: Pcm,
    /// One plane after the other.
    samples: Vec<f32>,
}

impl Decode for Decoder {
    fn decode(&mut self, packet: &[u8], out: &mut PacketSink<'_, '_>) -> Result<Outcome, Reason> {
        let n_channels = usize::from(out.n_channels);
        for piece in packet.chunks(PIECE * (n_channels * self.pcm.n_bytes).max(1)) {
            out.cancel.check()?;
            let n_frames = self.pcm.convert(piece, n_channels, &mut self.samples);
            let mut planes = [&[][..]; MAX_CHANNELS as usize];
            for (slice, plane) in planes.iter_mut().zip(self.samples.chunks_exact(n_frames.max(1)))
            {
                *slice = plane;
            }
            out.push_part(planes.get(..n_channels).unwrap_or_default());
        }
        Ok(Outcome::Decoded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(id: &str, bits: u64, sample: &[u8]) -> f32 {
        Pcm::of_matroska(id, bits).expect("known").to_f32(sample)
    }

    #[test]
    #[allow(clippy::float_cmp)] // exact by construction
    fn widths_have_the_scale_of_their_bits() {
        assert_eq!(one("A_PCM/INT/LIT", 8, &[0]), -1.0);
        assert_eq!(one("A_PCM/INT/LIT", 16, &[1, 0x80]), -32_767.0 / 32_768.0);
        assert_eq!(one("A_PCM/INT/BIG", 16, &[0x80, 1]), -32_767.0 / 32_768.0);
        assert_eq!(one("A_PCM/INT/LIT", 24, &[1, 0, 0]), 1.0 / 8_388_608.0);
        assert_eq!(one("A_PCM/INT/BIG", 32, &[0x80, 0, 0, 0]), -1.0);
        assert_eq!(one("A_PCM/FLOAT/IEEE", 32, &1.5f32.to_le_bytes()), 1.5);
        assert_eq!(one("A_PCM/FLOAT/IEEE", 64, &(-2.5f64).to_le_bytes()), -2.5);
        assert!(Pcm::of_matroska("A_PCM/INT/LIT", 12).is_none());
        let pcm = Pcm::of_matroska("A_PCM/INT/BIG", 16).expect("known");
        let mut planes = Vec::new();
        assert_eq!(pcm.convert(&[0x40, 0, 0x20, 0, 0x10, 0, 0, 0, 9], 2, &mut planes), 2);
        assert_eq!(planes, [0.5, 0.125, 0.25, 0.0]);
    }
}
