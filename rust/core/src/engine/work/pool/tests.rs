//! The pool with work that only counts, and the scheduler with a simulated clock.

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

/// A number of pieces of work.
#[derive(Default)]
struct Pieces {
    ready: AtomicUsize,
    done: AtomicUsize,
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
    takes: Duration,
    panics: bool,
    messages: Mutex<Vec<String>>,
    /// The threads that it asks for.
    max_threads: AtomicUsize,
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
        self.max_threads.load(SeqCst)
    }

    fn run(&self, _: Duration) {
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

/// One piece of work that records the thread that does it.
struct RecordsThread(Arc<Mutex<HashSet<ThreadId>>>, AtomicUsize);

impl Work for RecordsThread {
    fn n_ready(&self) -> usize {
        self.1.load(SeqCst)
    }

    fn max_threads(&self) -> usize {
        2
    }

    fn run(&self, _: Duration) {
        self.0.lock().unwrap().insert(thread::current().id());
        self.1.store(0, SeqCst);
    }

    fn panicked(&self, message: String) {
        panic!("{message}");
    }
}

/// Waits for a condition.
fn until(condition: impl Fn() -> bool) {
    while !condition() {
        thread::sleep(Duration::from_micros(100));
    }
}

/// A pool whose floor is the CPUs.
fn pool() -> Pool {
    Pool::new("test", Floor::Cpus)
}

fn join(pool: &Pool, work: &Arc<Pieces>, max_threads: usize) -> Client {
    work.max_threads.store(max_threads, SeqCst);
    pool.join(Arc::clone(work) as _).unwrap()
}

fn n_threads(pool: &Pool) -> usize {
    pool.shared.lock().n_threads
}

#[test]
fn every_piece_is_done_and_all_threads_end() {
    let (pool, work) = (pool(), Pieces::taking(100, Duration::ZERO));
    assert_eq!(n_threads(&pool), 0);
    let client = join(&pool, &work, 3);
    assert_eq!(n_threads(&pool), 3);
    until(|| work.done.load(SeqCst) == 100);
    // One at a time: no wake-up is lost.
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
fn threads_are_as_many_as_asked_for_and_end_with_the_clients() {
    let (pool, cpus) = (pool(), crate::threads::usable_cpus());
    let works: Vec<_> = (0..4).map(|_| Pieces::taking(0, Duration::ZERO)).collect();
    let join = |k: usize, max_threads| join(&pool, &works[k], max_threads);
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
fn threads_are_kept_alive_for_the_next_client() {
    let (pool, ids) = (pool(), Arc::new(Mutex::new(HashSet::new())));
    let mut n_clients = 0;
    // Many, so that a few which start too late on a busy machine do not matter.
    for _ in 0..50 {
        let work = Arc::new(RecordsThread(Arc::clone(&ids), AtomicUsize::new(1)));
        let client = pool.join(Arc::clone(&work) as _).unwrap();
        until(|| work.1.load(SeqCst) == 0);
        client.leave();
        n_clients += 1;
    }
    let n_threads = ids.lock().unwrap().len();
    assert!(n_threads < n_clients / 2, "{n_threads} threads for {n_clients} clients");
}

/// One piece of work that records how many CPUs its thread may use.
#[cfg(target_os = "linux")]
#[derive(Default)]
struct CountsCpus(AtomicUsize);

#[cfg(target_os = "linux")]
impl Work for CountsCpus {
    fn n_ready(&self) -> usize {
        usize::from(self.0.load(SeqCst) == 0)
    }

    fn max_threads(&self) -> usize {
        2
    }

    fn run(&self, _: Duration) {
        let cpus = rustix::thread::sched_getaffinity(None).unwrap();
        self.0.store(cpus.count() as usize, SeqCst);
    }

    fn panicked(&self, message: String) {
        panic!("{message}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn no_thread_keeps_an_affinity_that_the_next_client_does_not_have() {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    // The affinity of this test's thread, and of those that it starts.
    let (pool, all) = (pool(), sched_getaffinity(None).unwrap());
    let mut one = CpuSet::new();
    one.set((0..CpuSet::MAX_CPU).find(|&cpu| all.is_set(cpu)).unwrap());
    for (cpus, n_cpus) in [(all, all.count()), (one, 1), (one, 1), (all, all.count())] {
        sched_setaffinity(None, &cpus).unwrap();
        let work = Arc::new(CountsCpus::default());
        let client = pool.join(Arc::clone(&work) as _).unwrap();
        until(|| work.0.load(SeqCst) > 0);
        client.leave();
        assert_eq!(work.0.load(SeqCst), n_cpus as usize);
    }
}

#[test]
fn leaving_waits_for_the_clients_work_and_others_stay() {
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
fn a_panic_is_reported_and_ends_no_thread() {
    let pool = pool();
    let work = Arc::new(Pieces { ready: 5.into(), panics: true, ..Pieces::default() });
    let client = join(&pool, &work, 1);
    until(|| work.messages.lock().unwrap().len() == 5);
    assert_eq!(work.messages.lock().unwrap()[0], "a piece of work");
    assert_eq!(n_threads(&pool), 1);
    client.leave();
}

#[test]
fn many_threads_join_and_leave() {
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
fn the_time_of_others_is_measured() {
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

/// The thread time of each client after `for_ms` of `n_threads` threads that always find work.
fn simulated(n_threads: usize, clients: &[(usize, u64)], for_ms: u64) -> Vec<u64> {
    let mut scheduler = Scheduler::default();
    let ids: Vec<u64> = clients
        .iter()
        .map(|(max_threads, _)| {
            let work = Pieces::taking(1_000_000, Duration::ZERO);
            work.max_threads.store(*max_threads, SeqCst);
            scheduler.add(work, CpuTime::default())
        })
        .collect();
    let mut times = vec![0; clients.len()];
    let mut at_work = vec![0; clients.len()];
    // The busy threads: (end, client, start).
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
        let (end, k, start) = busy.swap_remove(first);
        now = end;
        at_work[k] -= 1;
        times[k] += end - start;
        assert!(!scheduler.done(ids[k], Duration::from_millis(end - start)));
    }
    times
}

#[test]
fn long_and_short_rows_get_the_same_time() {
    for n_threads in 1..4 {
        let times = simulated(n_threads, &[(8, 3), (8, 700)], 100_000);
        let [short, long] = [times[0] as f64, times[1] as f64];
        assert!((short / long - 1.0).abs() < 0.03, "{n_threads} threads: {short} and {long} ms");
    }
}

#[test]
fn idle_clients_get_no_credit() {
    let mut scheduler = Scheduler::default();
    let (busy, idle) = (Pieces::taking(1000, Duration::ZERO), Pieces::taking(0, Duration::ZERO));
    busy.max_threads.store(1, SeqCst);
    idle.max_threads.store(1, SeqCst);
    let a = scheduler.add(busy, CpuTime::default());
    let b = scheduler.add(Arc::clone(&idle) as _, CpuTime::default());
    let ms = Duration::from_millis(1);
    for _ in 0..100 {
        assert_eq!(scheduler.next().unwrap().0, a);
        scheduler.done(a, ms);
    }
    idle.ready.store(1000, SeqCst);
    let mut n_served = [0, 0];
    for _ in 100..120 {
        let (id, _, _) = scheduler.next().unwrap();
        n_served[usize::from(id == b)] += 1;
        scheduler.done(id, ms);
    }
    assert!(n_served[0] >= 9 && n_served[1] >= 9, "{n_served:?}");
}

#[test]
fn a_thread_works_for_longer_while_no_other_client_needs_it() {
    let slice = |n_ready: &[usize]| {
        let mut scheduler = Scheduler::default();
        for n in n_ready {
            let work = Pieces::taking(*n, Duration::ZERO);
            work.max_threads.store(1, SeqCst);
            scheduler.add(work, CpuTime::default());
        }
        scheduler.next().unwrap().2
    };
    assert_eq!(slice(&[1, 1]), Duration::ZERO);
    assert!(slice(&[1, 0]) > Duration::ZERO);
    assert!(slice(&[1]) > slice(&[1, 0]));
}

proptest! {
    /// Against the max-min fair shares, computed by progressive filling.
    #[test]
    fn every_client_gets_its_fair_share(
        n_threads in 1_usize..7,
        clients in prop::collection::vec((1_usize..5, 1_u64..40), 1..5),
    ) {
        let for_ms = 20_000;
        let times = simulated(n_threads, &clients, for_ms);
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
        for (k, time) in times.iter().enumerate() {
            let share = *time as f64 / for_ms as f64;
            prop_assert!((share - fair[k]).abs() < 0.05 * fair[k] + 0.02, "{k}: {share}, {fair:?}");
        }
    }
}
