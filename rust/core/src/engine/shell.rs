//! The lock around a queue, and who is woken when it changes.
//!
//! Each event locks the queue, changes it, works out what can be done next, and wakes for that once
//! the lock is free: a thread that is woken needs the lock at once. What the pools ask (how many
//! rows can be read or decoded) is kept in atomics, so that they never wait for the lock.

#[cfg(test)]
#[cfg(feature = "shuttle")]
mod tests;

use std::{
    sync::{Arc, OnceLock, Weak},
    time::{Duration, Instant},
};

use super::{
    pool::Client,
    queue::{Items, Limits, Queue, Taken},
};
use crate::{
    error::{Error, ErrorKind, Result},
    memory::Account,
    metrics::{IdleReason, IdleTime},
    sync::{AtomicUsize, Condvar, Mutex, MutexGuard, Ordering::SeqCst, lock, wait_timeout},
};

/// What a wait for the next batch came to.
#[derive(Debug)]
pub enum Next<B> {
    /// A batch.
    Batch(B),
    /// The stream has ended.
    End,
    /// Nothing yet; ask again.
    Pending,
}

/// A queue that threads share.
#[derive(Debug)]
pub(crate) struct Shell<W: Items> {
    state: Mutex<State<W>>,
    /// The consumer waits here.
    ready: Condvar,
    account: Arc<Account>,
    /// What readers and decoders would find to do.
    n_readable: AtomicUsize,
    n_read: AtomicUsize,
    readers: OnceLock<Client>,
    decoders: OnceLock<Client>,
}

#[derive(Debug)]
struct State<W: Items> {
    queue: Queue<W>,
    is_closed: bool,
    /// Consumers that wait at `ready`: waking nobody is a system call too.
    n_waiting: usize,
}

/// Whom to wake.
#[derive(Clone, Copy, Debug, Default)]
struct Wake {
    readers: bool,
    decoders: bool,
    consumer: bool,
}

impl<W: Items> Shell<W> {
    /// A queue that has not begun. Readers find something to do from the start: opening the shards.
    pub(crate) fn new(limits: Limits, account: Arc<Account>) -> Self {
        let queue = Queue::new(limits, Arc::clone(&account));
        Self {
            state: Mutex::new(State { queue, is_closed: false, n_waiting: 0 }),
            ready: Condvar::new(),
            account,
            n_readable: AtomicUsize::new(1),
            n_read: AtomicUsize::new(0),
            readers: OnceLock::new(),
            decoders: OnceLock::new(),
        }
    }

    /// Those that are woken from now on, and for what they have missed.
    pub(crate) fn serve(&self, readers: Client, decoders: Client) {
        self.readers.get_or_init(|| readers);
        self.decoders.get_or_init(|| decoders);
        let (readers, decoders) = (self.n_readable() > 0, self.n_read() > 0);
        self.wake(Wake { readers, decoders, consumer: false });
    }

    /// Has readers look again when bytes come back while they are awaited.
    pub(crate) fn watch_account(self: &Arc<Self>)
    where
        W: 'static,
        Self: Send + Sync,
    {
        let shell: Weak<Self> = Arc::downgrade(self);
        self.account.on_free(move || {
            if let Some(shell) = shell.upgrade() {
                // Without the queue's lock, which the thread that gave bytes back may hold. A
                // reader that finds nothing corrects the number.
                shell.n_readable.fetch_max(1, SeqCst);
                shell.wake(Wake { readers: true, ..Wake::default() });
            }
        });
    }

