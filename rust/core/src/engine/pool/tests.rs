//! The pool with work that only counts, and the scheduler against its own clock.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread::{self, ThreadId},
    time::Duration,
};

use proptest::prelude::*;

use super::{Client, Floor, Pool, Work, scheduler::Scheduler};
use crate::metrics::CpuTime;

/// Pieces of work to be done one at a time.
#[derive(Default)]
struct Pieces {
    ready: AtomicUsize,
    done: AtomicUsize,
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
    takes: Duration,
    panics: bool,
    messages: Mutex<Vec<String>>,
    /// The most threads that it asks for.
    most: AtomicUsize,
}

impl Pieces {
    fn taking(ready: usize, takes: Duration) -> Arc<Self> {
        Arc::new(Self { ready: ready.into(), takes, ..Self::default() })
    }

    fn add(&self, client: &Client) {
        self.ready.fetch_add(1, SeqCst);
        client.wake();
    }
}

impl Work for Pieces {
    fn n_ready(&self) -> usize {
        self.ready.load(SeqCst)
    }

    fn max_threads(&self) -> usize {
        self.most.load(SeqCst)
    }

    fn run(&self, _: bool) {
        if self.ready.fetch_update(SeqCst, SeqCst, |n| n.checked_sub(1)).is_err() {
            return;
        }
        self.most_at_once.fetch_max(1 + self.at_once.fetch_add(1, SeqCst), SeqCst);
        thread::sleep(self.takes);
        self.at_once.fetch_sub(1, SeqCst);
        self.done.fetch_add(1, SeqCst);
        assert!(!self.panics, "a piece of work");
    }

    fn panicked(&self, message: String) {
        self.messages.lock().unwrap().push(message);
    }
}

/// One piece of work that keeps who does it.
struct Who(Arc<Mutex<HashSet<ThreadId>>>, AtomicUsize);

impl Work for Who {
    fn n_ready(&self) -> usize {
        self.1.load(SeqCst)
    }

    fn max_threads(&self) -> usize {
        2
    }

    fn run(&self, _: bool) {
        self.0.lock().unwrap().insert(thread::current().id());
        self.1.store(0, SeqCst);
    }

    fn panicked(&self, message: String) {
        panic!("{message}");
    }
}

/// Waits until it is so; a test that waits for ever is ended from outside.
fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        thread::sleep(Duration::from_micros(100));
    }
}

/// A pool without a floor of its own but the CPUs.
fn pool() -> Pool {
    Pool::new("test", Floor::Cpus)
}

fn join(pool: &Pool, work: &Arc<Pieces>, most: usize) -> Client {
    work.most.store(most, SeqCst);
    pool.join(Arc::clone(work) as _).unwrap()
}

fn n_threads(pool: &Pool) -> usize {
    pool.shared.lock().n_threads
}

#[test]
fn every_piece_is_done_and_no_thread_is_left() {
    let (pool, work) = (pool(), Pieces::taking(100, Duration::ZERO));
    assert_eq!(n_threads(&pool), 0);
    let client = join(&pool, &work, 3);
    assert_eq!(n_threads(&pool), 3);
    until(|| work.done.load(SeqCst) == 100);
    // One at a time: none of them is overslept.
    for n in 101..2000 {
        work.add(&client);
        until(|| work.done.load(SeqCst) == n);
    }
    assert!(work.most_at_once.load(SeqCst) <= 3);
    client.leave();
    assert_eq!(Arc::strong_count(&work), 1);
    until(|| n_threads(&pool) == 0);
    until(|| Arc::strong_count(&pool.shared) == 2);
    work.add(&client);
    client.leave();
    assert_eq!(work.done.load(SeqCst), 1999);
    assert!(client.times().others.is_zero());
}

#[test]
fn threads_are_no_more_than_asked_for_and_end_with_the_clients() {
    let (pool, cpus) = (pool(), crate::threads::usable_cpus());
    let works: Vec<_> = (0..4).map(|_| Pieces::taking(0, Duration::ZERO)).collect();
    let join = |k: usize, most| join(&pool, &works[k], most);
    let one = join(0, 1);
    assert_eq!(n_threads(&pool), 1);
    let all = join(1, cpus);
    assert_eq!(n_threads(&pool), cpus.max(1));
    let more = join(2, cpus + 3);
    assert_eq!(n_threads(&pool), cpus + 3);
    let again = join(3, cpus + 3);
    assert_eq!(n_threads(&pool), cpus + 3);
    again.leave();
    more.leave();
    until(|| n_threads(&pool) == cpus);
    all.leave();
    until(|| n_threads(&pool) == 1);
    one.leave();
    until(|| n_threads(&pool) == 0);
}

