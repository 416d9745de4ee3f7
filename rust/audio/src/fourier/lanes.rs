//! Vectors: complex numbers in their lanes, and moves between lanes.
//!
//! Moves have a version for AVX, whose lanes are two halves; all others go by single lanes.

use pulp::Simd;

use super::{Points, Source};

/// A complex number in each lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Complex<S: Simd> {
    pub(crate) re: S::f32s,
    pub(crate) im: S::f32s,
}

impl<S: Simd> Complex<S> {
    #[inline(always)]
    pub(super) fn zero(simd: S) -> Self {
        Self { re: simd.splat_f32s(0.0), im: simd.splat_f32s(0.0) }
    }

    #[inline(always)]
    pub(super) fn plus(self, simd: S, b: Self) -> Self {
        Self { re: simd.add_f32s(self.re, b.re), im: simd.add_f32s(self.im, b.im) }
    }

    #[inline(always)]
    pub(super) fn minus(self, simd: S, b: Self) -> Self {
        Self { re: simd.sub_f32s(self.re, b.re), im: simd.sub_f32s(self.im, b.im) }
    }

    #[inline(always)]
    pub(super) fn times(self, simd: S, x: S::f32s) -> Self {
        Self { re: simd.mul_f32s(self.re, x), im: simd.mul_f32s(self.im, x) }
    }

    /// `self - i b` and `self + i b`.
    #[inline(always)]
    pub(super) fn with_quarter(self, simd: S, b: Self) -> [Self; 2] {
        [
            Self { re: simd.add_f32s(self.re, b.im), im: simd.sub_f32s(self.im, b.re) },
            Self { re: simd.sub_f32s(self.re, b.im), im: simd.add_f32s(self.im, b.re) },
        ]
    }

    /// `self` times `1 - i`: an eighth of a turn, and longer by the root of 2.
    #[inline(always)]
    pub(super) fn eighth(self, simd: S) -> Self {
        Self { re: simd.add_f32s(self.re, self.im), im: simd.sub_f32s(self.im, self.re) }
    }

    /// `self` times `cos - i sin`.
    #[inline(always)]
    pub(crate) fn turned(self, simd: S, cos: S::f32s, sin: S::f32s) -> Self {
        let Self { re, im } = self;
        let product = |a, b| simd.mul_f32s(a, b);
        Self {
            re: simd.add_f32s(product(re, cos), product(im, sin)),
            im: simd.sub_f32s(product(im, cos), product(re, sin)),
        }
    }
}

impl Source for Points {
    #[inline(always)]
    fn get<S: Simd>(&self, _: S, i: usize) -> Complex<S> {
        Complex { re: load::<S>(&self.re, i), im: load::<S>(&self.im, i) }
    }
}

/// The vector from `i` on.
///
/// # Panics
/// If there is none.
#[inline(always)]
pub(crate) fn load<S: Simd>(from: &[f32], i: usize) -> S::f32s {
    S::as_simd_f32s(&from[i..i + S::F32_LANES]).0[0]
}

/// Writes a vector from `i` on.
///
/// # Panics
/// If there is no room.
#[inline(always)]
pub(crate) fn store<S: Simd>(to: &mut [f32], i: usize, vector: S::f32s) {
    S::as_mut_simd_f32s(&mut to[i..i + S::F32_LANES]).0[0] = vector;
}

/// AVX, if `S` is that.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn avx<S: Simd>(simd: S) -> Option<pulp::x86::V3> {
    (&simd as &dyn std::any::Any).downcast_ref().copied()
}

/// The lanes of a vector.
#[inline(always)]
fn lanes<S: Simd>(vector: &S::f32s) -> &[f32] {
    bytemuck::cast_slice(std::slice::from_ref(vector))
}

/// A vector of which lane `i` is `lane(i)`.
#[inline(always)]
fn from_lanes<S: Simd>(simd: S, lane: impl Fn(usize) -> f32) -> S::f32s {
    let mut vector = simd.splat_f32s(0.0);
    let lanes: &mut [f32] = bytemuck::cast_slice_mut(std::slice::from_mut(&mut vector));
    lanes.iter_mut().enumerate().for_each(|(i, to)| *to = lane(i));
    vector
}

/// Every second lane of `a` and then `b`, from the first on.
#[inline(always)]
pub(crate) fn evens<S: Simd>(simd: S, a: S::f32s, b: S::f32s) -> S::f32s {
    #[cfg(target_arch = "x86_64")]
    if let Some(v3) = avx(simd) {
        // The halves have two lanes of `a` and two of `b` each.
        let halves = v3.avx._mm256_shuffle_ps::<0x88>(bytemuck::cast(a), bytemuck::cast(b));
        return bytemuck::cast(v3.avx2._mm256_permute4x64_pd::<0xD8>(bytemuck::cast(halves)));
    }
    let both = [a, b];
    from_lanes(simd, |i| lanes::<S>(&both[2 * i / S::F32_LANES])[2 * i % S::F32_LANES])
}

/// Every second lane of `a` and then `b`, from the last one back.
#[inline(always)]
pub(crate) fn odds_reversed<S: Simd>(simd: S, a: S::f32s, b: S::f32s) -> S::f32s {
    #[cfg(target_arch = "x86_64")]
    if let Some(v3) = avx(simd) {
        let halves = v3.avx._mm256_shuffle_ps::<0x77>(bytemuck::cast(b), bytemuck::cast(a));
        return bytemuck::cast(v3.avx2._mm256_permute4x64_pd::<0x72>(bytemuck::cast(halves)));
    }
    let both = [a, b];
    from_lanes(simd, |i| {
        let i = 2 * (S::F32_LANES - i) - 1;
        lanes::<S>(&both[i / S::F32_LANES])[i % S::F32_LANES]
    })
}

