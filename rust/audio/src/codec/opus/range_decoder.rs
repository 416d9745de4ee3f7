//! The range decoder, RFC 6716 section 4.1: symbols from the front of a frame, raw bits from its end.
//!
//! Behind either end of the bytes there are zeros, so that no bytes are an error.

/// Shifts by which counts of 1/8 bit are counts of bits.
pub(super) const EIGHTHS: u32 = 3;

/// The range never falls to this or below between symbols.
const LEAST_RANGE: u32 = 1 << 23;

#[derive(Clone, Debug)]
pub(super) struct RangeDecoder<'a> {
    bytes: &'a [u8],
    /// Bytes taken from the front and from the end.
    n_front: usize,
    n_end: usize,
    /// The last byte from the front, of which one bit is not in `value` yet.
    last: u32,
    range: u32,
    /// How far the code is below the top of the range.
    value: u32,
    /// Raw bits that were taken from the end and are not used yet, and how many.
    raw: u64,
    n_raw: u32,
    /// Bits used, raw ones too, plus those that `range` still holds.
    n_bits: i32,
}

/// Equally likely parts of the range, into one of which the code falls.
pub(super) struct Parts {
    n: u32,
    /// The range of one.
    each: u32,
    /// The one that holds the code.
    pub(super) at: u32,
}

