//! Where threads start: one place that names them, and tells how many can run.

use std::{
    any::Any,
    io,
    sync::{Mutex, PoisonError},
    thread,
};

#[cfg(feature = "shuttle")]
use shuttle::thread::JoinHandle;
#[cfg(not(feature = "shuttle"))]
use std::thread::JoinHandle;

/// Starts a named thread. A panic in it ends only this thread and comes out of `join`.
///
/// # Errors
///
/// What the operating system says when it has no thread to give.
pub(crate) fn spawn<F, T>(name: impl Into<String>, run: F) -> io::Result<JoinHandle<T>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    #[cfg(feature = "shuttle")]
    return shuttle::thread::Builder::new().name(name.into()).spawn(run);
    #[cfg(not(feature = "shuttle"))]
    thread::Builder::new().name(name.into()).spawn(run)
}

/// Starts a named thread that may borrow; the scope joins it.
///
/// # Errors
///
/// What the operating system says when it has no thread to give.
pub(crate) fn spawn_scoped<'scope, F, T>(
    scope: &'scope thread::Scope<'scope, '_>,
    name: impl Into<String>,
    run: F,
) -> io::Result<thread::ScopedJoinHandle<'scope, T>>
where
    F: FnOnce() -> T + Send + 'scope,
    T: Send + 'scope,
{
    thread::Builder::new().name(name.into()).spawn_scoped(scope, run)
}

/// Does all `jobs`, taken in their order, on up to `n_threads` threads of which this is one, and returns
/// when they are done. The others are called `name` and a number.
///
/// # Panics
///
/// Where `work` does.
pub fn share_out<J: Send>(name: &str, jobs: Vec<J>, n_threads: usize, work: impl Fn(J) + Sync) {
    let n_threads = n_threads.min(jobs.len());
    let jobs = Mutex::new(jobs.into_iter());
    let lock = || jobs.lock().unwrap_or_else(PoisonError::into_inner);
    let next = || lock().next();
    let team = Team {
        name,
        is_wanted: &|n| n < n_threads && lock().len() > 0,
        work: &|| {
            while let Some(job) = next() {
                work(job);
            }
        },
    };
    thread::scope(|scope| team.join_in(scope, 1));
}

/// Threads that do the same work, each of which starts the next: quick jobs are done before many have
/// started, and none waits while it starts all others.
struct Team<'a> {
    name: &'a str,
    /// Whether there is work for one more.
    is_wanted: &'a (dyn Fn(usize) -> bool + Sync),
    work: &'a (dyn Fn() + Sync),
}

impl Team<'_> {
    fn join_in<'scope>(&'scope self, scope: &'scope thread::Scope<'scope, '_>, n: usize) {
        if (self.is_wanted)(n) {
            let next = move || self.join_in(scope, n + 1);
            // One that cannot start costs time and nothing else.
            let _ = spawn_scoped(scope, format!("{}-{n}", self.name), next);
        }
        (self.work)();
    }
}

/// CPUs that this process may use: affinity and cgroup quota counted.
pub fn usable_cpus() -> usize {
    thread::available_parallelism().map_or(1, Into::into)
}

/// The CPUs that threads started now may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cpus {
    /// How many, the quota counted.
    pub(crate) n: usize,
    /// Which, where the system tells.
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

/// What a contained panic said.
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
            super::share_out("test", done.iter().collect(), n_threads, |one| {
                one.fetch_add(1, Relaxed);
            });
            assert!(done.iter().all(|one| one.load(Relaxed) == 1), "{n_jobs} {n_threads}");
        }
    }

    #[test]
    fn jobs_are_done_side_by_side() {
        let (all_here, seen) = (Barrier::new(3), Mutex::new(HashSet::new()));
        super::share_out("test", vec![(); 3], 3, |()| {
            all_here.wait();
            seen.lock().unwrap().insert(thread::current().id());
        });
        assert_eq!(seen.lock().unwrap().len(), 3);
    }

    #[test]
    fn a_panic_comes_out_of_join() {
        let handle = super::spawn("gristmill-test", || panic!("contained")).unwrap();
        assert_eq!(handle.thread().name(), Some("gristmill-test"));
        assert!(handle.join().is_err());
    }
}
