//! A queue that threads share: its lock, and who is woken when it changes.
//!
//! Each event locks the queue, changes it, computes what can be done next, and wakes threads for that
//! after unlocking: a woken thread needs the lock at once. What the pools ask for (the number of rows
//! that can be read or decoded) is in atomics, so that they never wait for the lock.

#[cfg(test)]
#[cfg(feature = "shuttle")]
mod request_tests;
#[cfg(test)]
#[cfg(feature = "shuttle")]
mod tests;

use std::{
    sync::{Arc, OnceLock, Weak},
    time::{Duration, Instant},
};

use super::{
    pool::Client,
    queue::{ByRequest, InOrder, Items, Next, Order, Queue},
};
use crate::{
    engine::wait::WaitFor,
    error::{Error, ErrorKind, Result},
    memory::{Account, Permit},
    metrics::{IdleReason, IdleTime},
    sync::{
        AtomicBool, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering::SeqCst, lock, wait_timeout,
    },
};

/// A queue behind a lock.
#[derive(Debug)]
pub(crate) struct SharedQueue<W: Items, O = InOrder<W>> {
    state: Mutex<State<W, O>>,
    /// The consumer waits here.
    ready: Condvar,
    account: Arc<Account>,
    /// Rows that can be read and decoded now.
    n_readable: AtomicUsize,
    n_read: AtomicUsize,
    /// Whether a parked row waits for bytes.
    waits_for_bytes: AtomicBool,
    readers: OnceLock<Client>,
    decoders: OnceLock<Client>,
}

#[derive(Debug)]
struct State<W: Items, O> {
    queue: Queue<W, O>,
    is_closed: bool,
    /// Threads that wait at `ready`: notifying without any is a system call too.
    n_waiting: usize,
    /// What was recorded of idle readers.
    idle: Option<(usize, IdleReason)>,
    /// Whether the account was asked to notify.
    is_notified: bool,
}

/// Whom to wake.
#[derive(Clone, Copy, Debug, Default)]
struct Wake {
    readers: bool,
    decoders: bool,
    consumer: bool,
}

impl<W: Items, O: Order<W>> SharedQueue<W, O> {
    fn of(queue: Queue<W, O>, account: Arc<Account>) -> Self {
        Self {
            state: Mutex::new(State {
                queue,
                is_closed: false,
                n_waiting: 0,
                idle: None,
                is_notified: false,
            }),
            ready: Condvar::new(),
            account,
            n_readable: AtomicUsize::new(0),
            n_read: AtomicUsize::new(0),
            waits_for_bytes: AtomicBool::new(false),
            readers: OnceLock::new(),
            decoders: OnceLock::new(),
        }
    }

    /// Sets the clients that are woken, and wakes them for what can be done already.
    pub(crate) fn set_clients(&self, readers: Client, decoders: Client) {
        self.readers.get_or_init(|| readers);
        self.decoders.get_or_init(|| decoders);
        let (readers, decoders) = (self.n_readable() > 0, self.n_read() > 0);
        self.wake(Wake { readers, decoders, consumer: false });
    }

    /// Wakes readers from now on when bytes are freed that they wait for.
    pub(crate) fn watch_account(self: &Arc<Self>)
    where
        W: 'static,
        O: 'static,
        Self: Send + Sync,
    {
        let queue: Weak<Self> = Arc::downgrade(self);
        self.account.on_free(move || {
            if let Some(queue) = queue.upgrade() {
                // Without the lock, which the thread that freed the bytes may hold. A reader that
                // finds nothing to do corrects the number.
                queue.n_readable.fetch_max(1, SeqCst);
                queue.wake(Wake { readers: true, ..Wake::default() });
            }
        });
    }

    /// Changes the queue, and wakes those that can go on.
    pub(crate) fn update<T>(&self, change: impl FnOnce(&mut Queue<W, O>) -> T) -> T {
        self.observed(change, |_, _| ())
    }

    /// Changes the queue, calls `observe` with what readers can do then, and wakes those that can go
    /// on.
    fn observed<T>(
        &self,
        change: impl FnOnce(&mut Queue<W, O>) -> T,
        observe: impl FnOnce(&mut State<W, O>, Result<usize, IdleReason>),
    ) -> T {
        let mut state = lock(&self.state);
        let result = change(&mut state.queue);
        let readable = state.queue.readable();
        observe(&mut state, readable);
        let wake = self.publish(&mut state, readable);
        drop(state);
        self.wake(wake);
        result
    }

