//! From the `f32` that everything computes in to the types that samples are stored as.

use crate::{
    decoder::{Decoder, plan::Plan},
    error::{DecodeError, Reason},
    memory,
    report::DecodeReport,
    sample_type::SampleType,
};

impl Decoder {
    /// Decodes the row into `out` as [`AudioSpec::sample_type`](crate::AudioSpec::sample_type) has
    /// it: [`Plan::n_bytes`] bytes, aligned for a sample. Only types other than `f32` take a copy.
    ///
    /// # Errors
    /// Those of [`Self::render`]; [`Reason::WrongSlot`] also where `out` is not aligned.
    pub fn render_bytes(
        &mut self,
        bytes: &[u8],
        plan: &Plan,
        out: &mut [u8],
    ) -> Result<DecodeReport, DecodeError> {
        let found = out.len() / plan.sample_type.n_bytes();
        let wrong = || Reason::WrongSlot { expected: plan.n_samples(), found }.of(plan.info.codec);
        if plan.sample_type == SampleType::F32 {
            let out = bytemuck::try_cast_slice_mut(out).map_err(|_| wrong())?;
            return self.render(bytes, plan, out);
        }
        let out: &mut [u16] = bytemuck::try_cast_slice_mut(out).map_err(|_| wrong())?;
        if out.len() != plan.n_samples() {
            return Err(wrong());
        }
        let mut samples = std::mem::take(&mut self.samples);
        memory::zeros(&mut samples, plan.n_samples()).map_err(|e| e.of(plan.info.codec))?;
        let report = self.render(bytes, plan, &mut samples)?;
        convert(&samples, plan.sample_type, out);
        if samples.len() <= MAX_KEPT_SAMPLES {
            self.samples = samples;
        }
        Ok(report)
    }
}

/// Scratch memory above this many samples is given back after a row.
const MAX_KEPT_SAMPLES: usize = 4 << 20;

/// Stores `samples` as the bits of a 16-bit type; both slices have one length.
///
/// The conversions have no branches, so that the compiler does many samples at once.
fn convert(samples: &[f32], sample_type: SampleType, out: &mut [u16]) {
    let pairs = out.iter_mut().zip(samples);
    match sample_type {
        SampleType::F16 => pairs.for_each(|(out, &x)| *out = to_f16(x)),
        SampleType::Bf16 => pairs.for_each(|(out, &x)| *out = to_bf16(x)),
        SampleType::I16 => pairs.for_each(|(out, &x)| *out = to_i16(x).cast_unsigned()),
        SampleType::F32 => {}
    }
}

/// The nearest half-precision number of a finite one, ties to even; infinity from 65 520 on.
fn to_f16(x: f32) -> u16 {
    let sign = (x.to_bits() >> 16) & 0x8000;
    let magnitude = x.to_bits() & 0x7FFF_FFFF;
    // The exponent's bias goes from 127 to 15, the fraction from 23 bits to 10. What is cut off
    // rounds up where it is more than half, or half and the last bit kept is odd.
    let odd = (magnitude >> 13) & 1;
    let normal = magnitude.wrapping_sub((127 - 15) << 23).wrapping_add(0xFFF + odd) >> 13;
    // Below 2^-14 steps are 2^-24, which is the last bit of an `f32` from 0.5 on: an addition rounds.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
    let is_subnormal = magnitude < (127 - 14) << 23;
    let number = if is_subnormal { subnormal } else { normal.min(0x7C00) };
    (sign | number) as u16
}

/// The nearest `bfloat16` of a finite number, ties to even: the upper half of its bits, rounded.
fn to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    (bits.wrapping_add(0x7FFF + ((bits >> 16) & 1)) >> 16) as u16
}

/// Full scale is 32 768, the convention of FFmpeg, and of `soundfile` for files of 16 bits.
fn to_i16(x: f32) -> i16 {
    // From 2^23 to 2^24 the last bit of an `f32` counts ones, so adding 1.5 * 2^23 rounds to an
    // integer, ties to even, and leaves it in the low bits: a few vector instructions for many
    // samples, where `round_ties_even` would be a call for each.
    const ONES: f32 = 12_582_912.0;
    let scaled = (x * 32_768.0).clamp(-32_768.0, 32_767.0);
    (scaled + ONES).to_bits() as i16
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;

    fn converted(samples: &[f32], sample_type: SampleType) -> Vec<u16> {
        let mut out = vec![0; samples.len()];
        convert(samples, sample_type, &mut out);
        out
    }

    #[test]
    fn every_16_bit_number_comes_back() {
        let numbers: Vec<i16> = (i16::MIN..=i16::MAX).collect();
        let samples: Vec<f32> = numbers.iter().map(|&n| f32::from(n) / 32_768.0).collect();
        let got = converted(&samples, SampleType::I16);
        assert!(got.iter().zip(&numbers).all(|(got, n)| got.cast_signed() == *n));
    }

    #[test]
    fn integers_round_to_even_and_saturate() {
        let ones: [f32; 13] = [
            0.5, 1.5, 2.5, -0.5, -1.5, 0.49, 0.51, 32_766.5, 32_767.4, 32_768.0, -32_768.6, 1e9,
            -1e30,
        ];
        let samples = ones.map(|x| x / 32_768.0);
        let got = converted(&samples, SampleType::I16);
        let want = ones.map(|x| x.round_ties_even() as i16);
        assert_eq!(got.iter().map(|x| x.cast_signed()).collect::<Vec<_>>(), want);
    }

    #[test]
    fn floats_are_those_of_the_library() {
        let samples: Vec<f32> = (0..200_003u32)
            .map(|i| f32::from_bits(i.wrapping_mul(2_654_435_761)))
            .filter(|x| x.is_finite())
            .chain([
                0.0, -0.0, 65_504.0, 65_519.99, 65_520.0, 6.1e-5, 5.96e-8, 2.98e-8, 2.99e-8, 1.0,
            ])
            .collect();
        let halves = converted(&samples, SampleType::F16);
        let upper = converted(&samples, SampleType::Bf16);
        for ((x, half), upper) in samples.iter().zip(halves).zip(upper) {
            assert_eq!(half, f16::from_f32(*x).to_bits(), "{x}");
            assert_eq!(upper, bf16::from_f32(*x).to_bits(), "{x}");
        }
    }
}
