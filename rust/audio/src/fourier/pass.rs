//! The passes of a transform behind its first one.

use pulp::Simd;

use super::{Complex, Points, radix::Radix, twiddle};

/// A pass of one radix.
#[derive(Clone, Debug)]
pub(super) struct Pass {
    pub(super) radix: usize,
    /// Neighbours that share a factor, a multiple of eight.
    stride: usize,
    /// For each group of them, cosine and sine for all results but the first.
    twiddles: Vec<[f32; 2]>,
}

impl Pass {
    /// A pass over what is `left` to be done of transforms that are `stride` apart.
    pub(super) fn new(radix: usize, stride: usize, left: usize) -> Self {
        let group = |p: usize| (1..radix).map(move |k| twiddle(p * k, left));
        Self { radix, stride, twiddles: (0..left / radix).flat_map(group).collect() }
    }

    #[inline(always)]
    pub(super) fn run<S: Simd, T: Radix<R>, const R: usize>(
        &self,
        simd: S,
        n: usize,
        from: &Points,
        to: &mut Points,
    ) {
        let width = self.stride / S::F32_LANES;
        let (re, im) = (S::as_simd_f32s(&from.re[..n]).0, S::as_simd_f32s(&from.im[..n]).0);
        let row_len = re.len() / R;
        let row = |j: usize| j * row_len..(j + 1) * row_len;
        let rows: [_; R] = std::array::from_fn(|j| (&re[row(j)], &im[row(j)]));
        let to_re = S::as_mut_simd_f32s(&mut to.re[..n]).0.chunks_exact_mut(R * width);
        let to_im = S::as_mut_simd_f32s(&mut to.im[..n]).0.chunks_exact_mut(R * width);
        // The only group of the last pass is not turned.
        let is_last = self.twiddles.len() == R - 1;
        let groups = to_re.zip(to_im).zip(self.twiddles.chunks_exact(R - 1));
        for (p, ((to_re, to_im), twiddles)) in groups.enumerate() {
            let part = p * width..(p + 1) * width;
            let mut parts = rows;
            for (re, im) in &mut parts {
                (*re, *im) = (&re[part.clone()], &im[part.clone()]);
            }
            for q in 0..width {
                let mut x = [Complex::zero(simd); R];
                for (x, (re, im)) in x.iter_mut().zip(&parts) {
                    *x = Complex { re: re[q], im: im[q] };
                }
                let y = T::transform(simd, x);
                (to_re[q], to_im[q]) = (y[0].re, y[0].im);
                for k in 1..R {
                    let [cos, sin] = twiddles[k - 1];
                    let (cos, sin) = (simd.splat_f32s(cos), simd.splat_f32s(sin));
                    let y = if is_last { y[k] } else { y[k].turned(simd, cos, sin) };
                    (to_re[k * width + q], to_im[k * width + q]) = (y.re, y.im);
                }
            }
        }
    }
}
