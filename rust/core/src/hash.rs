//! The keyed hash behind the order and the crops. Part of format version 1: never change it.

use twox_hash::XxHash3_64;

/// The odd constant of SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number
/// generators", OOPSLA 2014): 2^64 divided by the golden ratio.
const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// The finaliser of SplitMix64: a bijection on 64 bits in which every input bit changes about half
/// of the output bits.
#[inline]
pub fn mix64(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Hashes a sequence of words: `h = mix64((h + GAMMA) ^ word)` for each, from `h = 0`.
#[inline]
pub fn hash(words: &[u64]) -> u64 {
    words.iter().fold(0, |h, &word| extend(h, word))
}

/// The hash with one more word: `extend(hash(&[a]), b)` is `hash(&[a, b])`.
#[inline]
pub fn extend(h: u64, word: u64) -> u64 {
    mix64(h.wrapping_add(GAMMA) ^ word)
}

/// Scales a uniform 64-bit hash to `0..n` (Lemire's multiply-shift, without rejection: the bias is
/// below `n / 2^64`). `n = 0` gives 0.
#[inline]
pub fn below(h: u64, n: u64) -> u64 {
    ((u128::from(h) * u128::from(n)) >> 64) as u64
}

/// FNV-1a, 64 bits (<http://www.isthe.com/chongo/tech/comp/fnv/>).
pub fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
}

/// XXH3, 64 bits: a checksum of many bytes, at the speed of memory (<https://xxhash.com>).
pub fn xxh3(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first outputs of the published SplitMix64 generator for seed 0 are `mix64(k * GAMMA)`.
    #[test]
    fn mix64_is_splitmix64() {
        let outputs: Vec<u64> = (1..=3u64).map(|k| mix64(GAMMA.wrapping_mul(k))).collect();
        assert_eq!(outputs, [0xE220_A839_7B1D_CDAF, 0x6E78_9E6A_A1B9_65F4, 0x06C4_5D18_8009_454F]);
    }

    #[test]
    fn fnv1a_matches_its_published_vectors() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn xxh3_matches_the_reference_implementation() {
        assert_eq!(xxh3(b""), 0x2d06_8005_38d3_94c2);
        assert_eq!(xxh3(b"a"), 0xe6c6_32b6_1e96_4e1f);
    }

    #[test]
    fn below_stays_below() {
        assert_eq!(below(u64::MAX, 10), 9);
        assert_eq!(below(0, 10), 0);
        assert_eq!(below(u64::MAX, 0), 0);
    }
}
