//! Interleaved PCM in packets, as Matroska has it.

/// How a sample is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::audio) struct Pcm {
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
    pub(in crate::audio) fn of_matroska(id: &str, bits: u64) -> Option<Self> {
        let kind = match (id, bits) {
            ("A_PCM/INT/LIT" | "A_PCM/INT/BIG", 8) => Kind::Unsigned,
            ("A_PCM/INT/LIT", 16 | 24 | 32) => Kind::Little,
            ("A_PCM/INT/BIG", 16 | 24 | 32) => Kind::Big,
            ("A_PCM/FLOAT/IEEE", 32 | 64) => Kind::Float,
            _ => return None,
        };
        Some(Self { kind, n_bytes: bits as usize / 8 })
    }

    /// Bytes of one sample of one channel.
    pub(in crate::audio) fn n_bytes(self) -> usize {
        self.n_bytes
    }

    /// Converts a packet into planes, one channel after the other, and gives their length.
    pub(super) fn convert(self, packet: &[u8], n_channels: usize, out: &mut Vec<f32>) -> usize {
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
