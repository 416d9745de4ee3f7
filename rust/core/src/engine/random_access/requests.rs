//! Requests of callers, and the rows that threads work on for them.

use std::{
    fmt, mem,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use crate::{
    batch::Batch,
    engine::{
        row::RowTask,
        wait::ReadEvents,
        work::{ByRequest, Items, Queue, SharedQueue},
    },
    error::{Error, ErrorKind, Result},
    sync::{Condvar, Mutex, lock, wait_timeout},
};

/// The queue of the rows that were asked for. Each of them brings the ticket of its caller.
pub(super) type RequestQueue = SharedQueue<RequestItems, ByRequest<RequestItems>>;

/// The types of what passes through it.
#[derive(Debug)]
pub(super) struct RequestItems;

impl Items for RequestItems {
    type Parked = (Box<RowTask>, Ticket);
    type Read = (Box<RowTask>, Ticket);
    type Row = ();
    type Slot = ();
    type Lease = ();
    type Batch = ();
}

impl ReadEvents for RequestQueue {
    fn n_loads(&self) -> u64 {
        self.read(Queue::n_loads)
    }

    fn load_ended(&self) {
        self.update(Queue::load_ended);
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

    /// Sets the outcome of a row, if it has none yet.
    pub(super) fn set(&self, place: usize, row: Result<Batch>) {
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

/// Leaves out what was not begun of a request.
pub(super) fn cancel(queue: &RequestQueue, request: &Arc<RequestState>) {
    if request.is_done() {
        return;
    }
    let is_of = |(_, ticket): &(_, Ticket)| Arc::ptr_eq(&ticket.request, request);
    let left_out = queue.update(|queue| queue.leave_out(is_of));
    // Not under the lock, which a ticket's end takes.
    drop(left_out);
}

/// A row's place in its request. One that is dropped leaves an error there, so that no caller waits
/// for a row that nobody works on, as after a panic.
pub(super) struct Ticket {
    request: Arc<RequestState>,
    place: usize,
    queue: Arc<RequestQueue>,
    /// The row's number in the queue.
    number: u64,
    is_finished: bool,
}

impl Ticket {
    /// That of the row at this place of a request. `numbers` counts the tickets of the queue.
    pub(super) fn new(
        request: &Arc<RequestState>,
        place: usize,
        queue: &Arc<RequestQueue>,
        numbers: &AtomicU64,
    ) -> Self {
        let (request, queue) = (Arc::clone(request), Arc::clone(queue));
        let number = numbers.fetch_add(1, Relaxed);
        Self { request, place, queue, number, is_finished: false }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
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
            let kind = if self.queue.is_closed() {
                ErrorKind::Closed
            } else {
                ErrorKind::WorkerPanicked("while it worked on a row".to_owned())
            };
            self.request.set(self.place, Err(Error::new(kind)));
        }
        self.queue.update(|queue| queue.ended(self.number));
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("number", &self.number).finish_non_exhaustive()
    }
}
