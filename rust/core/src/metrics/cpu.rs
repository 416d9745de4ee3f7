//! The CPU time of threads, as the operating system accounts for it.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Mutex,
    time::Duration,
};

use crate::sync::lock_std;

/// CPU time of threads, and the time that they were ready to run and had no CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// On a CPU.
    pub used: Duration,
    /// In the kernel's run queue.
    pub queued: Duration,
}

impl CpuTime {
    fn plus(self, other: Self) -> Self {
        Self { used: self.used + other.used, queued: self.queued + other.queued }
    }

    /// The difference to an earlier time.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            used: self.used.saturating_sub(before.used),
            queued: self.queued.saturating_sub(before.queued),
        }
    }

    /// This share of it, 0 to 1.
    pub(crate) fn part(self, share: f64) -> Self {
        Self { used: self.used.mul_f64(share), queued: self.queued.mul_f64(share) }
    }
}

/// The CPU time of a pool's threads: of those that run, and the sum of those that have ended.
#[derive(Debug, Default)]
pub(crate) struct CpuTimes {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    running: Vec<PathBuf>,
    ended: CpuTime,
}

impl CpuTimes {
    /// Registers the calling thread; hand the result to [`Self::leave`] before the thread ends.
    pub(crate) fn enter(&self) -> Option<PathBuf> {
        // The link reads `PID/task/TID`. Asking for the thread's id takes an unsafe call.
        let link = fs::read_link("/proc/thread-self").ok()?;
        let file = Path::new("/proc/self/task").join(link.file_name()?).join("schedstat");
        lock_std(&self.inner).running.push(file.clone());
        Some(file)
    }

    /// Adds the calling thread's time to that of the ended ones.
    pub(crate) fn leave(&self, file: &Path) {
        let time = read(file);
        let mut inner = lock_std(&self.inner);
        inner.running.retain(|running| running != file);
        inner.ended = inner.ended.plus(time.unwrap_or_default());
    }

    /// The time of all threads; `None` where the system does not tell.
    pub(crate) fn total(&self) -> Option<CpuTime> {
        let inner = lock_std(&self.inner);
        let times = inner.running.iter().filter_map(|file| read(file));
        let total = times.fold(inner.ended, CpuTime::plus);
        (total != CpuTime::default()).then_some(total)
    }
}

/// Reads `schedstat`: nanoseconds on a CPU, nanoseconds in the run queue, times switched to
/// (Documentation/scheduler/sched-stats.rst of the Linux kernel).
fn read(file: &Path) -> Option<CpuTime> {
    let text = fs::read_to_string(file).ok()?;
    let mut fields = text.split_whitespace().map(|field| field.parse().ok());
    let mut next = || fields.next().flatten().map(Duration::from_nanos);
    Some(CpuTime { used: next()?, queued: next()? })
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    #[test]
    fn a_thread_is_counted_while_it_runs_and_afterwards() {
        let times = CpuTimes::default();
        let Some(file) = times.enter() else { return };
        let mut x = 1_u64;
        for k in 0..20_000_000_u64 {
            x = black_box(x.wrapping_mul(k | 1));
        }
        let Some(running) = times.total() else { return };
        assert!(running.used > Duration::from_micros(100));
        times.leave(&file);
        let ended = times.total().unwrap();
        assert!(ended.used >= running.used);
        assert_eq!(ended.since(ended), CpuTime::default());
        assert_eq!(ended.part(0.5).used, ended.used.mul_f64(0.5));
        assert!(lock_std(&times.inner).running.is_empty());
    }
}
