//! Which of the rows that were asked for are read and decoded next.
//!
//! Rows are begun in the order in which they were asked for, a few at a time. One that needs more
//! bytes than are free is parked until another has ended, and goes on beyond the budget when no other
//! is under way: so there is always one that goes on, whatever callers hold on to.

use std::{
    collections::VecDeque,
    fmt, mem,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use crate::{
    batch::Batch,
    engine::{
        row::RowTask,
        wait::{ReadEvents, WaitFor},
        work::Client,
    },
    error::{Error, ErrorKind, Result},
    memory::{Account, Permit},
    sync::{AtomicUsize, Condvar, Mutex, Ordering::SeqCst, lock, wait_timeout},
};

/// The jobs of all callers.
pub(super) struct Jobs {
    state: Mutex<State>,
    /// The most rows under way.
    max_active: usize,
    /// Rows that can be read and decoded now, for the pools, which must not lock.
    n_readable: AtomicUsize,
    n_decodable: AtomicUsize,
    clients: OnceLock<(Client, Client)>,
}

#[derive(Debug, Default)]
struct State {
    is_closed: bool,
    new: VecDeque<(Box<RowTask>, Ticket)>,
    /// Rows that may go on by now, and that cannot.
    resumable: VecDeque<ParkedRow>,
    parked: Vec<ParkedRow>,
    read: VecDeque<ReadRow>,
    /// Rows that were begun and have not ended.
    n_active: usize,
    n_loads: u64,
}

/// A row that waits for something.
#[derive(Debug)]
struct ParkedRow {
    task: Box<RowTask>,
    ticket: Ticket,
    wait: WaitFor,
}

/// A row that waits for a decoder.
#[derive(Debug)]
pub(super) struct ReadRow {
    pub(super) row: Box<RowTask>,
    pub(super) ticket: Ticket,
}

/// A row to read as far as possible, and the bytes that it waited for.
pub(super) type Claim = (Box<RowTask>, Ticket, Option<Permit>);

impl State {
    /// Rows that are being read or decoded, or wait for a decoder: they end without those that are
    /// parked.
    fn n_moving(&self) -> usize {
        self.n_active.saturating_sub(self.parked.len() + self.resumable.len())
    }

    fn resume_all(&mut self) {
        self.resumable.extend(self.parked.drain(..));
    }

    /// The permit of a row that may go on, `None` if it cannot.
    #[expect(clippy::option_option, reason = "the outer one is whether, the inner one with what")]
    fn grant(&self, wait: WaitFor, account: &Arc<Account>) -> Option<Option<Permit>> {
        let is_alone = self.n_moving() == 0;
        match wait {
            WaitFor::Reader => Some(None),
            WaitFor::Load { after } => (self.n_loads > after || is_alone).then_some(None),
            WaitFor::Bytes { n_bytes, .. } if is_alone => Some(Some(account.take(n_bytes))),
            WaitFor::Bytes { n_bytes, from_reserve: true } => {
                account.try_take_reserved(n_bytes).map(Some)
            }
            WaitFor::Bytes { n_bytes, from_reserve: false } => account.try_take(n_bytes).map(Some),
        }
    }
}

impl Jobs {
    /// At most `max_active` rows are under way at a time.
    pub(super) fn new(max_active: usize) -> Self {
        Self {
            state: Mutex::default(),
            max_active,
            n_readable: AtomicUsize::new(0),
            n_decodable: AtomicUsize::new(0),
            clients: OnceLock::new(),
        }
    }

    /// Sets the clients that are woken.
    pub(super) fn set_clients(&self, reading: Client, decoding: Client) {
        self.clients.get_or_init(|| (reading, decoding));
    }

    pub(super) fn n_readable(&self) -> usize {
        self.n_readable.load(SeqCst)
    }

    pub(super) fn n_decodable(&self) -> usize {
        self.n_decodable.load(SeqCst)
    }

    /// Changes the state, and wakes threads for what can be done then.
    fn update<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = lock(&self.state);
        let result = change(&mut state);
        let n_free = self.max_active.saturating_sub(state.n_active);
        let n_readable = state.resumable.len() + state.new.len().min(n_free);
        let n_decodable = state.read.len();
        self.n_readable.store(n_readable, SeqCst);
        self.n_decodable.store(n_decodable, SeqCst);
        drop(state);
        if let Some((reading, decoding)) = self.clients.get() {
            if n_readable > 0 {
                reading.wake();
            }
            if n_decodable > 0 {
                decoding.wake();
            }
        }
        result
    }

    /// Adds rows to those that are to be read.
    ///
    /// # Errors
    ///
    /// `Closed`.
    pub(super) fn add(&self, asked: Vec<(Box<RowTask>, Ticket)>) -> Result<()> {
        let refused = self.update(|state| {
            if state.is_closed {
                return Some(asked);
            }
            state.new.extend(asked);
            None
        });
        if refused.is_some() { Err(Error::new(ErrorKind::Closed)) } else { Ok(()) }
    }

    /// The row to read next.
    pub(super) fn next_read(&self, account: &Arc<Account>) -> Option<Claim> {
        self.update(|state| {
            while let Some(row) = state.resumable.pop_front() {
                // Counted among those that move from here on, so it is looked at as parked still.
                state.parked.push(row);
                let Some(wait) = state.parked.last().map(|row| row.wait) else { break };
                if let Some(permit) = state.grant(wait, account)
                    && let Some(row) = state.parked.pop()
                {
                    return Some((row.task, row.ticket, permit));
                }
            }
            if state.n_active >= self.max_active {
                return None;
            }
            let (task, mut ticket) = state.new.pop_front()?;
            state.n_active += 1;
            ticket.is_active = true;
            Some((task, ticket, None))
        })
    }

    /// Parks a row until what it waits for may be there.
    pub(super) fn park(&self, task: Box<RowTask>, ticket: Ticket, wait: WaitFor) {
        self.update(|state| {
            state.parked.push(ParkedRow { task, ticket, wait });
            // What it waits for may have come by now, or nothing else may be left to bring it.
            let has_loaded = matches!(wait, WaitFor::Load { after } if state.n_loads > after);
            if has_loaded || matches!(wait, WaitFor::Reader) || state.n_moving() == 0 {
                state.resume_all();
            }
        });
    }

    /// Adds a row to those that are to be decoded.
    pub(super) fn push_read(&self, row: ReadRow) {
        self.update(|state| state.read.push_back(row));
    }

    /// The row to decode next.
    pub(super) fn next_decode(&self) -> Option<ReadRow> {
        self.update(|state| state.read.pop_front())
    }

    /// Leaves out what was not begun of a request.
    pub(super) fn cancel(&self, request: &Arc<RequestState>) {
        if request.is_done() {
            return;
        }
        let left_out = self.update(|state| {
            let new = mem::take(&mut state.new).into_iter();
            let is_of = |ticket: &Ticket| Arc::ptr_eq(&ticket.request, request);
            let (left_out, kept) = new.partition::<Vec<_>, _>(|(_, ticket)| is_of(ticket));
            state.new = kept.into();
            left_out
        });
        // Not under the lock, which a ticket's end takes.
        drop(left_out);
    }

    /// Takes no more requests. Rows that are given up from here on are closed.
    pub(super) fn begin_close(&self) {
        self.update(|state| state.is_closed = true);
    }

    /// Waits for what is being done, and ends all requests.
    pub(super) fn close(&self) {
        self.begin_close();
        if let Some((reading, decoding)) = self.clients.get() {
            reading.leave();
            decoding.leave();
        }
        let held = self.update(|state| {
            let State { new, resumable, parked, read, .. } = state;
            (mem::take(new), mem::take(resumable), mem::take(parked), mem::take(read))
        });
        drop(held);
    }

    fn is_closed(&self) -> bool {
        lock(&self.state).is_closed
    }

    fn ended(&self) {
        self.update(|state| {
            state.n_active = state.n_active.saturating_sub(1);
            state.resume_all();
        });
    }
}

