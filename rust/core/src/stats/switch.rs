//! Whether anything is measured.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static IS_ON: AtomicBool = AtomicBool::new(true);

/// Whether anything is measured: always. A build with the feature `stats-switch` can turn it off,
/// so that what measuring costs can be measured in one process, and by one and the same code.
#[inline]
pub(crate) fn on() -> bool {
    !cfg!(feature = "stats-switch") || IS_ON.load(Relaxed)
}

/// Turns measuring on or off, for all pipelines of the process. What was measured of a pipeline that
/// ran through a change means nothing.
#[cfg(feature = "stats-switch")]
pub fn switch(is_on: bool) {
    IS_ON.store(is_on, Relaxed);
}