    /// Reads from the queue.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Queue<W, O>) -> T) -> T {
        read(&lock(&self.state).queue)
    }

    /// The bytes that a claimed row needs, where they are free and no row waits for bytes: what parking
    /// it would return at once, without the lock. A row that is parked meanwhile comes after this one.
    pub(crate) fn bytes_at_once(&self, wait: WaitFor) -> Option<Permit> {
        let WaitFor::Bytes { n_bytes, from_reserve } = wait else { return None };
        if self.waits_for_bytes.load(SeqCst) {
            return None;
        }
        if from_reserve {
            self.account.try_take_reserved(n_bytes)
        } else {
            self.account.try_take(n_bytes)
        }
    }

    /// Stores what can be done. Returns whom to wake for it. What lies elsewhere is no longer in the
    /// caches after a row was decoded, so that it is only touched where something changes.
    fn publish(&self, state: &mut State<W, O>, readable: Result<usize, IdleReason>) -> Wake {
        let queue = &state.queue;
        let (mut n_readable, n_read) =
            if state.is_closed { (0, 0) } else { (readable.unwrap_or(0), queue.n_read()) };
        store_changed(&self.n_readable, n_readable);
        store_changed(&self.n_read, n_read);
        let waits_for_bytes = queue.waits_for_bytes();
        if self.waits_for_bytes.load(SeqCst) != waits_for_bytes {
            self.waits_for_bytes.store(waits_for_bytes, SeqCst);
        }
        let needs_bytes = readable == Err(IdleReason::Memory);
        if needs_bytes || state.is_notified {
            self.account.notify_when_freed(needs_bytes);
            state.is_notified = needs_bytes;
        }
        if needs_bytes && !state.is_closed {
            // Bytes may have been freed before the account was asked to notify.
            n_readable = queue.readable().unwrap_or(0);
            self.n_readable.fetch_max(n_readable, SeqCst);
        }
        Wake {
            readers: n_readable > 0,
            decoders: n_read > 0,
            consumer: state.n_waiting > 0 && (state.is_closed || queue.is_ready()),
        }
    }

    /// As [`Self::publish`], of what readers can do now.
    fn publish_now(&self, state: &mut State<W, O>) -> Wake {
        let readable = state.queue.readable();
        self.publish(state, readable)
    }

    fn wake(&self, Wake { readers, decoders, consumer }: Wake) {
        if readers && let Some(client) = self.readers.get() {
            client.wake();
        }
        if decoders && let Some(client) = self.decoders.get() {
            client.wake();
        }
        if consumer {
            self.ready.notify_all();
        }
    }

    /// About how many rows could be read now: 0 only if there are none.
    pub(crate) fn n_readable(&self) -> usize {
        self.n_readable.load(SeqCst)
    }

    /// Rows that wait for a decoder.
    pub(crate) fn n_read(&self) -> usize {
        self.n_read.load(SeqCst)
    }

    /// Readers have nothing to do until the queue changes.
    pub(crate) fn clear_readable(&self) {
        self.n_readable.store(0, SeqCst);
    }

    fn wait<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<W, O>>,
        timeout: Duration,
    ) -> MutexGuard<'a, State<W, O>> {
        state.n_waiting += 1;
        let mut state = wait_timeout(&self.ready, state, timeout);
        state.n_waiting -= 1;
        state
    }

    /// Ends all waits. Later calls find the queue closed.
    pub(crate) fn close(&self) {
        let mut state = lock(&self.state);
        state.is_closed = true;
        let wake = self.publish_now(&mut state);
        drop(state);
        self.wake(wake);
    }

    /// Waits for the readers and decoders that are working, and frees what was not delivered.
    pub(crate) fn join(&self) {
        for client in [&self.readers, &self.decoders] {
            if let Some(client) = client.get() {
                client.leave();
            }
        }
        let held = lock(&self.state).queue.clear();
        drop(held);
    }

    /// The clients of the readers and of the decoders.
    pub(crate) fn clients(&self) -> Option<(&Client, &Client)> {
        self.readers.get().zip(self.decoders.get())
    }
}

