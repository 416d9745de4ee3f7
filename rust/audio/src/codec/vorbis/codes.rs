//! Code words of a codebook, Vorbis I section 3.2.1: from the lengths of words to a table that finds
//! them.

// What `pulp` compiles for an instruction set must be inlined into its function.
#![allow(clippy::inline_always)]

use super::bits::Bits;

/// Words of up to so many bits are found at a glance.
const MAX_GLANCE: u32 = 10;

/// The longest word.
const MAX_LEN: u8 = 32;

/// A word that is longer than a glance, its first bit on top.
#[derive(Clone, Copy, Debug)]
struct Long {
    word: u32,
    entry: u32,
    len: u8,
}

/// Finds the entry for the next word of a packet.
#[derive(Clone, Debug, Default)]
pub(super) struct Codes {
    /// By the next bits: an entry and, in the lowest byte, the length of its word. Where that is 0, the
    /// word is a longer one, and the number is that of its stretch.
    glance: Box<[u32]>,
    /// All longer words in order, and where those begin and end that have the bits of a glance in common.
    long: Box<[Long]>,
    stretches: Box<[[u32; 2]]>,
}

impl Codes {
    /// The code for words of these lengths, 0 for entries that are not used. Each word is the lowest that
    /// is free. `None` if there are too many words, or too few.
    pub(super) fn new(lens: &[u8]) -> Option<Self> {
        let words = assign(lens)?;
        let max_len = words.iter().map(|word| u32::from(word.len)).max().unwrap_or(0);
        let n_bits = max_len.min(MAX_GLANCE);
        let mut glance = vec![0; if words.is_empty() { 0 } else { 1 << n_bits }];
        let (short, mut long): (Vec<_>, Vec<_>) =
            words.iter().partition(|word| u32::from(word.len) <= n_bits);
        for Long { word, entry, len } in short {
            let places = glance.iter_mut().skip(word.reverse_bits() as usize).step_by(1 << len);
            places.for_each(|place| *place = entry << 8 | u32::from(len));
        }
        if let [only] = words.as_slice() {
            glance.fill(only.entry << 8 | u32::from(only.len)); // either bit is its word
        }
        long.sort_unstable_by_key(|long| long.word);
        let mut stretches = Vec::new();
        let mut begin = 0;
        for stretch in long.chunk_by(|a, b| (a.word ^ b.word) >> (32 - MAX_GLANCE) == 0) {
            let first = stretch.first().map_or(0, |long| long.word.reverse_bits());
            if let Some(place) = glance.get_mut(first as usize & ((1 << MAX_GLANCE) - 1)) {
                *place = (stretches.len() as u32) << 8;
            }
            let end = begin + stretch.len() as u32;
            stretches.push([begin, end]);
            begin = end;
        }
        Some(Self { glance: glance.into(), long: long.into(), stretches: stretches.into() })
    }

    /// The entry of the next word; `None` if the packet ends before or in it.
    #[inline(always)]
    pub(super) fn read(&self, bits: &mut Bits<'_>) -> Option<usize> {
        let next = bits.peek();
        let found = *self.glance.get(next as usize & self.glance.len().wrapping_sub(1))?;
        let is_short = found & 0xFF > 0;
        let found = if is_short { found } else { self.find_long(next as u32, found >> 8)? };
        bits.skip(found & 0xFF)?;
        Some((found >> 8) as usize)
    }

    /// The same, where the bits were filled up at most three words ago.
    ///
    /// That is enough: four short words have at most 40 bits of 56, and three behind a long one have 30 of 32.
    #[inline(always)]
    pub(super) fn read_filled(&self, bits: &mut Bits<'_>) -> Option<usize> {
        let next = bits.filled();
        let found = *self.glance.get(next as usize & self.glance.len().wrapping_sub(1))?;
        let len = found & 0xFF;
        if len == 0 {
            let entry = self.read(bits);
            bits.peek();
            return entry;
        }
        bits.skip(len)?;
        Some((found >> 8) as usize)
    }

    /// A word longer than a glance: its entry, and its length in the lowest byte.
    #[inline(never)]
    fn find_long(&self, next: u32, stretch: u32) -> Option<u32> {
        let [begin, end] = *self.stretches.get(stretch as usize)?;
        let words = self.long.get(begin as usize..end as usize)?;
        let n_below = words.partition_point(|long| long.word <= next.reverse_bits());
        let found = words.get(n_below.checked_sub(1)?)?;
        Some(found.entry << 8 | u32::from(found.len))
    }

    /// About how many bytes it takes.
    pub(super) fn n_bytes(&self) -> usize {
        4 * self.glance.len() + 12 * self.long.len() + 8 * self.stretches.len()
    }
}

