//! The decode threads of a process, which all its pipelines share.
//!
//! A pipeline takes a [`Seat`] and tells how many threads may work for it at a time. A thread of the
//! pool looks who is next ([`roster`]), works for it for a turn, and looks again. What is worked on
//! is behind [`Work`]: a turn waits for nobody else's, and never for its own pipeline's memory, so
//! that none can hold up the others.
//!
//! There are as many threads as the seats ask for together, but no more than there are CPUs unless
//! one seat alone asks for more. When the last seat is left they wait a moment for the next one, and
//! then end: a training loop that is taken up again goes on with the same threads. Others would get
//! other arenas of the C library, each of which keeps what a decoder's tables took.

mod roster;
#[cfg(test)]
mod tests;

use std::{
    fmt, io, mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use self::roster::Roster;
use crate::{
    stats::{CpuTimes, SeatTimes},
    threads::{self, Cpus},
};

/// How long threads that no seat asks for wait for one.
const LINGER: Duration = Duration::from_millis(200);

/// What the threads of a pool do for a seat.
pub(crate) trait Work: Send + Sync {
    /// How many pieces could be done now. Asked under the pool's lock: takes no lock itself.
    fn n_ready(&self) -> usize;

    /// Whether there will be no more. As [`Self::n_ready`].
    fn is_over(&self) -> bool;

    /// Does a piece, from `began` on, and does not wait for what other turns are to do.
    fn turn(&self, began: Instant);

    /// A turn has panicked, and said this.
    fn panicked(&self, message: String);
}

/// The decode threads that pipelines share.
///
/// Clones are the same pool. There is no thread a fifth of a second after the last pipeline, and no
/// thread survives a fork: a child process needs a pool of its own.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Threads wait here for work.
    work: Condvar,
    /// Whoever leaves waits here for the threads that are at work for it.
    left: Condvar,
    /// Threads that wait at `work`, or are about to.
    n_idle: AtomicUsize,
    cpu: CpuTimes,
}

#[derive(Default)]
struct State {
    roster: Roster,
    n_threads: usize,
    /// Counts how often the CPUs changed while no seat was taken: threads of an earlier crew end.
    crew: u64,
    cpus: Cpus,
}

impl State {
    /// How many threads there should be.
    fn n_wanted(&self) -> usize {
        let (sum, most) = self.roster.n_asked_for();
        sum.min(most.max(self.cpus.n))
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("n_idle", &self.n_idle).finish_non_exhaustive()
    }
}

/// A pipeline's place in a pool.
#[derive(Debug)]
pub(crate) struct Seat {
    pool: Pool,
    id: u64,
    /// What was measured until it was given up.
    last: OnceLock<SeatTimes>,
}

impl Pool {
    /// Takes a seat for which at most `most` threads work at a time, and starts those that are
    /// missing. Whoever takes it also leaves it.
    ///
    /// # Errors
    ///
    /// What the operating system says when it has no thread to give.
    pub(crate) fn join(&self, work: Arc<dyn Work>, most: usize) -> io::Result<Seat> {
        let cpu = self.shared.cpu.total().unwrap_or_default();
        let mut state = self.shared.lock();
        let cpus = Cpus::usable();
        if state.roster.is_empty() && state.cpus != cpus {
            // Those that wait keep to the CPUs of whoever started them.
            state.crew += 1;
            state.n_threads = 0;
        }
        state.cpus = cpus;
        let id = state.roster.enter(work, most, cpu, Instant::now());
        let seat = Seat { pool: self.clone(), id, last: OnceLock::new() };
        while state.n_threads < state.n_wanted() {
            let (shared, crew) = (Arc::clone(&self.shared), state.crew);
            let name = format!("gristmill-decode-{}", state.n_threads);
            if let Err(error) = threads::spawn(name, move || shared.run(crew)) {
                drop(state);
                seat.leave();
                return Err(error);
            }
            state.n_threads += 1;
        }
        // Those that wait for a seat.
        self.shared.work.notify_all();
        drop(state);
        Ok(seat)
    }
}

impl Seat {
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

    /// What was measured since the seat was taken, until now or until it was left.
    pub(crate) fn times(&self) -> SeatTimes {
        let pool = &self.pool.shared;
        let cpu = pool.cpu.total().unwrap_or_default();
        let times = pool.lock().roster.times(self.id, cpu, Instant::now());
        times.or_else(|| self.last.get().copied()).unwrap_or_default()
    }

    /// Gives the seat up, and waits for the turns that are being done for it. Safe to call again.
    pub(crate) fn leave(&self) {
        let pool = &self.pool.shared;
        let cpu = pool.cpu.total().unwrap_or_default();
        let mut state = pool.lock();
        while state.roster.dismiss(self.id) > 0 {
            state = pool.left.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if let Some(times) = state.roster.remove(self.id, cpu, Instant::now()) {
            self.last.get_or_init(|| times);
        }
        pool.work.notify_all();
        drop(state);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The body of a thread: until there are more threads than wanted, or no seat is taken for long.
    fn run(&self, crew: u64) {
        let file = self.cpu.enter();
        let mut state = self.lock();
        let mut now = Instant::now();
        while state.crew == crew {
            if state.roster.is_empty() {
                let is_unasked = |state: &mut State| state.roster.is_empty();
                let waited = self.work.wait_timeout_while(state, LINGER, is_unasked);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
                now = Instant::now();
                if state.crew != crew {
                    break;
                }
            }
            if state.n_threads > state.n_wanted() {
                state.n_threads -= 1;
                // It may have been woken for work that another is to do now.
                self.work.notify_one();
                break;
            }
            let n_idle = self.n_idle.load(SeqCst);
            let Some((id, work)) = state.roster.next(now, n_idle) else {
                self.n_idle.fetch_add(1, SeqCst);
                // What became ready before that was counted is found now.
                if !state.roster.has_work() {
                    state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                self.n_idle.fetch_sub(1, SeqCst);
                now = Instant::now();
                continue;
            };
            if n_idle > 0 && state.roster.has_work() {
                self.work.notify_one();
            }
            drop(state);
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work.turn(now))) {
                work.panicked(threads::panic_message(&*panic));
            }
            // Whoever leaves frees what it holds once the turns have ended.
            drop(work);
            state = self.lock();
            let began = mem::replace(&mut now, Instant::now());
            if state.roster.back(id, began, now) {
                self.left.notify_all();
            }
        }
        drop(state);
        if let Some(file) = file {
            self.cpu.leave(&file);
        }
    }
}