    fn lock(&self) -> MutexGuard<'_, State<W>> {
        lock(&self.state)
    }

    /// Changes the queue, and wakes those who can go on.
    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut Queue<W>) -> T) -> T {
        self.measured(change, |_, _| ())
    }

    /// Looks at the queue.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Queue<W>) -> T) -> T {
        look(&self.lock().queue)
    }

    /// As [`Self::with`], and tells `idle` how many of `n_readers` readers have nothing to do.
    pub(crate) fn with_idle<T>(
        &self,
        idle: &IdleTime,
        n_readers: usize,
        change: impl FnOnce(&mut Queue<W>) -> T,
    ) -> T {
        self.measured(change, |queue, readable| match readable {
            Err(reason) if queue.has_begun() && !queue.is_over() => {
                let n_idle = n_readers.saturating_sub(queue.n_reading());
                idle.set(n_idle as u32, reason);
            }
            Ok(_) | Err(_) => idle.clear(),
        })
    }

    /// Changes the queue, looks once at what readers can do then, tells `measure` of it, and wakes
    /// those who can go on.
    fn measured<T>(
        &self,
        change: impl FnOnce(&mut Queue<W>) -> T,
        measure: impl FnOnce(&Queue<W>, Result<usize, IdleReason>),
    ) -> T {
        let mut state = self.lock();
        let result = change(&mut state.queue);
        let readable = state.queue.readable();
        measure(&state.queue, readable);
        let wake = self.publish(&state, readable);
        drop(state);
        self.wake(wake);
        result
    }

    /// Stores what can be done, and says whom to wake for it.
    fn publish(&self, state: &State<W>, readable: Result<usize, IdleReason>) -> Wake {
        let queue = &state.queue;
        let (mut n_readable, n_read) =
            if state.is_closed { (0, 0) } else { (readable.unwrap_or(0), queue.n_read()) };
        self.n_readable.store(n_readable, SeqCst);
        self.n_read.store(n_read, SeqCst);
        let is_short = readable == Err(IdleReason::Memory);
        self.account.notify_when_freed(is_short);
        if is_short && !state.is_closed {
            // Bytes that came back before that was said were told to nobody.
            n_readable = queue.readable().unwrap_or(0);
            self.n_readable.fetch_max(n_readable, SeqCst);
        }
        Wake {
            readers: n_readable > 0,
            decoders: n_read > 0,
            consumer: state.n_waiting > 0 && (state.is_closed || queue.has_something()),
        }
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

    /// Rows that readers could read now, about: 0 only if there are none.
    pub(crate) fn n_readable(&self) -> usize {
        self.n_readable.load(SeqCst)
    }

    /// Rows that wait for a decoder.
    pub(crate) fn n_read(&self) -> usize {
        self.n_read.load(SeqCst)
    }

    /// Readers have nothing to do until the queue changes.
    pub(crate) fn nothing_to_read(&self) {
        self.n_readable.store(0, SeqCst);
    }

    /// Waits at most `timeout` for the next batch. `slept` is told how long it was.
    pub(crate) fn next(
        &self,
        timeout: Duration,
        mut slept: impl FnMut(Duration),
    ) -> Result<Next<W::Batch>> {
        let mut deadline = None;
        let mut state = self.lock();
        loop {
            if state.is_closed {
                return Err(Error::new(ErrorKind::Closed));
            }
            match state.queue.take() {
                Taken::Batch(batch) => {
                    let wake = self.publish(&state, state.queue.readable());
                    drop(state);
                    self.wake(wake);
                    return batch.map(Next::Batch);
                }
                Taken::End => return Ok(Next::End),
                Taken::NotYet => {}
            }
            let now = Instant::now();
            let left = deadline.get_or_insert(now + timeout).saturating_duration_since(now);
            if left.is_zero() {
                return Ok(Next::Pending);
            }
            state = self.wait(state, left);
            slept(now.elapsed());
        }
    }

    fn wait<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<W>>,
        most: Duration,
    ) -> MutexGuard<'a, State<W>> {
        state.n_waiting += 1;
        let mut state = wait_timeout(&self.ready, state, most);
        state.n_waiting -= 1;
        state
    }

    /// Waits at most `timeout` until the stream has begun, failed or was closed; whether it has.
    pub(crate) fn wait_begun(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let mut state = self.lock();
        while !state.queue.has_begun() && !state.queue.has_something() && !state.is_closed {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.wait(state, left);
        }
        true
    }

    /// Reports what stops the whole stream.
    pub(crate) fn fail(&self, error: Error) {
        self.with(|queue| queue.fail(error));
    }

    /// Ends all waiting: what comes after finds the stream closed.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        let wake = self.publish(&state, state.queue.readable());
        drop(state);
        self.wake(wake);
    }

    /// Waits for readers and decoders that are at work, and frees what was never delivered.
    pub(crate) fn leave(&self) {
        for client in [&self.readers, &self.decoders] {
            if let Some(client) = client.get() {
                client.leave();
            }
        }
        let held = self.lock().queue.clear();
        drop(held);
    }

    /// The clients of the readers and of the decoders, once they have joined.
    pub(crate) fn clients(&self) -> Option<(&Client, &Client)> {
        self.readers.get().zip(self.decoders.get())
    }
}
