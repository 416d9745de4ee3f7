//! Threads that the iterators of a process share.
//!
//! An iterator joins a pool as a [`Client`] and says how many threads may work for it at a time. A
//! thread of the pool asks the [`Scheduler`] for a client, works for it for a moment, and asks again.
//! No piece of work waits for another, so that no client can block the others.
//!
//! There are as many threads as the clients ask for together at the time, but no more than the one that
//! asks for most, or than the pool's own floor. When the last client leaves, they wait a moment for the next
//! one before they end, so that a training loop that is restarted keeps its threads: new ones would
//! get new arenas of the C library, each of which keeps the memory of a decoder's tables.

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

/// How long threads wait for a client before they end. The model checker has no time.
const KEEP_ALIVE: Duration =
    if cfg!(feature = "shuttle") { Duration::ZERO } else { Duration::from_millis(200) };

/// The work of a client.
pub(crate) trait Work: Send + Sync {
    /// The number of pieces that could be done now. Called under the pool's lock, so it must not
    /// lock.
    fn n_ready(&self) -> usize;

    /// The most threads that may do this work at a time, which may change. As [`Self::n_ready`].
    fn max_threads(&self) -> usize;

    /// Does a piece of work, and more of them until this time has passed.
    fn run(&self, slice: Duration);

    /// Called with the message of a piece of work that panicked.
    fn panicked(&self, message: String);
}

/// A pool of threads. Clones are the same pool.
///
/// Its threads end a fifth of a second after the last client has left. None survives a fork: a child
/// process needs a pool of its own.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    /// The threads' name, which a number follows.
    name: &'static str,
    floor: Floor,
    state: Mutex<State>,
    /// Threads wait here for work.
    work: Condvar,
    /// A client that leaves waits here for the threads that work for it.
    done: Condvar,
    /// Threads that wait at `work` and were not woken yet. Changed only under the lock.
    n_idle: AtomicUsize,
    cpu: CpuTimes,
}

/// The threads that a pool may have even if no single client asks for as many.
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
    /// Threads that were woken at `work` and do not run yet.
    n_woken: usize,
    /// Counts changes of the CPUs while there was no client. Threads of an earlier generation end.
    generation: u64,
    cpus: Cpus,
}

impl Shared {
    /// The number of threads that there should be.
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
    /// Its times, once it has left.
    last: OnceLock<ClientTimes>,
}