impl<'a> RangeDecoder<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        let last = bytes.first().map_or(0, |&b| u32::from(b));
        let (range, n_bits) = (1 << 7, 9);
        let value = 127 - (last >> 1);
        let (n_front, n_end, raw, n_raw) = (1, 0, 0, 0);
        let mut decoder = Self { bytes, n_front, n_end, last, range, value, raw, n_raw, n_bits };
        decoder.refill();
        decoder
    }

    /// The bits that the frame has.
    pub(super) fn n_total(&self) -> i32 {
        8 * self.bytes.len() as i32
    }

    /// Leaves the last bytes to someone else, so that raw bits come from before them.
    pub(super) fn shorten(&mut self, len: usize) {
        self.bytes = self.bytes.get(..len).unwrap_or(self.bytes);
    }

    /// The state behind the last symbol, from which noise in the next frame begins.
    pub(super) fn range(&self) -> u32 {
        self.range
    }

    /// The bits used so far, rounded up.
    pub(super) fn tell(&self) -> i32 {
        self.n_bits - (32 - self.range.leading_zeros()) as i32
    }

    /// The bits used so far in eighths, rounded up.
    pub(super) fn tell_eighths(&self) -> i32 {
        // The mantissas above which the logarithm's next eighth begins: 2^(15 + i/8), i from 1.
        const NEXT: [u32; 8] = [35_733, 38_967, 42_495, 46_340, 50_535, 55_109, 60_097, 65_535];
        let len = 32 - self.range.leading_zeros();
        let mantissa = self.range >> len.saturating_sub(16);
        let eighth = (mantissa >> 12) & 7;
        let is_above = NEXT.get(eighth as usize).is_some_and(|&next| mantissa > next);
        (self.n_bits << EIGHTHS) - ((len << EIGHTHS) + eighth + u32::from(is_above)) as i32
    }

    #[inline]
    fn refill(&mut self) {
        // Four bytes fill a range of one. There is none of zero, but no loop shall hang on that.
        for _ in 0..4 {
            if self.range > LEAST_RANGE {
                break;
            }
            let next = self.bytes.get(self.n_front).map_or(0, |&b| u32::from(b));
            self.n_front += 1;
            let byte = (self.last << 7 | next >> 1) & 0xff;
            self.last = next;
            self.range <<= 8;
            self.value = ((self.value << 8) | (byte ^ 0xff)) & 0x7fff_ffff;
            self.n_bits += 8;
        }
    }

    /// A bit that is set once in `2^log` times.
    #[inline]
    pub(super) fn bit(&mut self, log: u32) -> bool {
        let part = self.range >> log;
        let is_set = self.value < part;
        if is_set {
            self.range = part;
        } else {
            self.value -= part;
            self.range -= part;
        }
        self.refill();
        is_set
    }

    /// A symbol whose inverse cumulative distribution is given in `2^log`ths and ends in zero.
    #[inline]
    pub(super) fn symbol(&mut self, distribution: &[u8], log: u32) -> usize {
        let each = self.range >> log;
        let (mut above, mut below) = (self.range, self.range);
        let mut symbol = 0;
        for (i, &rest) in distribution.iter().enumerate() {
            (above, below) = (below, each * u32::from(rest));
            symbol = i;
            if self.value >= below {
                break;
            }
        }
        self.value = self.value.saturating_sub(below);
        self.range = above - below;
        self.refill();
        symbol
    }

    /// Cuts the range into `n` parts, at most `2^16`; [`Self::take`] follows.
    #[inline]
    pub(super) fn parts(&self, n: u32) -> Parts {
        let n = n.max(1);
        let each = self.range / n;
        Parts { n, each, at: n - n.min(self.value / each.max(1) + 1) }
    }

    /// Takes the parts from `low` to below `high`, among which is the code.
    #[inline]
    pub(super) fn take(&mut self, parts: &Parts, low: u32, high: u32) {
        let below = parts.each.wrapping_mul(parts.n.saturating_sub(high));
        self.value = self.value.saturating_sub(below);
        // The first part also has what the division left over.
        self.range = if low > 0 {
            parts.each.wrapping_mul(high.saturating_sub(low)).max(1)
        } else {
            self.range.saturating_sub(below).max(1)
        };
        self.refill();
    }

    /// A number below `n`, all equally likely.
    #[inline]
    pub(super) fn uniform(&mut self, n: u32) -> u32 {
        let Some(most) = n.checked_sub(1).filter(|&most| most > 0) else { return 0 };
        // Eight bits are coded, what is below is raw.
        let n_raw = (32 - most.leading_zeros()).saturating_sub(8);
        let parts = self.parts((most >> n_raw) + 1);
        self.take(&parts, parts.at, parts.at + 1);
        if n_raw == 0 {
            return parts.at;
        }
        (parts.at << n_raw | self.raw(n_raw)).min(most)
    }

    /// Up to 25 raw bits.
    #[inline]
    pub(super) fn raw(&mut self, n: u32) -> u32 {
        while self.n_raw < n {
            self.n_end += 1;
            let at = self.bytes.len().checked_sub(self.n_end);
            let byte = at.and_then(|at| self.bytes.get(at)).map_or(0, |&b| u64::from(b));
            self.raw |= byte << self.n_raw;
            self.n_raw += 8;
        }
        let bits = self.raw & ((1 << n) - 1);
        self.raw >>= n;
        self.n_raw -= n;
        self.n_bits += n as i32;
        bits as u32
    }

    /// A whole number whose probability falls with its distance from zero: section 4.3.2.1. `zero` is
    /// that of zero in `2^15`ths, and `decay` what is left of it a step on, in `2^14`ths.
    pub(super) fn laplace(&mut self, zero: u32, decay: u32) -> i32 {
        /// Every number has at least this probability; so many on each side of zero have it surely.
        const LEAST: u32 = 1;
        const N_SURE: u32 = 16;
        let parts = self.parts(1 << 15);
        let at = parts.at;
        let (mut low, mut width, mut number) = (0, zero, 0);
        if at >= zero {
            low = zero;
            number = 1;
            let rest = (1u32 << 15).saturating_sub(2 * N_SURE * LEAST + zero);
            width = ((rest * (16_384 - decay.min(16_384))) >> 15) + LEAST;
            // Both signs have the same probability.
            while width > LEAST && at >= low + 2 * width {
                low += 2 * width;
                width = (((2 * width - 2 * LEAST) * decay) >> 15) + LEAST;
                number += 1;
            }
            if width <= LEAST {
                let n_more = (at - low) / (2 * LEAST);
                number += n_more as i32;
                low += 2 * LEAST * n_more;
            }
            if at < low + width {
                number = -number;
            } else {
                low += width;
            }
        }
        self.take(&parts, low, (low + width).min(1 << 15));
        number
    }
}