/// The lanes from the last one back.
#[inline(always)]
pub(crate) fn reversed<S: Simd>(simd: S, a: S::f32s) -> S::f32s {
    #[cfg(target_arch = "x86_64")]
    if let Some(v3) = avx(simd) {
        let halves = v3.avx._mm256_permute_ps::<0x1B>(bytemuck::cast(a));
        return bytemuck::cast(v3.avx._mm256_permute2f128_ps::<0x01>(halves, halves));
    }
    from_lanes(simd, |i| lanes::<S>(&a)[S::F32_LANES - 1 - i])
}

/// Lanes of `a` and of `b` in turns.
#[inline(always)]
pub(crate) fn zipped<S: Simd>(simd: S, a: S::f32s, b: S::f32s) -> [S::f32s; 2] {
    #[cfg(target_arch = "x86_64")]
    if let Some(v3) = avx(simd) {
        let avx = v3.avx;
        let (a, b) = (bytemuck::cast(a), bytemuck::cast(b));
        let (low, high) = (avx._mm256_unpacklo_ps(a, b), avx._mm256_unpackhi_ps(a, b));
        return [
            bytemuck::cast(avx._mm256_permute2f128_ps::<0x20>(low, high)),
            bytemuck::cast(avx._mm256_permute2f128_ps::<0x31>(low, high)),
        ];
    }
    let both = [a, b];
    [0, S::F32_LANES].map(|first| {
        from_lanes(simd, |i| lanes::<S>(&both[(first + i) % 2])[usize::midpoint(first, i)])
    })
}

/// Writes lane `p` of vector `q` to place `8 * p + q`.
#[inline(always)]
pub(super) fn store_transposed<S: Simd>(simd: S, rows: &[S::f32s; 8], to: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if let Some(v3) = avx(simd) {
        return store_transposed_avx::<S>(v3.avx, rows, to);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = simd;
    let (places, _) = to.as_chunks_mut::<8>();
    for (q, row) in rows.iter().enumerate() {
        places.iter_mut().zip(lanes::<S>(row)).for_each(|(place, lane)| place[q] = *lane);
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn store_transposed_avx<S: Simd>(
    avx: pulp::core_arch::x86::Avx,
    rows: &[S::f32s; 8],
    to: &mut [f32],
) {
    let pair = |i: usize| (bytemuck::cast(rows[i]), bytemuck::cast(rows[i + 1]));
    let ((a, b), (c, d), (e, f), (g, h)) = (pair(0), pair(2), pair(4), pair(6));
    let zipped = |a, b| [avx._mm256_unpacklo_ps(a, b), avx._mm256_unpackhi_ps(a, b)];
    let paired = |a, b| [avx._mm256_shuffle_ps::<0x44>(a, b), avx._mm256_shuffle_ps::<0xEE>(a, b)];
    let ([ab0, ab1], [cd0, cd1]) = (zipped(a, b), zipped(c, d));
    let ([ef0, ef1], [gh0, gh1]) = (zipped(e, f), zipped(g, h));
    let ([a, b], [c, d]) = (paired(ab0, cd0), paired(ab1, cd1));
    let ([e, f], [g, h]) = (paired(ef0, gh0), paired(ef1, gh1));
    let low = |a, b| avx._mm256_permute2f128_ps::<0x20>(a, b);
    let high = |a, b| avx._mm256_permute2f128_ps::<0x31>(a, b);
    let columns = [
        [low(a, e), low(b, f), low(c, g), low(d, h)],
        [high(a, e), high(b, f), high(c, g), high(d, h)],
    ];
    for (to, column) in to.as_chunks_mut::<8>().0.iter_mut().zip(columns.as_flattened()) {
        *to = bytemuck::cast(*column);
    }
}

#[cfg(test)]
mod tests {
    use pulp::{Arch, Scalar, WithSimd};

    use super::*;

    /// All moves of the numbers from 1 on, one after the other.
    struct Moves;

    impl WithSimd for Moves {
        type Output = Vec<f32>;

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) -> Vec<f32> {
            let n = S::F32_LANES;
            let vector = |k: usize| from_lanes(simd, |i| (k * n + i + 1) as f32);
            let (a, b) = (vector(0), vector(1));
            let mut moved = vec![evens(simd, a, b), odds_reversed(simd, a, b), reversed(simd, a)];
            moved.extend(zipped(simd, a, b));
            let mut transposed = vec![0.0; 8 * n];
            store_transposed(simd, &std::array::from_fn(vector), &mut transposed);
            [bytemuck::cast_slice(&moved), &transposed[..]].concat()
        }
    }

    /// The same, as they are defined.
    fn defined(n: usize) -> Vec<f32> {
        let numbers: Vec<usize> = (1..=8 * n).collect();
        let (a, b) = (&numbers[..n], &numbers[n..2 * n]);
        let both = numbers[..2 * n].iter().copied();
        let evens = both.clone().step_by(2);
        let odds = both.skip(1).step_by(2).collect::<Vec<_>>().into_iter().rev();
        let zipped = a.iter().zip(b).flat_map(|(a, b)| [*a, *b]);
        let transposed = (0..8 * n).map(|at| at % 8 * n + at / 8 + 1);
        let all = evens.chain(odds).chain(a.iter().copied().rev()).chain(zipped).chain(transposed);
        all.map(|x| x as f32).collect()
    }

    #[test]
    fn moves_equal_their_definition() {
        assert_eq!(Moves.with_simd(Scalar), defined(1));
        let n = match Arch::new() {
            Arch::Scalar => 1,
            _ if cfg!(target_arch = "x86_64") => 8,
            _ => 4,
        };
        assert_eq!(Arch::new().dispatch(Moves), defined(n));
    }
}
