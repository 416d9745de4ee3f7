//! Ratios of rates, and the resampler's filters as tables of phases.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{
    error::{Exceeded, Reason},
    resample::design::{Design, Resampler},
};

/// Taps come in groups of this many, one for each lane of the inner product.
pub(crate) const LANES: usize = 8;

/// Output frames that are computed together from the same input frames.
pub(crate) const GROUP: usize = 4;

/// The most coefficients in a table with all phases (2 MiB). A ratio with more is interpolated.
const MAX_COEFFICIENTS: usize = 1 << 19;

/// The highest ratio of rates either way.
pub(crate) const MAX_RATIO: u64 = 1024;

/// Target rate over source rate, in lowest terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ratio {
    /// Output frames...
    pub(crate) up: u64,
    /// ...for this many input frames.
    pub(crate) down: u64,
}

impl Ratio {
    /// The ratio for these rates; `None` if they are equal.
    pub(crate) fn of(from_hz: u32, to_hz: u32) -> Result<Option<Self>, Reason> {
        let (up, down) = (u64::from(to_hz), u64::from(from_hz));
        if up == down {
            return Ok(None);
        }
        if up > down * MAX_RATIO || down > up * MAX_RATIO {
            let why =
                format!("resampling {from_hz} Hz to {to_hz} Hz exceeds a ratio of {MAX_RATIO}");
            return Err(Exceeded::fixed("resampling_ratio", why));
        }
        let divisor = gcd(up, down);
        Ok(Some(Self { up: up / divisor, down: down / divisor }))
    }

    /// Output frames for `n_frames` input frames.
    pub(crate) fn n_out(self, n_frames: u64) -> u64 {
        (n_frames * self.up).div_ceil(self.down)
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// A named filter for a ratio of rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Filter {
    pub(crate) ratio: Ratio,
    pub(crate) resampler: Resampler,
}

impl Filter {
    /// Input frames on each side of an output frame that its value depends on.
    pub(crate) fn half(self) -> usize {
        let design = self.resampler.design(self.ratio);
        (design.half_width.ceil() as usize).next_multiple_of(LANES / 2)
    }

    /// Whether there are too many phases for a table, so that those between its rows are interpolated.
    pub(crate) fn is_interpolated(self) -> bool {
        self.ratio.up > (MAX_COEFFICIENTS / (2 * self.half())) as u64
    }

    /// Frames before and behind the window of input that are multiplied by zeros only, so that they are
    /// never decoded: a group begins with the input of its first output frame and ends with that of its
    /// last one, also where only some of them are wanted.
    pub(crate) fn margins(self) -> (usize, usize) {
        if self.is_interpolated() {
            return (0, 0);
        }
        let Ratio { up, down } = self.ratio;
        let latest = ((GROUP as u64 - 1) * down).div_ceil(up) as usize;
        let n_taps = 2 * self.half();
        (latest, (n_taps + latest).next_multiple_of(LANES) - n_taps)
    }
}

/// The coefficients of one filter.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) filter: Filter,
    /// The ratio, its terms multiplied so that few output frames of a cycle are left over from groups.
    pub(crate) cycle: Ratio,
    /// Coefficients of an output frame.
    pub(crate) n_taps: usize,
    /// The frames of [`Filter::margins`] before the window.
    pub(crate) margin: usize,
    /// Rows of the table for one input frame, and whether those between must be interpolated.
    pub(crate) n_phases: u64,
    pub(crate) is_interpolated: bool,
    /// Row after row. There is one for each output frame of a cycle, in groups: each begins with as many
    /// zeros as its frame's input begins later than that of the group's first one.
    ///
    /// An interpolated table has a row for each phase, and one more at its end, which is the first one an
    /// input frame later.
    pub(crate) coefficients: Vec<f32>,
}

impl Kernel {
    fn new(filter: Filter) -> Self {
        if filter.is_interpolated() { Self::of_phases(filter) } else { Self::of_groups(filter) }
    }

    /// A table with the coefficients of every output frame.
    fn of_groups(filter: Filter) -> Self {
        let Ratio { up, down } = filter.ratio;
        let (margin, behind) = filter.margins();
        let design = filter.resampler.design(filter.ratio);
        let n_taps = 2 * filter.half() + behind;
        // Short cycles would be nothing but groups that are not full.
        let times = if up < 4 * GROUP as u64 { GROUP as u64 / gcd(up, GROUP as u64) } else { 1 };
        let cycle = Ratio { up: up * times, down: down * times };
        let n_rows = (cycle.up as usize).next_multiple_of(GROUP);
        let mut coefficients = vec![0.0; n_rows * n_taps];
        let rows = coefficients.chunks_exact_mut(n_taps).zip(0..cycle.up);
        for (row, frame) in rows {
            let first = frame - frame % GROUP as u64;
            let begin = |frame: u64| frame * down / up;
            let later = (begin(frame) - begin(first)) as usize;
            let phase = (frame * down % up) as f64 / up as f64;
            let taps = row.get_mut(later..later + 2 * filter.half()).unwrap_or_default();
            fill(&design, phase, taps);
        }
        Self { filter, cycle, n_taps, margin, n_phases: up, is_interpolated: false, coefficients }
    }

