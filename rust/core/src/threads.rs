//! Starting threads, all of which have names, and the CPUs that they may use.

use std::{any::Any, io, sync::Mutex, thread};

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::thread::JoinHandle;
#[cfg(not(feature = "shuttle"))]
pub(crate) use std::thread::JoinHandle;

use crate::sync::lock_std;

/// Starts a named thread. A panic in it ends only this thread, and is returned by `join`.
///
/// # Errors
///
/// As [`thread::Builder::spawn`], with [`cannot_start`].
pub(crate) fn spawn<F, T>(name: impl Into<String>, run: F) -> io::Result<JoinHandle<T>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    #[cfg(feature = "shuttle")]
    return shuttle::thread::Builder::new().name(name.into()).spawn(run);
    #[cfg(not(feature = "shuttle"))]
    thread::Builder::new().name(name.into()).spawn(run).map_err(cannot_start)
}

/// Why a thread could not be started: the system's own word is "try again".
pub fn cannot_start(error: io::Error) -> io::Error {
    if error.kind() != io::ErrorKind::WouldBlock {
        return error;
    }
    let what = format!(
        "a thread cannot be started ({error}): the process has reached the limit of its memory \
         (ulimit -v) or of its user's threads (ulimit -u); raise it, or ask for fewer threads"
    );
    io::Error::new(io::ErrorKind::OutOfMemory, what)
}

/// Runs `work` on all `jobs`, which are taken in their order by up to `n_threads` threads, this one
/// included. The other threads are called `name` and a number.
///
/// # Panics
///
/// Where `work` does.
pub fn parallel_for_each<J: Send>(
    name: &str,
    jobs: Vec<J>,
    n_threads: usize,
    work: impl Fn(J) + Sync,
) {
    let n_threads = n_threads.min(jobs.len());
    let jobs = Mutex::new(jobs.into_iter());
    let next = || lock_std(&jobs).next();
    let run = &|| {
        while let Some(job) = next() {
            work(job);
        }
    };
    thread::scope(|scope| {
        for n in 1..n_threads {
            // The threads that run may have done all jobs by now.
            if lock_std(&jobs).len() == 0 {
                break;
            }
            // If it cannot be started, the others do its jobs.
            let _ = thread::Builder::new().name(format!("{name}-{n}")).spawn_scoped(scope, run);
        }
        run();
    });
}

/// The number of CPUs that this process may use, by affinity and cgroup quota.
pub fn usable_cpus() -> usize {
    thread::available_parallelism().map_or(1, Into::into)
}

/// The CPUs that threads started now may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cpus {
    /// Their number, by affinity and cgroup quota.
    pub(crate) n: usize,
    /// Which ones, where the system tells.
    #[cfg(target_os = "linux")]
    affinity: Option<rustix::thread::CpuSet>,
}

impl Cpus {
    pub(crate) fn usable() -> Self {
        Self {
            n: usable_cpus(),
            #[cfg(target_os = "linux")]
            affinity: rustix::thread::sched_getaffinity(None).ok(),
        }
    }
}

/// The message of a contained panic.
pub(crate) fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|&text| text.to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::{
        collections::HashSet,
        sync::{
            Barrier, Mutex,
            atomic::{AtomicUsize, Ordering::Relaxed},
        },
        thread,
    };

    #[test]
    fn every_job_is_done_once_whatever_the_threads() {
        for (n_jobs, n_threads) in [(0, 4), (1, 4), (100, 0), (100, 1), (100, 3), (3, 100)] {
            let done: Vec<AtomicUsize> = (0..n_jobs).map(|_| AtomicUsize::new(0)).collect();
            super::parallel_for_each("test", done.iter().collect(), n_threads, |one| {
                one.fetch_add(1, Relaxed);
            });
            assert!(done.iter().all(|one| one.load(Relaxed) == 1), "{n_jobs} {n_threads}");
        }
    }

    #[test]
    fn jobs_run_concurrently() {
        let (all_arrived, seen) = (Barrier::new(3), Mutex::new(HashSet::new()));
        super::parallel_for_each("test", vec![(); 3], 3, |()| {
            all_arrived.wait();
            seen.lock().unwrap().insert(thread::current().id());
        });
        assert_eq!(seen.lock().unwrap().len(), 3);
    }

    #[test]
    fn join_returns_a_panic() {
        let handle = super::spawn("gristmill-test", || panic!("contained")).unwrap();
        assert_eq!(handle.thread().name(), Some("gristmill-test"));
        assert!(handle.join().is_err());
    }
}
