//! From one rate to another, with zero delay: output frame `m` stands where input frame
//! `m * down / up` would.
//!
//! Each output frame is a function of its number and of the recording alone, so a crop of the output has the
//! bits of the whole. Filters are either applied to the spectra of [blocks](block) on a fixed grid,
//! or summed up [directly](direct).

mod block;
mod design;
mod direct;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{
    cancel::Cancel,
    error::{Exceeded, Reason},
};

pub(crate) use block::Scratch;
pub use design::Resampler;

/// The highest ratio of rates either way.
const MAX_RATIO: u64 = 1024;

/// Target rate over source rate, in lowest terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ratio {
    /// Output frames...
    up: u64,
    /// ...for this many input frames.
    down: u64,
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
    /// The input frames that are needed for output frames `first..end`, as first frame and length. They may
    /// reach over both ends of the recording, where they count as zero.
    pub(crate) fn input_window(self, first: u64, end: u64) -> (i64, usize) {
        let design = self.resampler.design(self.ratio);
        match block::Grid::of(self.ratio, &design) {
            Some(grid) => grid.input_window(first, end),
            None => direct::input_window(self.ratio, &design, first, end),
        }
    }
}

/// The tables of a filter.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) filter: Filter,
    method: Method,
}

#[derive(Debug)]
enum Method {
    Blocks(Box<block::Table>),
    Direct(direct::Table),
}

impl Tables {
    fn new(filter: Filter) -> Self {
        let design = filter.resampler.design(filter.ratio);
        let method = match block::Grid::of(filter.ratio, &design) {
            Some(grid) => Method::Blocks(Box::new(block::Table::new(grid, &design))),
            None => Method::Direct(direct::Table::new(filter.ratio, &design)),
        };
        Self { filter, method }
    }

    /// Computes output frames from `first` on into `out`, from their [`Filter::input_window`].
    pub(crate) fn resample(
        &self,
        first: u64,
        window: &[f32],
        out: &mut [f32],
        scratch: &mut Scratch,
        cancel: &Cancel,
    ) -> Result<(), Reason> {
        self.resample_on(pulp::Arch::new(), first, window, out, scratch, cancel)
    }

    fn resample_on(
        &self,
        arch: pulp::Arch,
        first: u64,
        window: &[f32],
        out: &mut [f32],
        scratch: &mut Scratch,
        cancel: &Cancel,
    ) -> Result<(), Reason> {
        match &self.method {
            Method::Blocks(table) => {
                scratch.fit(table);
                arch.dispatch(block::Pairs { table, first, window, out, scratch, cancel })
            }
            Method::Direct(table) => {
                arch.dispatch(direct::Sums { table, first, window, out, cancel })
            }
        }
    }
}

/// Tables that the process keeps, most recently used last.
const MAX_CACHED: usize = 16;

static CACHE: Mutex<Vec<Arc<Tables>>> = Mutex::new(Vec::new());

/// The tables of a filter, which the process keeps.
///
/// They are made without the lock: a child that is forked meanwhile would find that held for ever.
/// Threads that want the same new tables at once may make them twice; both are equal.
pub(crate) fn shared(filter: Filter) -> Arc<Tables> {
    let cached = lock().iter().find(|tables| tables.filter == filter).map(Arc::clone);
    let tables = cached.unwrap_or_else(|| Arc::new(Tables::new(filter)));
    let mut cache = lock();
    cache.retain(|tables| tables.filter != filter);
    if cache.len() == MAX_CACHED {
        cache.remove(0);
    }
    cache.push(Arc::clone(&tables));
    tables
}

fn lock() -> MutexGuard<'static, Vec<Arc<Tables>>> {
    // A panic while the lock was held leaves a list of whole tables, which stays usable.
    CACHE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
