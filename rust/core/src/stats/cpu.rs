//! The CPU time of threads, as the operating system accounts for it.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// What a thread of the pipeline does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Reads rows.
    Reader,
    /// Decodes rows.
    Decoder,
}

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
}

/// The threads that run, and the sum of those that have ended.
#[derive(Debug, Default)]
pub(crate) struct CpuTimes {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    running: Vec<(Role, PathBuf)>,
    ended: [CpuTime; 2],
}

impl CpuTimes {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers the calling thread; hand the result to [`Self::leave`] before the thread ends.
    pub(crate) fn enter(&self, role: Role) -> Option<PathBuf> {
        // The link reads `PID/task/TID`; the number itself takes an unsafe call.
        let link = fs::read_link("/proc/thread-self").ok()?;
        let file = Path::new("/proc/self/task").join(link.file_name()?).join("schedstat");
        self.lock().running.push((role, file.clone()));
        Some(file)
    }

    /// Adds the calling thread's time to that of the ended ones.
    pub(crate) fn leave(&self, role: Role, file: &Path) {
        let time = read(file);
        let mut inner = self.lock();
        inner.running.retain(|(_, running)| running != file);
        if let (Some(time), Some(ended)) = (time, inner.ended.get_mut(role as usize)) {
            *ended = ended.plus(time);
        }
    }

    /// The time of all threads of a role; `None` where the system does not tell.
    pub(crate) fn of(&self, role: Role) -> Option<CpuTime> {
        let inner = self.lock();
        let ended = inner.ended.get(role as usize).copied().unwrap_or_default();
        let files = inner.running.iter().filter(|(its, _)| *its == role);
        let total = files.filter_map(|(_, file)| read(file)).fold(ended, CpuTime::plus);
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
        let Some(file) = times.enter(Role::Decoder) else { return };
        let mut x = 1_u64;
        for k in 0..20_000_000_u64 {
            x = black_box(x.wrapping_mul(k | 1));
        }
        let Some(running) = times.of(Role::Decoder) else { return };
        assert!(running.used > Duration::from_micros(100));
        assert_eq!(times.of(Role::Reader), None);
        times.leave(Role::Decoder, &file);
        assert!(times.of(Role::Decoder).unwrap().used >= running.used);
        assert!(times.lock().running.is_empty());
    }
}