impl Pool {
    /// A pool without threads. They will be called `name` and a number.
    pub(crate) fn new(name: &'static str, floor: Floor) -> Self {
        let shared = Shared {
            name,
            floor,
            state: Mutex::default(),
            work: Condvar::new(),
            done: Condvar::new(),
            n_idle: AtomicUsize::new(0),
            cpu: CpuTimes::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Adds a client, and starts the threads that are missing. The client must leave.
    ///
    /// # Errors
    ///
    /// As [`std::thread::Builder::spawn`].
    pub(crate) fn join(&self, work: Arc<dyn Work>) -> io::Result<Client> {
        let cpu = self.shared.cpu.total().unwrap_or_default();
        let mut state = self.shared.lock();
        let cpus = Cpus::usable();
        if state.scheduler.is_empty() && state.cpus != cpus {
            // Threads keep the CPU affinity of the thread that started them.
            state.generation += 1;
            state.n_threads = 0;
        }
        state.cpus = cpus;
        let id = state.scheduler.add(work, cpu);
        let client = Client { pool: self.clone(), id, last: OnceLock::new() };
        if let Err(error) = self.shared.spawn_missing(&mut state) {
            drop(state);
            client.leave();
            return Err(error);
        }
        // Threads that are kept alive wait for a client.
        self.shared.wake_all(&mut state);
        drop(state);
        Ok(client)
    }
}

impl Client {
    /// Wakes a thread for work that has become ready, if one is idle.
    pub(crate) fn wake(&self) {
        let pool = &self.pool.shared;
        // The caller has stored the work before this load, and a thread increments `n_idle` before it
        // checks for work: one of the two sees the other.
        if pool.n_idle.load(SeqCst) > 0 {
            // Under the lock, so that no thread is between its check and its wait.
            pool.wake_one(pool.lock());
        }
    }

    /// Its times since it joined, until now or until it left.
    pub(crate) fn times(&self) -> ClientTimes {
        let pool = &self.pool.shared;
        let cpu = pool.cpu.total().unwrap_or_default();
        let times = pool.lock().scheduler.times(self.id, cpu);
        times.or_else(|| self.last.get().copied()).unwrap_or_default()
    }

    /// Leaves the pool, and waits for the threads that work for it. Safe to call again.
    pub(crate) fn leave(&self) {
        let pool = &self.pool.shared;
        let cpu = pool.cpu.total().unwrap_or_default();
        let mut state = pool.lock();
        while state.scheduler.stop(self.id) > 0 {
            state = wait(&pool.done, state);
        }
        if let Some((times, work)) = state.scheduler.remove(self.id, cpu) {
            self.last.get_or_init(|| times);
            pool.wake_all(&mut state);
            drop(state);
            drop(work);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Wakes a thread that waits for work, if there is one. Each is woken once: until it runs, which
    /// takes a while on busy CPUs, more calls would be system calls for nothing. The lock is left first:
    /// a thread that wakes takes it, and the system may put that thread in this one's place at once.
    fn wake_one(&self, mut state: MutexGuard<'_, State>) {
        let has_idle = self.n_idle.load(SeqCst) > 0;
        if has_idle {
            self.n_idle.fetch_sub(1, SeqCst);
            state.n_woken += 1;
        }
        drop(state);
        if has_idle {
            self.work.notify_one();
        }
    }

    /// Wakes all threads, those that are kept alive without a client too.
    fn wake_all(&self, state: &mut State) {
        state.n_woken += self.n_idle.swap(0, SeqCst);
        self.work.notify_all();
    }

    /// Starts the threads that are missing.
    fn spawn_missing(self: &Arc<Self>, state: &mut State) -> io::Result<()> {
        while state.n_threads < self.n_wanted(state) {
            let (shared, generation) = (Arc::clone(self), state.generation);
            let name = format!("{}-{}", self.name, state.n_threads);
            threads::spawn(name, move || shared.run(generation))?;
            state.n_threads += 1;
        }
        Ok(())
    }

    /// The body of a thread: works until there are more threads than wanted, or no client for a
    /// while.
    fn run(self: &Arc<Self>, generation: u64) {
        let file = self.cpu.enter();
        let mut state = self.lock();
        let mut now = Instant::now();
        while state.generation == generation {
            if state.scheduler.is_empty() && !KEEP_ALIVE.is_zero() {
                let until = now + KEEP_ALIVE;
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
                break;
            }
            if state.n_threads < self.n_wanted(&state) {
                // A client asks for more than before. Those that there are do, if need be.
                let _ = self.spawn_missing(&mut state);
            }
            let Some((id, work, slice)) = state.scheduler.next() else {
                self.n_idle.fetch_add(1, SeqCst);
                // See `Client::wake`.
                if state.scheduler.has_work() {
                    self.n_idle.fetch_sub(1, SeqCst);
                    continue;
                }
                while state.n_woken == 0 && state.generation == generation {
                    state = wait(&self.work, state);
                }
                state.n_woken = state.n_woken.saturating_sub(1);
                now = Instant::now();
                continue;
            };
            if self.n_idle.load(SeqCst) > 0 && state.scheduler.has_work() {
                self.wake_one(state);
            } else {
                drop(state);
            }
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work.run(slice))) {
                work.panicked(threads::panic_message(&*panic));
            }
            // Before the client is told, which then drops what the work holds.
            drop(work);
            state = self.lock();
            let began = mem::replace(&mut now, Instant::now());
            if state.scheduler.done(id, now.saturating_duration_since(began)) {
                self.done.notify_all();
            }
        }
        // It may have been woken for work, which another thread must do now.
        self.wake_one(state);
        if let Some(file) = file {
            self.cpu.leave(&file);
        }
    }
}