/// Gives each used entry its word.
fn assign(lens: &[u8]) -> Option<Vec<Long>> {
    let used = lens.iter().zip(0..).filter(|&(&len, _)| len > 0);
    let n_used = used.clone().count();
    let mut words = Vec::with_capacity(n_used);
    // For each length the word of that length below which all is free, if there is one. The whole tree
    // is free at first.
    let mut free = [None; MAX_LEN as usize + 1];
    if let Some(root) = free.first_mut() {
        *root = Some(0u32);
    }
    for (&len, entry) in used {
        let shorter = free.get_mut(..=usize::from(len))?;
        let (from, place) = shorter.iter_mut().enumerate().rev().find(|(_, w)| w.is_some())?;
        let word = place.take()?;
        // Of what was split on the way down the upper halves stay free.
        for (len, place) in shorter.iter_mut().enumerate().skip(from + 1) {
            *place = Some(word | 1 << (u32::from(MAX_LEN) - len as u32));
        }
        words.push(Long { word, entry, len });
    }
    let is_complete = free.iter().all(Option::is_none);
    let is_single = matches!(words.as_slice(), [Long { len: 1, .. }]);
    (is_complete || is_single || words.is_empty()).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads words bit by bit.
    fn naive(words: &[Long], bytes: &[u8], at: &mut usize) -> Option<usize> {
        let (mut word, start) = (0u32, *at);
        while *at < bytes.len() * 8 && *at < start + 32 {
            word |= u32::from(bytes[*at / 8] >> (*at % 8) & 1) << (31 - (*at - start));
            *at += 1;
            let len = (*at - start) as u8;
            if let Some(found) = words.iter().find(|w| w.len == len && w.word == word) {
                return Some(found.entry as usize);
            }
        }
        None
    }

    #[test]
    fn words_are_the_specifications() {
        // The example of section 3.2.1.
        let words = assign(&[2, 4, 4, 4, 4, 2, 3, 3]).unwrap();
        let words: Vec<u32> = words.iter().map(|w| w.word >> (32 - u32::from(w.len))).collect();
        assert_eq!(words, [0, 0b0100, 0b0101, 0b0110, 0b0111, 0b10, 0b110, 0b111]);
    }

    #[test]
    fn trees_must_be_complete() {
        for lens in [&[1, 1][..], &[2, 0, 2, 1], &[0, 1, 0], &[], &[0, 0], &[3; 8]] {
            assert!(Codes::new(lens).is_some(), "{lens:?}");
        }
        for lens in [&[1, 1, 1][..], &[2, 2, 1, 2], &[2], &[1, 2], &[32, 32], &[3; 9]] {
            assert!(Codes::new(lens).is_none(), "{lens:?}");
        }
    }

    #[test]
    fn words_are_found_up_to_the_end_of_the_packet() {
        let ladder: Vec<u8> = (1..=32).chain([32]).collect();
        let mixed: Vec<u8> = [1, 0].into_iter().chain([13; 4096]).collect();
        let mut noise = 1u32;
        let mut bytes: Vec<u8> = (0..4_000)
            .map(|_| {
                noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (noise >> 24) as u8
            })
            .collect();
        bytes[1_000..1_100].fill(0xFF);
        for lens in [&ladder, &mixed, &vec![9; 512], &vec![2, 2, 2, 3, 3]] {
            let (codes, words) = (Codes::new(lens).unwrap(), assign(lens).unwrap());
            for n in [bytes.len(), 1_080, 11, 3, 0] {
                let (bytes, mut at) = (&bytes[..n], 0);
                let (mut bits, mut filled) = (Bits::new(bytes), Bits::new(bytes));
                for i in 0.. {
                    let want = naive(&words, bytes, &mut at);
                    assert_eq!(codes.read(&mut bits), want, "{} words, bit {at}", words.len());
                    if i % 4 == 0 {
                        filled.fill();
                    }
                    assert_eq!(codes.read_filled(&mut filled), want, "{} words", words.len());
                    if want.is_none() {
                        break;
                    }
                }
                assert_eq!(codes.read(&mut bits), None);
            }
        }
    }

    #[test]
    fn one_word_is_either_bit() {
        let codes = Codes::new(&[0, 0, 1, 0]).unwrap();
        let mut bits = Bits::new(&[0b10]);
        let entries: Vec<_> = std::iter::from_fn(|| codes.read(&mut bits)).collect();
        assert_eq!(entries, [2; 8]);
        assert_eq!(Codes::new(&[0; 4]).unwrap().read(&mut Bits::new(&[1])), None);
    }
}
