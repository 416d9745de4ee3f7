//! The CPU time of threads, as the operating system accounts for it.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Time that threads had a CPU, and time that they were ready to run and had none.
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

    /// What has come since `before`.
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

/// Threads of one kind: those that run, and the sum of those that have ended.
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
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers the calling thread; hand the result to [`Self::leave`] before the thread ends.
    pub(crate) fn enter(&self) -> Option<PathBuf> {
        // The link reads `PID/task/TID`; the number itself takes an unsafe call.
        let link = fs::read_link("/proc/thread-self").ok()?;
        let file = Path::new("/proc/self/task").join(link.file_name()?).join("schedstat");
        self.lock().running.push(file.clone());
        Some(file)
    }

    /// Adds the calling thread's time to that of the ended ones.
    pub(crate) fn leave(&self, file: &Path) {
        let time = read(file);
        let mut inner = self.lock();
        inner.running.retain(|running| running != file);
        inner.ended = inner.ended.plus(time.unwrap_or_default());
    }

    /// The time of all threads; `None` where the system does not tell.
    pub(crate) fn total(&self) -> Option<CpuTime> {
        let inner = self.lock();
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
        assert!(times.lock().running.is_empty());
    }
}
