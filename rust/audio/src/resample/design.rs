//! The named low-pass filters of the resampler, as continuous impulse responses.
//!
//! Every number comes out of additions, multiplications, divisions and square roots, which IEEE
//! 754 defines to the bit, so that all machines hold the same tables; `sin` of the system would
//! not do. Where the constants come from is told in `docs/decisions/resampling.md`.

use std::f64::consts::PI;

use super::Ratio;

/// Which low-pass filter resampling uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resampler {
    /// As `soxr`'s HQ setting, which is librosa's default: flat to 0.91 of the lower one of the two
    /// Nyquist frequencies, silent above it.
    #[default]
    Hq,
    /// As torchaudio's default, bit for bit but for the order of sums: a short filter that lets
    /// much pass on both sides of the Nyquist frequency.
    Torchaudio,
    /// Flat to 0.95, aliases at the noise of `f32`. Up to twice the cost.
    Best,
}

impl Resampler {
    /// All of them, by the names that users give.
    pub const ALL: [(&'static str, Self); 3] =
        [("hq", Self::Hq), ("torchaudio", Self::Torchaudio), ("best", Self::Best)];

    /// Its filter for a ratio of rates.
    pub(super) fn design(self, ratio: Ratio) -> Design {
        let scale = (ratio.up as f64 / ratio.down as f64).min(1.0);
        let (zeros, resolution, sincs) = match self {
            Self::Hq => (91.8 * stages(ratio), 1024.0, hq(ratio)),
            Self::Torchaudio => (6.0, 4096.0, vec![Sinc::hann(6.0, 0.99)]),
            Self::Best => (174.0, 2048.0, vec![Sinc::kaiser(1.0, 174.0, 0.975, 14.0)]),
        };
        let cutoff = sincs.first().map_or(1.0, |sinc| sinc.cutoff);
        Design {
            half_width: zeros / cutoff / scale,
            resolution: resolution * scale,
            is_band_limited: self != Self::Torchaudio,
            scale,
            sincs,
        }
    }
}

/// How much longer `soxr`'s windows are where it takes one stage more, in which case each stage
/// must suppress more.
fn stages(Ratio { up, down }: Ratio) -> f64 {
    if down >= 4 * up || up > 4 * down { 1.0475 } else { 1.0 }
}

/// `soxr` builds its filters from stages, and which stages depends on the ratio. The products of
/// their responses come down to these.
fn hq(ratio: Ratio) -> Vec<Sinc> {
    let longer = stages(ratio);
    let Ratio { up, down } = ratio;
    if [up, down].iter().all(|n| [1, 2, 3, 4, 6].contains(n)) {
        return vec![Sinc::kaiser(1.0, 92.9 * longer, 0.95687, 13.04 * longer)];
    }
    // Other ratios end in an interpolating stage, whose response falls by 0.008 dB towards the edge
    // of the pass band: a little of a much wider filter, mixed in, does the same.
    let wide = 1.1045e-3;
    vec![
        Sinc::kaiser(1.0 - wide, 96.78 * longer, 0.95686, 13.495 * longer),
        Sinc::kaiser(wide, 13.75, 0.8513, 7.36),
    ]
}

/// A filter: an even impulse response around 0, zero beyond its half width.
#[derive(Debug)]
pub(super) struct Design {
    /// In input frames.
    pub(super) half_width: f64,
    /// Phases between two input frames that a table needs for linear interpolation between them.
    pub(super) resolution: f64,
    /// Whether nothing is left of the response above the lower one of the Nyquist frequencies, and constants
    /// pass unchanged.
    pub(super) is_band_limited: bool,
    /// The lower one of the Nyquist frequencies, as a fraction of the source's.
    scale: f64,
    sincs: Vec<Sinc>,
}

impl Design {
    /// The response at `t` input frames from the centre.
    pub(super) fn at(&self, t: f64) -> f64 {
        if t.abs() > self.half_width {
            return 0.0;
        }
        self.sincs.iter().map(|sinc| sinc.at(t * self.scale)).sum::<f64>() * self.scale
    }
}

/// A windowed sinc, in frames of the lower one of the two rates.
#[derive(Debug)]
struct Sinc {
    /// The response at 0.
    peak: f64,
    /// The -6 dB point, as a fraction of the Nyquist frequency.
    cutoff: f64,
    /// Zero crossings on each side under the whole window.
    zeros: f64,
    window: Window,
}

#[derive(Debug)]
enum Window {
    Kaiser { beta: f64 },
    Hann,
}

impl Sinc {
    /// A sinc whose gain at 0 Hz is `gain`.
    fn kaiser(gain: f64, zeros: f64, cutoff: f64, beta: f64) -> Self {
        let peak = gain * cutoff / bessel_i0(beta);
        Self { peak, cutoff, zeros, window: Window::Kaiser { beta } }
    }

    fn hann(zeros: f64, cutoff: f64) -> Self {
        Self { peak: cutoff, cutoff, zeros, window: Window::Hann }
    }

    fn at(&self, t: f64) -> f64 {
        let x = self.cutoff * t;
        let place = x.abs() / self.zeros;
        if place > 1.0 {
            return 0.0;
        }
        let sinc = if x == 0.0 { 1.0 } else { sin_pi(x) / (PI * x) };
        let window = match self.window {
            Window::Kaiser { beta } => bessel_i0(beta * (1.0 - place * place).sqrt()),
            Window::Hann => {
                let cosine = sin_pi((1.0 - place) / 2.0);
                cosine * cosine
            }
        };
        self.peak * sinc * window
    }
}

/// `sin(pi * x)`, by Taylor's series around the nearest integer.
fn sin_pi(x: f64) -> f64 {
    let nearest = x.round();
    let z = (x - nearest) * PI;
    let (mut term, mut sum) = (z, z);
    for n in 1..13u32 {
        let n = f64::from(2 * n);
        term *= -z * z / (n * (n + 1.0));
        sum += term;
    }
    if nearest % 2.0 == 0.0 { sum } else { -sum }
}

/// The modified Bessel function of the first kind and order 0, by its power series.
fn bessel_i0(x: f64) -> f64 {
    let quarter = x * x / 4.0;
    let (mut term, mut sum, mut k) = (1.0, 1.0, 1.0);
    while term > sum * 1e-18 {
        term *= quarter / (k * k);
        sum += term;
        k += 1.0;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_agree_with_the_library() {
        for i in -4000..4000 {
            let x = f64::from(i) * 0.012_345;
            let want = (PI * x).sin();
            assert!((sin_pi(x) - want).abs() < 1e-13, "{x}");
        }
        // Abramowitz and Stegun, table 9.8 and 9.11.
        for (x, want) in [(0.0, 1.0), (1.0, 1.266_065_877_752_008), (10.0, 2_815.716_628_466_254)] {
            assert!((bessel_i0(x) / want - 1.0).abs() < 1e-14, "{x}");
        }
    }

    #[test]
    fn names_are_unique() {
        for (name, resampler) in Resampler::ALL {
            let found = Resampler::ALL.iter().find(|(known, _)| *known == name);
            assert_eq!(found, Some(&(name, resampler)));
        }
        assert_eq!(Resampler::default(), Resampler::Hq);
    }
}