    /// A table to interpolate in. The lower the cutoff, the more taps and the fewer phases: the product is
    /// bounded.
    fn of_phases(filter: Filter) -> Self {
        let design = filter.resampler.design(filter.ratio);
        let n_taps = 2 * filter.half();
        let n_phases = (design.resolution as u64).max(2);
        let mut coefficients = vec![0.0; (n_phases as usize + 1) * n_taps];
        for (row, phase) in coefficients.chunks_exact_mut(n_taps).zip(0u64..) {
            fill(&design, phase as f64 / n_phases as f64, row);
        }
        let cycle = filter.ratio;
        Self { filter, cycle, n_taps, margin: 0, n_phases, is_interpolated: true, coefficients }
    }
}

/// The coefficients of an output frame that lies `phase` input frames behind the middle ones of `row`.
fn fill(design: &Design, phase: f64, row: &mut [f32]) {
    let before = (row.len() / 2).saturating_sub(1) as f64;
    let taps: Vec<_> = (0..row.len()).map(|k| design.at(k as f64 - before - phase)).collect();
    let sum = if design.passes_constants { taps.iter().sum() } else { 1.0 };
    row.iter_mut().zip(taps).for_each(|(to, tap)| *to = (tap / sum) as f32);
}

/// Tables that the process keeps, most recently used last.
const MAX_CACHED: usize = 16;

static TABLES: Mutex<Vec<Arc<Kernel>>> = Mutex::new(Vec::new());

/// The table of a filter, which the process keeps.
///
/// It is made without the lock: a child that is forked meanwhile would find that held for ever.
/// Threads that want the same new table at once may make it twice; both are equal.
pub(crate) fn shared(filter: Filter) -> Arc<Kernel> {
    let found = kept(filter);
    let kernel = found.unwrap_or_else(|| Arc::new(Kernel::new(filter)));
    let mut tables = lock();
    tables.retain(|kernel| kernel.filter != filter);
    if tables.len() == MAX_CACHED {
        tables.remove(0);
    }
    tables.push(Arc::clone(&kernel));
    kernel
}

fn lock() -> MutexGuard<'static, Vec<Arc<Kernel>>> {
    // A panic while the lock was held leaves a list of whole tables, which stays usable.
    TABLES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn kept(filter: Filter) -> Option<Arc<Kernel>> {
    lock().iter().find(|kernel| kernel.filter == filter).map(Arc::clone)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filters(from: u32, to: u32) -> impl Iterator<Item = Filter> {
        let ratio = Ratio::of(from, to).unwrap().unwrap();
        Resampler::ALL.into_iter().map(move |(_, resampler)| Filter { ratio, resampler })
    }

    #[test]
    fn every_phase_passes_a_constant() {
        for (from, to) in [(44_100, 32_000), (32_000, 16_000), (8_000, 48_000), (44_099, 32_000)] {
            for filter in filters(from, to) {
                let kernel = shared(filter);
                // The filter of torchaudio is left as it is defined.
                let bound = if filter.resampler == Resampler::Torchaudio { 2e-3 } else { 1e-6 };
                for row in kernel.coefficients.chunks(kernel.n_taps) {
                    let sum: f64 = row.iter().map(|&x| f64::from(x)).sum();
                    assert!((sum - 1.0).abs() < bound, "{filter:?}: {sum}");
                }
            }
        }
    }

    #[test]
    fn extreme_ratios_have_bounded_tables() {
        let rates = [(768_000, 751), (751, 768_000), (44_099, 32_000), (767_999, 768_000)];
        for (from, to) in rates.into_iter().chain([(48_000, 47_999), (5_000, 5), (1, 1_000)]) {
            for filter in filters(from, to) {
                let kernel = Kernel::new(filter);
                let len = kernel.coefficients.len();
                assert!(len <= 4 * MAX_COEFFICIENTS, "{filter:?}: {len} coefficients");
            }
        }
        assert!(Ratio::of(768_000, 700).is_err());
        assert!(Ratio::of(700, 768_000).is_err());
    }
}
