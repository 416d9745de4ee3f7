//! The shapes of bands: unit vectors from pulses, spread, halved and joined. RFC 6716 sections 4.3.4.3
//! to 4.3.4.5.

// Lengths and strides are those of bands, which divide them. What `pulp` dispatches to must be inlined
// into the function that it compiles for an instruction set.
#![allow(clippy::indexing_slicing, clippy::inline_always)]
// Lanes of a vector have no names.
#![allow(clippy::many_single_char_names)]

use super::pulses::MAX_WIDTH;

/// The most blocks that a band is seen as.
const MAX_BLOCKS: usize = 16;

/// The sum of squares, in an order that is the same whatever the machine has.
pub(super) fn energy(x: &[f32]) -> f32 {
    let (eights, rest) = x.as_chunks::<8>();
    let mut sums = [0.0f32; 8];
    for eight in eights {
        for (sum, x) in sums.iter_mut().zip(eight) {
            *sum += x * x;
        }
    }
    let [a, b, c, d, e, f, g, h] = sums;
    let sum = ((a + e) + (c + g)) + ((b + f) + (d + h));
    rest.iter().fold(sum, |sum, x| sum + x * x)
}

/// Gives a vector this length.
pub(super) fn normalise(x: &mut [f32], gain: f32) {
    let gain = gain / (energy(x) + 1e-15).sqrt();
    for x in x {
        *x *= gain;
    }
}

/// Spreads few pulses over the band, which is seen as `n_blocks` blocks.
pub(super) fn spread(x: &mut [f32], n_blocks: usize, k: usize, spread: usize) {
    /// What a pulse adds to the length, by how much is spread.
    const FACTORS: [usize; 4] = [0, 15, 10, 5];
    let len = x.len();
    let factor = FACTORS[spread.min(3)];
    if 2 * k >= len || factor == 0 {
        return;
    }
    let gain = len as f32 / (len + factor * k) as f32;
    let angle = std::f32::consts::FRAC_PI_2 * (0.5 * gain * gain);
    let (sin, cos) = angle.sin_cos();
    let block_len = len / n_blocks;
    // About the root of the block's length, rounded.
    let mut stride = 0;
    if len >= 8 * n_blocks {
        stride = 1;
        while (stride * stride + stride) * n_blocks + (n_blocks >> 2) < len {
            stride += 1;
        }
    }
    for block in x.chunks_exact_mut(block_len.max(1)) {
        if stride > 0 {
            rotate(block, stride, sin, cos);
        }
        rotate(block, 1, cos, sin);
    }
}

/// Rotates each coefficient with that `stride` above it, upwards and then down again.
fn rotate(x: &mut [f32], stride: usize, cos: f32, sin: f32) {
    let n = x.len();
    if stride == 1 {
        rotate_neighbours(x, cos, sin);
        return;
    }
    if stride >= n {
        return;
    }
    let turn = |low: &mut [f32], high: &mut [f32]| {
        for (a, b) in low.iter_mut().zip(high) {
            (*a, *b) = (cos * *a - sin * *b, cos * *b + sin * *a);
        }
    };
    // As many at once as do not depend on each other.
    let mut at = 0;
    while at < n - stride {
        let len = stride.min(n - stride - at);
        let (low, high) = x.split_at_mut(at + stride);
        turn(&mut low[at..at + len], &mut high[..len]);
        at += len;
    }
    let mut end = n.saturating_sub(2 * stride);
    while end > 0 {
        let len = stride.min(end);
        let (low, high) = x.split_at_mut(end - len + stride);
        turn(&mut low[end - len..end], &mut high[..len]);
        end -= len;
    }
}

/// The same for neighbours. What is handed on is `carry = cos * next + sin * carry`; four steps are put
/// together, because each alone would wait for the one before.
fn rotate_neighbours(x: &mut [f32], cos: f32, sin: f32) {
    let n = x.len();
    if n < 2 {
        return;
    }
    let mut carry = x[0];
    let up = Carry::new(sin);
    let mut at = 0;
    while at + 4 < n {
        let next: [f32; 4] = std::array::from_fn(|i| x[at + 1 + i]);
        let [a, b, c, d] = up.four(next.map(|x| cos * x), carry);
        let before = [carry, a, b, c];
        for i in 0..4 {
            x[at + i] = cos * before[i] - sin * next[i];
        }
        carry = d;
        at += 4;
    }
    for i in at..n - 1 {
        let next = x[i + 1];
        x[i] = cos * carry - sin * next;
        carry = cos * next + sin * carry;
    }
    x[n - 1] = carry;
    let down = Carry::new(-sin);
    let mut carry = x[n - 2];
    let mut end = n - 2;
    while end >= 4 {
        let next: [f32; 4] = std::array::from_fn(|i| x[end - 1 - i]);
        let [a, b, c, d] = down.four(next.map(|x| cos * x), carry);
        let before = [carry, a, b, c];
        for i in 0..4 {
            x[end - i] = cos * before[i] + sin * next[i];
        }
        carry = d;
        end -= 4;
    }
    for i in (0..end).rev() {
        let next = x[i];
        x[i + 1] = cos * carry + sin * next;
        carry = cos * next - sin * carry;
    }
    x[0] = carry;
}

