//! Threads that the iterators of a process share.
//!
//! An iterator joins a pool as a [`Client`] and tells how many threads may work for it at a time. A
//! thread of the pool asks the [`Scheduler`] whose turn it is, does a piece of work for that client,
//! and asks again. A piece of work waits for no other piece, so that no client can hold up the
//! others.
//!
//! There are as many threads as the clients ask for together, but no more than the one that asks
//! for most, or than the pool's own floor. When the last client leaves, they wait a moment for the next one
//! and then end: a training loop that is restarted goes on with the same threads. New ones would get
//! new arenas of the C library, each of which keeps what a decoder's tables took.

mod scheduler;
#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
mod tests;

use std::{
    fmt, io, mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

pub(crate) use self::scheduler::ClientTimes;
use self::scheduler::Scheduler;
use crate::{
    metrics::CpuTimes,
    sync::{AtomicUsize, Condvar, Mutex, MutexGuard, Ordering::SeqCst, lock, wait, wait_timeout},
    threads::{self, Cpus},
};

/// How long threads that no client asks for wait for one. The model checker has no time.
const LINGER: Duration =
    if cfg!(feature = "shuttle") { Duration::ZERO } else { Duration::from_millis(200) };

/// What the threads of a pool do for a client.
pub(crate) trait Work: Send + Sync {
    /// How many pieces could be done now. Asked under the pool's lock: takes no lock itself.
    fn n_ready(&self) -> usize;

    /// How many threads may do this work at a time. As [`Self::n_ready`].
    fn max_threads(&self) -> usize;

    /// Does a piece of work, or several while `is_alone`: no other client wants the thread.
    fn run(&self, is_alone: bool);

    /// A piece of work has panicked, and said this.
    fn panicked(&self, message: String);
}

/// A pool of threads. Clones are the same pool.
///
/// There is no thread a fifth of a second after the last client has left, and none survives a fork:
/// a child process needs a pool of its own.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    /// Of the threads: a number follows.
    name: &'static str,
    /// Whether there may always be a thread for each CPU; otherwise `floor` of them.
    floor: Floor,
    state: Mutex<State>,
    /// Threads wait here for work.
    work: Condvar,
    /// A client that leaves waits here for the threads that work for it.
    left: Condvar,
    /// Threads that wait at `work`, or are about to.
    n_idle: AtomicUsize,
    cpu: CpuTimes,
}

/// How many threads a pool may have though no client alone asks for so many.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Floor {
    /// One for each CPU that the process may use.
    Cpus,
    /// This many.
    Fixed(usize),
}

#[derive(Default)]
struct State {
    scheduler: Scheduler,
    n_threads: usize,
    /// Counts how often the CPUs changed while there was no client: older threads end.
    generation: u64,
    cpus: Cpus,
}

impl Shared {
    /// How many threads there should be.
    fn n_wanted(&self, state: &State) -> usize {
        let (sum, most) = state.scheduler.n_asked_for();
        let floor = match self.floor {
            Floor::Cpus => state.cpus.n,
            Floor::Fixed(n) => n,
        };
        sum.min(most.max(floor))
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("name", &self.name).finish_non_exhaustive()
    }
}

/// An iterator in a pool.
#[derive(Debug)]
pub(crate) struct Client {
    pool: Pool,
    id: u64,
    /// What was measured until it left.
    last: OnceLock<ClientTimes>,
}