#[test]
fn threads_wait_a_moment_for_the_next_client() {
    let (pool, ids) = (pool(), Arc::new(Mutex::new(HashSet::new())));
    let mut n_clients = 0;
    // Of many, so that one which the machine keeps waiting for too long is no matter.
    for _ in 0..50 {
        let work = Arc::new(Who(Arc::clone(&ids), AtomicUsize::new(1)));
        let client = pool.join(Arc::clone(&work) as _).unwrap();
        until(|| work.1.load(SeqCst) == 0);
        client.leave();
        n_clients += 1;
    }
    let n_threads = ids.lock().unwrap().len();
    assert!(n_threads < n_clients / 2, "{n_threads} threads for {n_clients} clients");
}

/// One piece of work that keeps how many CPUs its thread may use.
#[cfg(target_os = "linux")]
#[derive(Default)]
struct Where(AtomicUsize);

#[cfg(target_os = "linux")]
impl Work for Where {
    fn n_ready(&self) -> usize {
        usize::from(self.0.load(SeqCst) == 0)
    }

    fn max_threads(&self) -> usize {
        2
    }

    fn run(&self, _: bool) {
        let cpus = rustix::thread::sched_getaffinity(None).unwrap();
        self.0.store(cpus.count() as usize, SeqCst);
    }

