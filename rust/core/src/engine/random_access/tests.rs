use super::*;
use crate::{
    engine::wait::WaitFor,
    error::ErrorKind,
    memory::{Account, MemoryPool},
    order::{RowId, Step},
};

const NOW: Duration = Duration::ZERO;

fn task(row: u64) -> Box<RowTask> {
    let attempt =
        Attempt::first(Step { epoch: 0, row: RowId { shard: 0, row }, part: None, repeat: None });
    Box::new(RowTask::new(row, attempt))
}

fn ask(jobs: &Arc<Jobs>, n: usize) -> Arc<RequestState> {
    let state = Arc::new(RequestState::new(n));
    let asked = (0..n).map(|k| (task(k as u64), Ticket::new(&state, k, jobs))).collect();
    jobs.add(asked).unwrap();
    state
}

fn account(budget: usize) -> Arc<Account> {
    MemoryPool::default().open(budget)
}

fn bytes(n_bytes: usize) -> WaitFor {
    WaitFor::Bytes { n_bytes, from_reserve: false }
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
    let (jobs, account) = (Arc::new(Jobs::new(2)), account(100));
    let state = ask(&jobs, 3);
    assert_eq!(jobs.n_readable(), 2);
    let (first, a, _) = jobs.next_read(&account).unwrap();
    let (second, b, _) = jobs.next_read(&account).unwrap();
    assert_eq!((first.index, second.index), (0, 1));
    assert!(jobs.next_read(&account).is_none() && jobs.n_readable() == 0);
    fail(b);
    let (third, c, _) = jobs.next_read(&account).unwrap();
    assert_eq!(third.index, 2);
    fail(c);
    assert!(state.wait(NOW).is_none());
    fail(a);
    assert_eq!(kinds(&state).len(), 3);
}

#[test]
fn one_row_always_goes_on_whatever_is_held() {
    let (jobs, account) = (Arc::new(Jobs::new(8)), account(100));
    let _held = account.take(1_000);
    let state = ask(&jobs, 3);
    let claims: Vec<_> = (0..3).map(|_| jobs.next_read(&account).unwrap()).collect();
    for (task, ticket, _) in claims {
        jobs.park(task, ticket, bytes(60));
    }
    for left in (0..3).rev() {
        let (_, ticket, permit) = jobs.next_read(&account).unwrap();
        assert_eq!(permit.as_ref().map(crate::memory::Permit::n_bytes), Some(60));
        assert!(jobs.next_read(&account).is_none(), "the others wait for it");
        drop(permit);
        fail(ticket);
        assert_eq!(state.wait(NOW).is_some(), left == 0);
    }
}

#[test]
fn rows_within_the_budget_go_on_together() {
    let (jobs, account) = (Arc::new(Jobs::new(8)), account(100));
    let _state = ask(&jobs, 3);
    let claims: Vec<_> = (0..3).map(|_| jobs.next_read(&account).unwrap()).collect();
    for (task, ticket, _) in claims {
        jobs.park(task, ticket, bytes(40));
    }
    let one = jobs.next_read(&account).unwrap();
    let other = jobs.next_read(&account).unwrap();
    assert!(jobs.next_read(&account).is_none());
    drop(one);
    assert!(jobs.next_read(&account).is_some());
    drop(other);
}

#[test]
fn a_load_that_ends_wakes_those_that_wait_for_it() {
    use crate::engine::wait::ReadEvents as _;
    let (jobs, account) = (Arc::new(Jobs::new(8)), account(100));
    let _state = ask(&jobs, 2);
    let loading = jobs.next_read(&account).unwrap();
    let (task, ticket, _) = jobs.next_read(&account).unwrap();
    jobs.park(task, ticket, WaitFor::Load { after: jobs.n_loads() });
    assert!(jobs.next_read(&account).is_none());
    jobs.load_ended();
    let (task, ticket, _) = jobs.next_read(&account).unwrap();
    // One that has ended before it is waited for.
    jobs.park(task, ticket, WaitFor::Load { after: 0 });
    assert!(jobs.next_read(&account).is_some());
    drop(loading);
}

#[test]
fn a_row_that_is_dropped_leaves_an_error_and_a_place() {
    let (jobs, account) = (Arc::new(Jobs::new(1)), account(100));
    let state = ask(&jobs, 2);
    drop(jobs.next_read(&account).unwrap());
    drop(jobs.next_read(&account).unwrap());
    assert!(kinds(&state).iter().all(|kind| kind.starts_with("WorkerPanicked")));
}

#[test]
fn a_request_that_is_dropped_leaves_out_what_was_not_begun() {
    let (jobs, account) = (Arc::new(Jobs::new(1)), account(100));
    let (gone, kept) = (ask(&jobs, 3), ask(&jobs, 1));
    let begun = jobs.next_read(&account).unwrap();
    drop(Request { state: gone, jobs: Arc::clone(&jobs), binary: Binary::Bytes });
    fail(begun.1);
    let (task, ticket, _) = jobs.next_read(&account).unwrap();
    assert_eq!(task.index, 0);
    fail(ticket);
    assert!(kept.wait(NOW).is_some() && jobs.next_read(&account).is_none());
}

#[test]
fn closing_ends_all_requests() {
    let jobs = Arc::new(Jobs::new(1));
    let state = ask(&jobs, 2);
    jobs.close();
    assert_eq!(kinds(&state), ["Closed", "Closed"]);
    let refused = jobs.add(vec![]).unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::Closed));
}
