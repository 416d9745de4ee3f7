//! The resampling filter: a Kaiser-windowed sinc, as a table of phases.
//!
//! Every number comes out of additions, multiplications, divisions and square roots, which IEEE
//! 754 defines to the bit, so that all machines hold the same table; `sin` of the system would
//! not do.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::error::Reason;

/// Zero crossings on each side. With the two constants below, this follows `soxr`'s HQ setting,
/// which is also librosa's default.
const ZERO_CROSSINGS: f64 = 88.0;

/// The -6 dB point, as a part of the lower Nyquist frequency.
const CUTOFF: f64 = 0.9565;

/// The shape of the window: stop band below -110 dB.
const BETA: f64 = 11.5;

/// Taps come in groups of this many, one for each lane of the inner product.
pub(super) const LANES: usize = 16;

/// The most coefficients in a table (4 MiB). A ratio with more phases is interpolated.
const MAX_COEFFICIENTS: usize = 1 << 20;

/// The highest ratio of rates either way.
pub(super) const MAX_RATIO: u64 = 1024;

/// Target rate over source rate, in lowest terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ratio {
    /// Output frames...
    pub(super) up: u64,
    /// ...for this many input frames.
    pub(super) down: u64,
}

impl Ratio {
    /// The ratio for these rates; `None` if they are equal.
    pub(super) fn of(from_hz: u32, to_hz: u32) -> Result<Option<Self>, Reason> {
        let (up, down) = (u64::from(to_hz), u64::from(from_hz));
        if up == down {
            return Ok(None);
        }
        if up > down * MAX_RATIO || down > up * MAX_RATIO {
            let why =
                format!("resampling {from_hz} Hz to {to_hz} Hz exceeds a ratio of {MAX_RATIO}");
            return Err(Reason::Limit(why));
        }
        let divisor = gcd(up, down);
        Ok(Some(Self { up: up / divisor, down: down / divisor }))
    }

    /// Output frames for `n_frames` input frames.
    pub(super) fn n_out(self, n_frames: u64) -> u64 {
        (n_frames * self.up).div_ceil(self.down)
    }

    /// Input frames on each side of an output frame that its value depends on.
    pub(super) fn half(self) -> usize {
        (self.half_width().ceil() as usize).next_multiple_of(LANES / 2)
    }

    /// The bandwidth, as a part of the source's Nyquist frequency.
    fn cutoff(self) -> f64 {
        CUTOFF * (self.up as f64 / self.down as f64).min(1.0)
    }

    fn half_width(self) -> f64 {
        ZERO_CROSSINGS / self.cutoff()
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The coefficients of one ratio.
#[derive(Debug)]
pub(super) struct Kernel {
    pub(super) ratio: Ratio,
    /// Coefficients of a phase: `2 * half`.
    pub(super) n_taps: usize,
    /// Phases between two input frames, and whether those between must be interpolated.
    pub(super) n_phases: u64,
    pub(super) is_interpolated: bool,
    /// Phase after phase. An interpolated table has one more phase at its end, which is the first
    /// one an input frame later.
    pub(super) coefficients: Vec<f32>,
}

impl Kernel {
    fn new(ratio: Ratio) -> Self {
        let n_taps = 2 * ratio.half();
        let max_phases = (MAX_COEFFICIENTS / n_taps) as u64;
        let is_interpolated = ratio.up > max_phases;
        let n_phases = if is_interpolated { max_phases - 1 } else { ratio.up };
        let n_rows = n_phases + u64::from(is_interpolated);
        let mut coefficients = Vec::with_capacity(n_rows as usize * n_taps);
        let mut row = vec![0.0; n_taps];
        for phase in 0..n_rows {
            let at = phase as f64 / n_phases as f64;
            let before = (n_taps / 2 - 1) as f64;
            for (k, tap) in row.iter_mut().enumerate() {
                *tap = tap_at(ratio, k as f64 - before - at);
            }
            // Each phase passes a constant unchanged.
            let sum: f64 = row.iter().sum();
            coefficients.extend(row.iter().map(|tap| (tap / sum) as f32));
        }
        Self { ratio, n_taps, n_phases, is_interpolated, coefficients }
    }
}

/// The filter's impulse response at `t` input frames from its centre, not normalised.
fn tap_at(ratio: Ratio, t: f64) -> f64 {
    let place = t / ratio.half_width();
    let inside = 1.0 - place * place;
    if inside < 0.0 {
        return 0.0;
    }
    let x = ratio.cutoff() * t;
    let sinc = if x == 0.0 { 1.0 } else { sin_pi(x) / (std::f64::consts::PI * x) };
    sinc * bessel_i0(BETA * inside.sqrt())
}

/// `sin(pi * x)`, by Taylor's series around the nearest integer.
fn sin_pi(x: f64) -> f64 {
    let nearest = x.round();
    let z = (x - nearest) * std::f64::consts::PI;
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

/// Tables that the process keeps, most recently used last.
const MAX_CACHED: usize = 16;

/// The table for a ratio, made once in a process.
pub(super) fn shared(ratio: Ratio) -> Arc<Kernel> {
    static TABLES: OnceLock<Mutex<Vec<Arc<Kernel>>>> = OnceLock::new();
    let tables = TABLES.get_or_init(Mutex::default);
    // A panic while the lock was held leaves a list of whole tables, which stays usable.
    let mut tables = tables.lock().unwrap_or_else(PoisonError::into_inner);
    let kernel = match tables.iter().position(|kernel| kernel.ratio == ratio) {
        Some(at) => tables.remove(at),
        None => Arc::new(Kernel::new(ratio)),
    };
    if tables.len() == MAX_CACHED {
        tables.remove(0);
    }
    tables.push(Arc::clone(&kernel));
    kernel
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_agree_with_the_library() {
        for i in -4000..4000 {
            let x = f64::from(i) * 0.012_345;
            let want = (std::f64::consts::PI * x).sin();
            assert!((sin_pi(x) - want).abs() < 1e-13, "{x}");
        }
        // Abramowitz and Stegun, table 9.8 and 9.11.
        for (x, want) in [(0.0, 1.0), (1.0, 1.266_065_877_752_008), (10.0, 2_815.716_628_466_254)] {
            assert!((bessel_i0(x) / want - 1.0).abs() < 1e-14, "{x}");
        }
    }

    #[test]
    fn every_phase_passes_a_constant() {
        for (from, to) in [(44_100, 32_000), (32_000, 16_000), (8_000, 48_000), (44_099, 32_000)] {
            let kernel = shared(Ratio::of(from, to).unwrap().unwrap());
            assert!(kernel.coefficients.len() <= MAX_COEFFICIENTS);
            for row in kernel.coefficients.chunks(kernel.n_taps) {
                let sum: f64 = row.iter().map(|&x| f64::from(x)).sum();
                assert!((sum - 1.0).abs() < 1e-6, "{from} to {to}: {sum}");
            }
        }
    }

    #[test]
    fn extreme_ratios_have_bounded_tables() {
        let kernel = Kernel::new(Ratio::of(768_000, 751).unwrap().unwrap());
        assert!(kernel.coefficients.len() <= MAX_COEFFICIENTS);
        assert!(Ratio::of(768_000, 700).is_err());
        assert!(Ratio::of(700, 768_000).is_err());
    }
}