    fn panicked(&self, message: String) {
        panic!("{message}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn no_thread_goes_on_with_cpus_that_the_next_client_may_not_use() {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    // Of this test's thread alone, and of those that it starts.
    let (pool, all) = (pool(), sched_getaffinity(None).unwrap());
    let mut one = CpuSet::new();
    one.set((0..CpuSet::MAX_CPU).find(|&cpu| all.is_set(cpu)).unwrap());
    for (cpus, n_cpus) in [(all, all.count()), (one, 1), (one, 1), (all, all.count())] {
        sched_setaffinity(None, &cpus).unwrap();
        let work = Arc::new(Where::default());
        let client = pool.join(Arc::clone(&work) as _).unwrap();
        until(|| work.0.load(SeqCst) > 0);
        client.leave();
        assert_eq!(work.0.load(SeqCst), n_cpus as usize);
    }
}

#[test]
fn a_client_is_left_only_after_its_turns_and_the_others_stay() {
    let pool = pool();
    let (slow, other) =
        (Pieces::taking(2, Duration::from_millis(50)), Pieces::taking(0, Duration::ZERO));
    let (first, second) = (join(&pool, &slow, 2), join(&pool, &other, 2));
    until(|| slow.at_once.load(SeqCst) > 0);
    first.leave();
    assert_eq!((slow.at_once.load(SeqCst), Arc::strong_count(&slow)), (0, 1));
    other.add(&second);
    until(|| other.done.load(SeqCst) == 1);
    second.leave();
}

#[test]
fn a_panic_is_told_and_costs_no_thread() {
    let pool = pool();
    let work = Arc::new(Pieces { ready: 5.into(), panics: true, ..Pieces::default() });
    let client = join(&pool, &work, 1);
    until(|| work.messages.lock().unwrap().len() == 5);
    assert_eq!(work.messages.lock().unwrap()[0], "a piece of work");
    assert_eq!(n_threads(&pool), 1);
    client.leave();
}

#[test]
fn coming_and_going_from_many_threads() {
    let pool = pool();
    thread::scope(|scope| {
        for k in 0..4 {
            let pool = &pool;
            scope.spawn(move || {
                for n in 0..50 {
                    let work = Pieces::taking(n % 3, Duration::ZERO);
                    let client = join(pool, &work, 1 + (n + k) % 3);
                    work.add(&client);
                    until(|| work.done.load(SeqCst) == n % 3 + 1);
                    client.leave();
                    assert_eq!(Arc::strong_count(&work), 1);
                }
            });
        }
    });
    until(|| n_threads(&pool) == 0);
}

#[test]
fn what_others_have_is_measured() {
    let (pool, cpus) = (pool(), crate::threads::usable_cpus());
    let n_pieces = 20 * cpus;
    let works = [(); 2].map(|()| Pieces::taking(n_pieces, Duration::from_millis(2)));
    let clients = works.each_ref().map(|work| join(&pool, work, cpus));
    until(|| works.iter().all(|work| work.done.load(SeqCst) == n_pieces));
    for client in &clients {
        let times = client.times();
        assert!(times.busy >= Duration::from_millis(2) * n_pieces as u32);
        assert!(times.others > Duration::ZERO);
        client.leave();
        assert!(client.times().busy >= times.busy);
    }
}

/// What each client has had after `for_ms` of `n_threads` threads that always find work.
fn simulated(n_threads: usize, clients: &[(usize, u64)], for_ms: u64) -> Vec<u64> {
    let mut scheduler = Scheduler::default();
    let ids: Vec<u64> = clients
        .iter()
        .map(|(most, _)| {
            let work = Pieces::taking(1_000_000, Duration::ZERO);
            work.most.store(*most, SeqCst);
            scheduler.enter(work, CpuTime::default())
        })
        .collect();
    let mut had = vec![0; clients.len()];
    let mut at_work = vec![0; clients.len()];
    // When each busy thread comes back: (time, client, since).
    let mut busy: Vec<(u64, usize, u64)> = Vec::new();
    let mut now = 0;
    while now < for_ms {
        while busy.len() < n_threads {
            let Some((id, _, _)) = scheduler.next() else { break };
            let k = ids.iter().position(|other| *other == id).unwrap();
            let fewest =
                (0..clients.len()).filter(|k| at_work[*k] < clients[*k].0).map(|k| at_work[k]);
            assert_eq!(Some(at_work[k]), fewest.min());
            at_work[k] += 1;
            busy.push((now + clients[k].1, k, now));
        }
        let first = (0..busy.len()).min_by_key(|i| busy[*i].0).unwrap();
        let (back, k, since) = busy.swap_remove(first);
        now = back;
        at_work[k] -= 1;
        had[k] += back - since;
        assert!(!scheduler.done(ids[k], Duration::from_millis(back - since)));
    }
    had
}

#[test]
fn long_rows_and_short_ones_have_the_same_time() {
    for n_threads in 1..4 {
        let had = simulated(n_threads, &[(8, 3), (8, 700)], 100_000);
        let [short, long] = [had[0] as f64, had[1] as f64];
        assert!((short / long - 1.0).abs() < 0.03, "{n_threads} threads: {short} and {long} ms");
    }
}

#[test]
fn what_was_idle_has_no_credit() {
    let mut scheduler = Scheduler::default();
    let (busy, idle) = (Pieces::taking(1000, Duration::ZERO), Pieces::taking(0, Duration::ZERO));
    busy.most.store(1, SeqCst);
    idle.most.store(1, SeqCst);
    let a = scheduler.enter(busy, CpuTime::default());
    let b = scheduler.enter(Arc::clone(&idle) as _, CpuTime::default());
    let ms = Duration::from_millis(1);
    for _ in 0..100 {
        assert_eq!(scheduler.next().unwrap().0, a);
        scheduler.done(a, ms);
    }
    idle.ready.store(1000, SeqCst);
    let mut turns = [0, 0];
    for _ in 100..120 {
        let (id, _, _) = scheduler.next().unwrap();
        turns[usize::from(id == b)] += 1;
        scheduler.done(id, ms);
    }
    assert!(turns[0] >= 9 && turns[1] >= 9, "{turns:?}");
}

proptest! {
    /// Against the definition of a max-min fair share, found by filling up.
    #[test]
    fn every_client_has_its_fair_share(
        n_threads in 1_usize..7,
        clients in prop::collection::vec((1_usize..5, 1_u64..40), 1..5),
    ) {
        let for_ms = 20_000;
        let had = simulated(n_threads, &clients, for_ms);
        let mut fair = vec![0.0; clients.len()];
        let mut left = n_threads as f64;
        let mut open: Vec<usize> = (0..clients.len()).collect();
        while !open.is_empty() && left > 1e-9 {
            let each = left / open.len() as f64;
            let room = |k: &usize| clients[*k].0 as f64 - fair[*k];
            let step = open.iter().map(room).fold(each, f64::min);
            for k in &open {
                fair[*k] += step;
            }
            left -= step * open.len() as f64;
            open.retain(|k| (clients[*k].0 as f64 - fair[*k]) > 1e-9);
        }
        for (k, had) in had.iter().enumerate() {
            let share = *had as f64 / for_ms as f64;
            prop_assert!((share - fair[k]).abs() < 0.05 * fair[k] + 0.02, "{k}: {share}, {fair:?}");
        }
    }
}
