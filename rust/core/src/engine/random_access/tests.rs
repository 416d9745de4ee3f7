use super::*;
use crate::{
    engine::{
        wait::WaitFor,
        work::{Grant, Queue},
    },
    memory::{Account, MemoryPool, Permit},
    order::{RowId, Step},
};

const NOW: Duration = Duration::ZERO;

/// A queue with a budget, and the numbers of its tickets.
struct Asked {
    queue: Arc<RequestQueue>,
    account: Arc<Account>,
    numbers: AtomicU64,
}

impl Asked {
    fn new(max_active: usize, budget: usize) -> Self {
        let account = MemoryPool::default().open(budget);
        let queue = Arc::new(RequestQueue::by_request(Arc::clone(&account), max_active));
        Self { queue, account, numbers: AtomicU64::new(0) }
    }

    fn ask(&self, n: usize) -> Arc<RequestState> {
        let state = Arc::new(RequestState::new(n));
        let row = |place| {
            let ticket = Ticket::new(&state, place, &self.queue, &self.numbers);
            (ticket.number(), (task(place as u64), ticket))
        };
        self.queue.ask((0..n).map(row).collect()).unwrap();
        state
    }

    fn next(&self) -> Option<(Box<RowTask>, Ticket, Option<Permit>)> {
        match self.queue.update(Queue::next_read)? {
            Grant::Resume { parked: (task, ticket), permit } => Some((task, ticket, permit)),
            other => panic!("{other:?}"),
        }
    }

    /// Parks a row, which has to wait.
    fn park(&self, task: Box<RowTask>, ticket: Ticket, n_bytes: usize) {
        let (number, wait) = (ticket.number(), WaitFor::Bytes { n_bytes, from_reserve: false });
        let row = (task, ticket);
        assert!(self.queue.update(|queue| queue.park(number, row, wait)).is_none());
    }
}

fn task(row: u64) -> Box<RowTask> {
    let step = Step { epoch: 0, row: RowId { shard: 0, row }, part: None, repeat: None };
    Box::new(RowTask::new(row, Attempt::first(step)))
}

fn kinds(state: &RequestState) -> Vec<String> {
    let kind = |row: Result<Batch>| format!("{:?}", row.unwrap_err().kind());
    state.wait(NOW).unwrap().into_iter().map(kind).collect()
}

fn fail(ticket: Ticket) {
    ticket.finish(Err(Error::config("done")));
}

#[test]
fn rows_begin_in_their_order_and_only_so_many_at_a_time() {
    let asked = Asked::new(2, 100);
    let state = asked.ask(3);
    assert_eq!(asked.queue.n_readable(), 2);
    let (first, a, _) = asked.next().unwrap();
    let (second, b, _) = asked.next().unwrap();
    assert_eq!((first.index, second.index), (0, 1));
    assert!(asked.next().is_none() && asked.queue.n_readable() == 0);
    fail(b);
    let (third, c, _) = asked.next().unwrap();
    assert_eq!(third.index, 2);
    fail(c);
    assert!(state.wait(NOW).is_none());
    fail(a);
    assert_eq!(kinds(&state).len(), 3);
}

#[test]
fn one_row_always_goes_on_whatever_is_held() {
    let asked = Asked::new(8, 100);
    let _held = asked.account.take(1_000);
    let state = asked.ask(3);
    let claims: Vec<_> = (0..3).map(|_| asked.next().unwrap()).collect();
    for (task, ticket, _) in claims {
        asked.park(task, ticket, 60);
    }
    for left in (0..3).rev() {
        let (_, ticket, permit) = asked.next().unwrap();
        assert_eq!(permit.as_ref().map(Permit::n_bytes), Some(60));
        assert!(asked.next().is_none(), "the others wait for it");
        drop(permit);
        fail(ticket);
        assert_eq!(state.wait(NOW).is_some(), left == 0);
    }
}

#[test]
fn bytes_that_are_freed_let_a_row_go_on() {
    let asked = Asked::new(8, 100);
    let held = asked.account.take(90);
    let _state = asked.ask(2);
    let (_, _moving, _) = asked.next().unwrap();
    let (task, ticket, _) = asked.next().unwrap();
    asked.park(task, ticket, 40);
    assert!(asked.next().is_none());
    drop(held);
    assert!(asked.next().is_some());
}

#[test]
fn a_row_that_is_dropped_leaves_an_error_and_a_place() {
    let asked = Asked::new(1, 100);
    let state = asked.ask(2);
    drop(asked.next().unwrap());
    drop(asked.next().unwrap());
    assert!(kinds(&state).iter().all(|kind| kind.starts_with("WorkerPanicked")));
}

#[test]
fn a_request_that_is_dropped_leaves_out_what_was_not_begun() {
    let asked = Asked::new(1, 100);
    let (gone, kept) = (asked.ask(3), asked.ask(1));
    let begun = asked.next().unwrap();
    drop(Request { state: gone, queue: Arc::clone(&asked.queue), binary: Binary::Bytes });
    fail(begun.1);
    let (task, ticket, _) = asked.next().unwrap();
    assert_eq!(task.index, 0);
    fail(ticket);
    assert!(kept.wait(NOW).is_some() && asked.next().is_none());
}

#[test]
fn closing_ends_all_requests() {
    let asked = Asked::new(1, 100);
    let state = asked.ask(2);
    asked.queue.close();
    asked.queue.join();
    assert_eq!(kinds(&state), ["Closed", "Closed"]);
    assert!(asked.queue.ask(vec![]).is_err());
}