impl Pool {
    /// A pool without threads. Those it will have are called `name` and a number.
    pub(crate) fn new(name: &'static str, floor: Floor) -> Self {
        let shared = Shared {
            name,
            floor,
            state: Mutex::default(),
            work: Condvar::new(),
            left: Condvar::new(),
            n_idle: AtomicUsize::new(0),
            cpu: CpuTimes::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Joins, and starts the threads that are missing. The client must leave.
    ///
    /// # Errors
    ///
    /// What the operating system says when it has no thread to give.
    pub(crate) fn join(&self, work: Arc<dyn Work>) -> io::Result<Client> {
        let cpu = self.shared.cpu.total().unwrap_or_default();
        let mut state = self.shared.lock();
        let cpus = Cpus::usable();
        if state.scheduler.is_empty() && state.cpus != cpus {
            // Waiting threads keep to the CPUs of the thread that started them.
            state.generation += 1;
            state.n_threads = 0;
        }
        state.cpus = cpus;
        let id = state.scheduler.enter(work, cpu);
        let client = Client { pool: self.clone(), id, last: OnceLock::new() };
        while state.n_threads < self.shared.n_wanted(&state) {
            let (shared, generation) = (Arc::clone(&self.shared), state.generation);
            let name = format!("{}-{}", self.shared.name, state.n_threads);
            if let Err(error) = threads::spawn(name, move || shared.run(generation)) {
                drop(state);
                client.leave();
                return Err(error);
            }
            state.n_threads += 1;
        }
        // Those that wait for a client.
        self.shared.work.notify_all();
        drop(state);
        Ok(client)
    }
}

impl Client {
    /// Tells the pool that there is something to do, if a thread has nothing to do.
    pub(crate) fn wake(&self) {
        let pool = &self.pool.shared;
        // The work was counted before this is read, and a thread counts itself before it looks for
        // work: one of the two sees the other.
        if pool.n_idle.load(SeqCst) > 0 {
            // Under the lock, so that no thread is between its look and its sleep.
            let state = pool.lock();
            pool.work.notify_one();
            drop(state);
        }
    }

    /// What was measured since it joined, until now or until it left.
    pub(crate) fn times(&self) -> ClientTimes {
        let pool = &self.pool.shared;
        let cpu = pool.cpu.total().unwrap_or_default();
        let times = pool.lock().scheduler.times(self.id, cpu);
        times.or_else(|| self.last.get().copied()).unwrap_or_default()
    }

    /// Leaves, and waits for the work that is being done for it. Safe to call again.
    pub(crate) fn leave(&self) {
        let pool = &self.pool.shared;
        let cpu = pool.cpu.total().unwrap_or_default();
        let mut state = pool.lock();
        while state.scheduler.dismiss(self.id) > 0 {
            state = wait(&pool.left, state);
        }
        if let Some((times, work)) = state.scheduler.remove(self.id, cpu) {
            self.last.get_or_init(|| times);
            pool.work.notify_all();
            drop(state);
            drop(work);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// The body of a thread: until there are more threads than wanted, or no client for long.
    fn run(&self, generation: u64) {
        let file = self.cpu.enter();
        let mut state = self.lock();
        let mut now = Instant::now();
        while state.generation == generation {
            if state.scheduler.is_empty() && !LINGER.is_zero() {
                let until = now + LINGER;
                while state.scheduler.is_empty() && state.generation == generation && now < until {
                    state = wait_timeout(&self.work, state, until - now);
                    now = Instant::now();
                }
                if state.generation != generation {
                    break;
                }
            }
            if state.n_threads > self.n_wanted(&state) {
                state.n_threads -= 1;
                // It may have been woken for work that another thread is to do now.
                self.work.notify_one();
                break;
            }
            let Some((id, work, is_alone)) = state.scheduler.next() else {
                self.n_idle.fetch_add(1, SeqCst);
                // Work that became ready before that was counted is found now.
                if !state.scheduler.has_work() {
                    state = wait(&self.work, state);
                }
                self.n_idle.fetch_sub(1, SeqCst);
                now = Instant::now();
                continue;
            };
            if self.n_idle.load(SeqCst) > 0 && state.scheduler.has_work() {
                self.work.notify_one();
            }
            drop(state);
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work.run(is_alone))) {
                work.panicked(threads::panic_message(&*panic));
            }
            // A client that leaves frees what it holds once the work has ended.
            drop(work);
            state = self.lock();
            let began = mem::replace(&mut now, Instant::now());
            if state.scheduler.done(id, now.saturating_duration_since(began)) {
                self.left.notify_all();
            }
        }
        drop(state);
        if let Some(file) = file {
            self.cpu.leave(&file);
        }
    }
}