impl<W: Items> SharedQueue<W> {
    /// A queue that has not begun. Readers have something to do from the start: opening the shards.
    pub(crate) fn new(account: Arc<Account>) -> Self {
        let shared = Self::of(Queue::new(Arc::clone(&account)), account);
        shared.n_readable.store(1, SeqCst);
        shared
    }

    /// As [`Self::update`], and records in `idle` how many of `n_readers` readers have nothing to do.
    pub(crate) fn update_timed<T>(
        &self,
        idle: &IdleTime,
        n_readers: usize,
        change: impl FnOnce(&mut Queue<W>) -> T,
    ) -> T {
        self.observed(change, |state, readable| {
            let queue = &state.queue;
            let reason = readable.err().filter(|_| queue.has_begun() && !queue.is_over());
            let now = reason.map(|why| (n_readers.saturating_sub(queue.n_reading()), why));
            if now != state.idle {
                state.idle = now;
                match now {
                    Some((n_idle, reason)) => idle.set(n_idle as u32, reason),
                    None => idle.clear(),
                }
            }
        })
    }

    /// Waits at most `timeout` for the next batch. Calls `on_wait` with the duration of each wait.
    ///
    /// # Errors
    ///
    /// That of the batch or of the stream; [`ErrorKind::Closed`].
    pub(crate) fn next(
        &self,
        timeout: Duration,
        mut on_wait: impl FnMut(Duration),
    ) -> Result<Next<W::Batch>> {
        let mut deadline = None;
        let mut state = lock(&self.state);
        loop {
            if state.is_closed {
                return Err(Error::new(ErrorKind::Closed));
            }
            let was_awaited = state.queue.is_awaited();
            match state.queue.take() {
                Ok(Next::Pending) if !was_awaited && state.queue.has_begun() => {
                    // Readers may go on beyond the budget now.
                    let wake = self.publish_now(&mut state);
                    drop(state);
                    self.wake(wake);
                    state = lock(&self.state);
                    continue;
                }
                Ok(Next::Pending) => {}
                Ok(Next::End) => return Ok(Next::End),
                taken => {
                    let wake = self.publish_now(&mut state);
                    drop(state);
                    self.wake(wake);
                    return taken;
                }
            }
            let now = Instant::now();
            let left = deadline.get_or_insert(now + timeout).saturating_duration_since(now);
            if left.is_zero() {
                return Ok(Next::Pending);
            }
            state = self.wait(state, left);
            on_wait(now.elapsed());
        }
    }

    /// Waits at most `timeout` until the stream has begun, failed or was closed. Returns whether it
    /// has.
    pub(crate) fn wait_begun(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let mut state = lock(&self.state);
        while !state.queue.has_begun() && !state.queue.is_ready() && !state.is_closed {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.wait(state, left);
        }
        true
    }

    /// Stops the whole stream.
    pub(crate) fn fail(&self, error: Error) {
        self.update(|queue| queue.fail(error));
    }
}

impl<W: Items> SharedQueue<W, ByRequest<W>> {
    /// A queue of rows that callers ask for, of which at most `max_active` are under way at a time.
    pub(crate) fn by_request(account: Arc<Account>, max_active: usize) -> Self {
        Self::of(Queue::by_request(Arc::clone(&account), max_active), account)
    }

    /// Adds rows to those that are to be read. Returns them if the queue is closed.
    pub(crate) fn ask(&self, rows: Vec<(u64, W::Parked)>) -> Result<(), Vec<(u64, W::Parked)>> {
        let mut state = lock(&self.state);
        if state.is_closed {
            return Err(rows);
        }
        state.queue.ask(rows);
        let wake = self.publish_now(&mut state);
        drop(state);
        self.wake(wake);
        Ok(())
    }

    /// Whether [`Self::close`] was called.
    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.state).is_closed
    }
}

/// Stores a value unless it is there already: a store waits until other processors have seen it.
fn store_changed(to: &AtomicUsize, value: usize) {
    if to.load(SeqCst) != value {
        to.store(value, SeqCst);
    }
}