/// A sum of which a part is handed on from step to step: the powers of that part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Carry([f32; 4]);

impl Carry {
    pub(super) const fn new(part: f32) -> Self {
        let square = part * part;
        Self([part, square, square * part, square * square])
    }

    /// Four steps, of which only the last product waits for what came before.
    #[inline(always)]
    pub(super) fn four(self, x: [f32; 4], carry: f32) -> [f32; 4] {
        let Self([part, square, cube, fourth]) = self;
        let [a, b, c, d] = x;
        let b = b + part * a;
        let (c, d) = (c + part * b, d + part * c + square * b);
        [a + part * carry, b + square * carry, c + cube * carry, d + fourth * carry]
    }
}

/// Sums and differences of neighbours, `stride` apart.
pub(super) fn haar(x: &mut [f32], stride: usize) {
    const ROOT: f32 = std::f32::consts::FRAC_1_SQRT_2;
    for pair in x.chunks_exact_mut(2 * stride.max(1)) {
        let (low, high) = pair.split_at_mut(stride);
        for (low, high) in low.iter_mut().zip(high) {
            let (a, b) = (ROOT * *low, ROOT * *high);
            (*low, *high) = (a + b, a - b);
        }
    }
}

/// Where a block stands when blocks that came of one are ordered by their frequency: their signs change
/// that often.
fn place(block: usize, n_blocks: usize) -> usize {
    // A Gray code of the reversed number counts the changes from the other end.
    let log = n_blocks.trailing_zeros();
    let mut reversed = block.reverse_bits() >> (usize::BITS - log.max(1));
    if log == 0 {
        reversed = 0;
    }
    let mut changes = reversed;
    let mut shift = reversed >> 1;
    while shift > 0 {
        changes ^= shift;
        shift >>= 1;
    }
    n_blocks - 1 - changes
}

/// Puts the coefficients of each block together, or back.
pub(super) fn regroup(x: &mut [f32], n_blocks: usize, is_haar: bool, is_back: bool) {
    let mut copy = [0.0; MAX_WIDTH];
    let n = x.len().min(MAX_WIDTH);
    let n_blocks = n_blocks.clamp(1, MAX_BLOCKS);
    let len = n / n_blocks;
    for block in 0..n_blocks {
        let at = if is_haar { place(block, n_blocks) } else { block };
        for i in 0..len {
            let (apart, together) = (i * n_blocks + block, at * len + i);
            if is_back {
                copy[apart] = x[together];
            } else {
                copy[together] = x[apart];
            }
        }
    }
    x[..n].copy_from_slice(&copy[..n]);
}

/// Makes left and right of a middle of length one and its side, which holds its own length.
pub(super) fn to_left_and_right(x: &mut [f32], y: &mut [f32], middle: f32) {
    let product: f32 = {
        let mut sums = [0.0f32; 8];
        let (xs, x_rest) = x.as_chunks::<8>();
        let (ys, y_rest) = y.as_chunks::<8>();
        for (xs, ys) in xs.iter().zip(ys) {
            for ((sum, x), y) in sums.iter_mut().zip(xs).zip(ys) {
                *sum += x * y;
            }
        }
        let [a, b, c, d, e, f, g, h] = sums;
        let sum = ((a + e) + (c + g)) + ((b + f) + (d + h));
        x_rest.iter().zip(y_rest).fold(sum, |sum, (x, y)| sum + x * y)
    };
    let across = 2.0 * middle * product;
    let both = middle * middle + energy(y);
    let (left, right) = (both - across, both + across);
    if left < 6e-4 || right < 6e-4 {
        y.copy_from_slice(x);
        return;
    }
    let (left, right) = (1.0 / left.sqrt(), 1.0 / right.sqrt());
    for (x, y) in x.iter_mut().zip(y) {
        let m = middle * *x;
        (*x, *y) = (left * (m - *y), right * (m + *y));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_ordered_as_the_standard_lists_them() {
        let listed: [&[usize]; 4] = [
            &[1, 0],
            &[3, 0, 2, 1],
            &[7, 0, 4, 3, 6, 1, 5, 2],
            &[15, 0, 8, 7, 12, 3, 11, 4, 14, 1, 9, 6, 13, 2, 10, 5],
        ];
        for places in listed {
            for (block, &at) in places.iter().enumerate() {
                assert_eq!(place(block, places.len()), at, "{block} of {}", places.len());
            }
        }
    }

    #[test]
    fn regrouping_and_haar_have_inverses() {
        for (len, n_blocks) in [(16, 8), (24, 4), (176, 16), (6, 2)] {
            for is_haar in [false, true] {
                let x: Vec<f32> = (0..len).map(|i| i as f32).collect();
                let mut y = x.clone();
                regroup(&mut y, n_blocks, is_haar, false);
                assert_ne!(x, y);
                regroup(&mut y, n_blocks, is_haar, true);
                assert_eq!(x, y);
            }
        }
    }
}
