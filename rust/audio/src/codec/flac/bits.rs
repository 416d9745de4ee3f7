//! Reading bits, most significant first, through a word of 64. ALAC is read by the same.

// What `pulp` compiles for an instruction set must be inlined into its function.
#![allow(clippy::inline_always)]

/// The bits that are left of a frame. A copy reads on independently.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bits<'a> {
    rest: &'a [u8],
    /// The next bits, from the top down. Below the first `n` of them there may be some more, which
    /// are also still in `rest`, and then zeros.
    word: u64,
    n: u32,
}

impl<'a> Bits<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, word: 0, n: 0 }
    }

    /// Bytes that no bit was taken of yet.
    pub(super) fn n_bytes_left(&self) -> usize {
        self.rest.len() + self.n as usize / 8
    }

    /// Makes at least 56 bits ready, or all that are left.
    #[inline(always)]
    pub(crate) fn fill(&mut self) {
        if let Some(next) = self.rest.first_chunk::<8>() {
            self.word |= u64::from_be_bytes(*next) >> self.n;
            self.rest = self.rest.get((63 - self.n as usize) / 8..).unwrap_or_default();
            self.n |= 0x38; // 56 at least, and what was over a whole byte
        } else {
            while let [byte, rest @ ..] = self.rest
                && self.n < 56
            {
                self.word |= u64::from(*byte) << (56 - self.n);
                self.rest = rest;
                self.n += 8;
            }
        }
    }

    /// Takes `n` bits, which must be ready, off the word.
    #[inline(always)]
    pub(crate) fn advance(&mut self, n: u32) {
        self.word <<= n;
        self.n -= n;
    }

    /// The next bits, from the top down; behind those that are ready, anything.
    #[inline(always)]
    pub(crate) fn peek(&self) -> u64 {
        self.word
    }

    /// How many bits are ready.
    #[inline(always)]
    pub(crate) fn n_ready(&self) -> u32 {
        self.n
    }

    /// How many bits are left.
    pub(crate) fn n_left(&self) -> usize {
        self.rest.len() * 8 + self.n as usize
    }

    /// Goes over `n` bits, and gives what reads them; `None` if there are fewer.
    pub(crate) fn split_off(&mut self, n: usize) -> Option<Self> {
        let before = *self;
        if let Some(n) = n.checked_sub(self.n as usize) {
            (self.word, self.n) = (0, 0);
            self.rest = self.rest.get(n / 8..)?;
            self.take(n as u32 % 8)?;
        } else {
            self.advance(n as u32);
        }
        Some(before)
    }

    /// The next `n` bits, at most 32; `None` if there are fewer.
    #[inline(always)]
    pub(crate) fn take(&mut self, n: u32) -> Option<u32> {
        if self.n < n {
            self.fill();
            if self.n < n {
                return None;
            }
        }
        let value = (self.word >> 32) >> (32 - n.min(32));
        self.advance(n);
        Some(value as u32)
    }

    /// The next `n` bits, at most 32, as a number with a sign.
    #[inline(always)]
    pub(crate) fn take_signed(&mut self, n: u32) -> Option<i32> {
        let shift = 32 - n.min(32);
        let value = self.take(n)?.unbounded_shl(shift).cast_signed();
        Some(value >> shift.min(31))
    }

    /// How many zeros come before the next one, which is taken too.
    pub(super) fn take_zeros(&mut self) -> Option<u32> {
        let mut n_zeros = 0u32;
        loop {
            self.fill();
            let n = self.word.leading_zeros();
            if n < self.n {
                self.advance(n + 1);
                return Some(n_zeros + n);
            }
            if self.n == 0 {
                return None;
            }
            n_zeros = n_zeros.checked_add(self.n)?;
            (self.word, self.n) = (0, 0);
        }
    }

    /// Numbers in Rice code with parameter `k`, at most 30: RFC 9639, section 9.2.7.
    ///
    /// `GROUP` of them are read for one filling of the word, if they are short enough.
    #[inline(always)]
    pub(super) fn rice<const GROUP: usize>(&mut self, k: u32, out: &mut [i32]) -> Option<()> {
        let mut bits = *self; // stays in registers
        let (groups, last) = out.as_chunks_mut::<GROUP>();
        for group in groups {
            bits.fill();
            for x in group {
                *x = bits.rice_one(k)?;
            }
        }
        for x in last {
            bits.fill();
            *x = bits.rice_one(k)?;
        }
        *self = bits;
        Some(())
    }

    #[inline(always)]
    fn rice_one(&mut self, k: u32) -> Option<i32> {
        let n_zeros = self.word.leading_zeros();
        let len = n_zeros + 1 + k;
        let folded = if len <= self.n {
            let behind = self.word << n_zeros << 1;
            let low = (behind >> 1 >> (63 - k)) as u32;
            self.word = behind << k;
            self.n -= len;
            n_zeros << k | low
        } else {
            let (bits, folded) = self.rice_long(k)?;
            *self = bits;
            folded
        };
        Some((folded >> 1).cast_signed() ^ -(folded & 1).cast_signed())
    }

    /// A number that the word does not hold as a whole.
    #[inline(never)]
    fn rice_long(mut self, k: u32) -> Option<(Self, u32)> {
        let high = self.take_zeros()?;
        let low = self.take(k)?;
        Some((self, high.wrapping_shl(k) | low))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// One bit at a time.
    struct Naive<'a>(&'a [u8], usize);

    impl Naive<'_> {
        fn bit(&mut self) -> Option<u32> {
            let byte = *self.0.get(self.1 / 8)?;
            self.1 += 1;
            Some(u32::from(byte) >> (7 - (self.1 - 1) % 8) & 1)
        }

        fn take(&mut self, n: u32) -> Option<u32> {
            (0..n).try_fold(0, |value, _| Some(value << 1 | self.bit()?))
        }

        fn rice(&mut self, k: u32) -> Option<i32> {
            let mut high = 0u32;
            while self.bit()? == 0 {
                high += 1;
            }
            let folded = high.wrapping_shl(k) | self.take(k)?;
            Some(if folded & 1 == 0 {
                (folded >> 1).cast_signed()
            } else {
                -1 - (folded >> 1).cast_signed()
            })
        }
    }

    proptest! {
        #[test]
        fn equals_one_bit_at_a_time(
            // Long runs of zeros as well.
            bytes in prop::collection::vec(prop_oneof![any::<u8>(), 0u8..2, Just(0)], 0..80),
            steps in prop::collection::vec((0u32..5, 0u32..=32), 0..60),
        ) {
            let (mut bits, mut naive) = (Bits::new(&bytes), Naive(&bytes, 0));
            for (kind, n) in steps {
                let n = if kind < 2 { n } else { n.min(30) };
                let (got, want) = match kind {
                    0 => (bits.take(n).map(u32::cast_signed), naive.take(n).map(u32::cast_signed)),
                    1 => {
                        let sign = |x: u32| {
                            if n > 0 && x >> (n - 1) == 1 { i64::from(x) - (1 << n) } else { x.into() }
                        };
                        (bits.take_signed(n), naive.take(n).map(|x| sign(x) as i32))
                    }
                    2 => {
                        let n = 9 * n as usize;
                        let before = bits.split_off(n).map(|mut before| before.take(8));
                        let mut other = Naive(naive.0, naive.1);
                        let want = (0..n).try_for_each(|_| naive.bit().map(drop)).map(|()| other.take(8));
                        prop_assert_eq!(before, want);
                        prop_assert!(want.is_none() || bits.n_left() == 8 * bytes.len() - naive.1);
                        (want.map(|_| 0), want.map(|_| 0))
                    }
                    _ => {
                        let mut out = [0; 3];
                        let done = bits.rice::<2>(n, &mut out);
                        let want: Option<Vec<_>> = (0..3).map(|_| naive.rice(n)).collect();
                        prop_assert_eq!(done.map(|()| out.to_vec()), want.clone());
                        (want.as_ref().map(|_| 0), want.map(|_| 0))
                    }
                };
                prop_assert_eq!(got, want);
                if want.is_none() {
                    break;
                }
                prop_assert_eq!(bits.n_bytes_left(), bytes.len() - naive.1.div_ceil(8));
            }
        }
    }
}