impl fmt::Debug for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (n_readable, n_decodable) = (self.n_readable(), self.n_decodable());
        f.debug_struct("Jobs")
            .field("n_readable", &n_readable)
            .field("n_decodable", &n_decodable)
            .finish_non_exhaustive()
    }
}

impl ReadEvents for Jobs {
    fn n_loads(&self) -> u64 {
        lock(&self.state).n_loads
    }

    fn load_ended(&self) {
        self.update(|state| {
            state.n_loads += 1;
            state.resume_all();
        });
    }

    /// No row of random access goes before others.
    fn requested(&self, _index: u64) {}
}

/// The rows of one request.
#[derive(Debug)]
pub(super) struct RequestState {
    rows: Mutex<Rows>,
    done: Condvar,
}

#[derive(Debug)]
struct Rows {
    rows: Vec<Option<Result<Batch>>>,
    n_left: usize,
}

impl RequestState {
    pub(super) fn new(n: usize) -> Self {
        let rows = (0..n).map(|_| None).collect();
        Self { rows: Mutex::new(Rows { rows, n_left: n }), done: Condvar::new() }
    }

    fn is_done(&self) -> bool {
        lock(&self.rows).n_left == 0
    }

    /// Waits at most `timeout` for all rows.
    pub(super) fn wait(&self, timeout: Duration) -> Option<Vec<Result<Batch>>> {
        let mut rows = lock(&self.rows);
        let mut deadline = None;
        while rows.n_left > 0 {
            let now = Instant::now();
            let left = deadline.get_or_insert(now + timeout).saturating_duration_since(now);
            if left.is_zero() {
                return None;
            }
            rows = wait_timeout(&self.done, rows, left);
        }
        Some(mem::take(&mut rows.rows).into_iter().flatten().collect())
    }

    /// Whether this was the first outcome of its row.
    fn set(&self, place: usize, row: Result<Batch>) {
        let mut rows = lock(&self.rows);
        if let Some(slot) = rows.rows.get_mut(place)
            && slot.is_none()
        {
            *slot = Some(row);
            rows.n_left = rows.n_left.saturating_sub(1);
            if rows.n_left == 0 {
                drop(rows);
                self.done.notify_all();
            }
        }
    }
}

/// A row's place in its request. One that is dropped leaves an error there, so that no caller waits
/// for a row that nobody works on, as after a panic.
pub(super) struct Ticket {
    request: Arc<RequestState>,
    place: usize,
    jobs: Arc<Jobs>,
    /// Whether the row was begun.
    is_active: bool,
    is_finished: bool,
}

impl Ticket {
    pub(super) fn new(request: &Arc<RequestState>, place: usize, jobs: &Arc<Jobs>) -> Self {
        let (request, jobs) = (Arc::clone(request), Arc::clone(jobs));
        Self { request, place, jobs, is_active: false, is_finished: false }
    }

    /// Hands the row over.
    pub(super) fn finish(mut self, row: Result<Batch>) {
        self.is_finished = true;
        self.request.set(self.place, row);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.is_finished {
            let kind = if self.jobs.is_closed() {
                ErrorKind::Closed
            } else {
                ErrorKind::WorkerPanicked("while it worked on a row".to_owned())
            };
            self.request.set(self.place, Err(Error::new(kind)));
        }
        if self.is_active {
            self.jobs.ended();
        }
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("place", &self.place).finish_non_exhaustive()
    }
}
