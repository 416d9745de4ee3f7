//! The pool with work that only counts, and the roster against its own clock.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    thread::{self, ThreadId},
    time::{Duration, Instant},
};

use proptest::prelude::*;

use super::{Pool, Seat, Work, roster::Roster};
use crate::stats::CpuTime;

/// Pieces of work to be taken one a turn.
#[derive(Default)]
struct Pieces {
    ready: AtomicUsize,
    done: AtomicUsize,
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
    takes: Duration,
    panics: bool,
    messages: Mutex<Vec<String>>,
    over: AtomicBool,
}

impl Pieces {
    fn taking(ready: usize, takes: Duration) -> Arc<Self> {
        Arc::new(Self { ready: ready.into(), takes, ..Self::default() })
    }

    fn add(&self, seat: &Seat) {
        self.ready.fetch_add(1, SeqCst);
        seat.wake();
    }
}

impl Work for Pieces {
    fn n_ready(&self) -> usize {
        self.ready.load(SeqCst)
    }

    fn is_over(&self) -> bool {
        self.over.load(SeqCst)
    }

    fn turn(&self, _: Instant) {
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

    fn is_over(&self) -> bool {
        false
    }

    fn turn(&self, _: Instant) {
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

fn n_threads(pool: &Pool) -> usize {
    pool.shared.lock().n_threads
}

#[test]
fn every_piece_is_done_and_no_thread_is_left() {
    let (pool, work) = (Pool::default(), Pieces::taking(100, Duration::ZERO));
    assert_eq!(n_threads(&pool), 0);
    let seat = pool.join(Arc::clone(&work) as _, 3).unwrap();
    assert_eq!(n_threads(&pool), 3);
    until(|| work.done.load(SeqCst) == 100);
    // One at a time: none of them is overslept.
    for n in 101..2000 {
        work.add(&seat);
        until(|| work.done.load(SeqCst) == n);
    }
    assert!(work.most_at_once.load(SeqCst) <= 3);
    seat.leave();
    assert_eq!(Arc::strong_count(&work), 1);
    until(|| n_threads(&pool) == 0);
    until(|| Arc::strong_count(&pool.shared) == 2);
    work.add(&seat);
    seat.leave();
    assert_eq!(work.done.load(SeqCst), 1999);
    assert!(seat.times().turns <= seat.times().alive);
}

#[test]
fn threads_are_no_more_than_asked_for_and_end_with_the_seats() {
    let (pool, cpus) = (Pool::default(), crate::threads::usable_cpus());
    let works: Vec<_> = (0..4).map(|_| Pieces::taking(0, Duration::ZERO)).collect();
    let join = |k: usize, most| pool.join(Arc::clone(&works[k]) as _, most).unwrap();
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
fn threads_wait_a_moment_for_the_next_seat() {
    let (pool, ids) = (Pool::default(), Arc::new(Mutex::new(HashSet::new())));
    let mut n_seats = 0;
    // Of many, so that one which the machine keeps waiting for too long is no matter.
    for _ in 0..50 {
        let work = Arc::new(Who(Arc::clone(&ids), AtomicUsize::new(1)));
        let seat = pool.join(Arc::clone(&work) as _, 1).unwrap();
        until(|| work.1.load(SeqCst) == 0);
        seat.leave();
        n_seats += 1;
    }
    let n_threads = ids.lock().unwrap().len();
    assert!(n_threads < n_seats / 2, "{n_threads} threads for {n_seats} seats");
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

    fn is_over(&self) -> bool {
        false
    }

    fn turn(&self, _: Instant) {
        let cpus = rustix::thread::sched_getaffinity(None).unwrap();
        self.0.store(cpus.count() as usize, SeqCst);
    }

    fn panicked(&self, message: String) {
        panic!("{message}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn no_thread_goes_on_with_cpus_that_the_next_seat_may_not_use() {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    // Of this test's thread alone, and of those that it starts.
    let (pool, all) = (Pool::default(), sched_getaffinity(None).unwrap());
    let mut one = CpuSet::new();
    one.set((0..CpuSet::MAX_CPU).find(|&cpu| all.is_set(cpu)).unwrap());
    for (cpus, n_cpus) in [(all, all.count()), (one, 1), (one, 1), (all, all.count())] {
        sched_setaffinity(None, &cpus).unwrap();
        let work = Arc::new(Where::default());
        let seat = pool.join(Arc::clone(&work) as _, 2).unwrap();
        until(|| work.0.load(SeqCst) > 0);
        seat.leave();
        assert_eq!(work.0.load(SeqCst), n_cpus as usize);
    }
}

#[test]
fn a_seat_is_left_only_after_its_turns_and_the_others_stay() {
    let pool = Pool::default();
    let (slow, other) =
        (Pieces::taking(2, Duration::from_millis(50)), Pieces::taking(0, Duration::ZERO));
    let (first, second) = (
        pool.join(Arc::clone(&slow) as _, 2).unwrap(),
        pool.join(Arc::clone(&other) as _, 2).unwrap(),
    );
    until(|| slow.at_once.load(SeqCst) > 0);
    first.leave();
    assert_eq!((slow.at_once.load(SeqCst), Arc::strong_count(&slow)), (0, 1));
    other.add(&second);
    until(|| other.done.load(SeqCst) == 1);
    second.leave();
}

#[test]
fn a_panic_is_told_and_costs_no_thread() {
    let pool = Pool::default();
    let work = Arc::new(Pieces { ready: 5.into(), panics: true, ..Pieces::default() });
    let seat = pool.join(Arc::clone(&work) as _, 1).unwrap();
    until(|| work.messages.lock().unwrap().len() == 5);
    assert_eq!(work.messages.lock().unwrap()[0], "a piece of work");
    assert_eq!(n_threads(&pool), 1);
    seat.leave();
}

#[test]
fn coming_and_going_from_many_threads() {
    let pool = Pool::default();
    thread::scope(|scope| {
        for k in 0..4 {
            let pool = &pool;
            scope.spawn(move || {
                for n in 0..50 {
                    let work = Pieces::taking(n % 3, Duration::ZERO);
                    let seat = pool.join(Arc::clone(&work) as _, 1 + (n + k) % 3).unwrap();
                    work.add(&seat);
                    until(|| work.done.load(SeqCst) == n % 3 + 1);
                    seat.leave();
                    assert_eq!(Arc::strong_count(&work), 1);
                }
            });
        }
    });
    until(|| n_threads(&pool) == 0);
}

#[test]
fn what_others_have_is_measured() {
    let (pool, cpus) = (Pool::default(), crate::threads::usable_cpus());
    let n_pieces = 20 * cpus;
    let works = [(); 2].map(|()| Pieces::taking(n_pieces, Duration::from_millis(2)));
    let seats = works.each_ref().map(|work| pool.join(Arc::clone(work) as _, cpus).unwrap());
    until(|| works.iter().all(|work| work.done.load(SeqCst) == n_pieces));
    for seat in &seats {
        let times = seat.times();
        assert!(times.turns >= Duration::from_millis(2) * n_pieces as u32);
        assert!(times.elsewhere > Duration::ZERO);
        assert!(times.turns + times.elsewhere <= times.alive);
        seat.leave();
        assert!(seat.times().turns >= times.turns);
    }
}

#[test]
fn a_seat_asks_for_no_thread_once_its_work_is_over() {
    let (pool, work) = (Pool::default(), Pieces::taking(1, Duration::ZERO));
    let seat = pool.join(Arc::clone(&work) as _, 2).unwrap();
    until(|| work.done.load(SeqCst) == 1);
    work.over.store(true, SeqCst);
    work.add(&seat);
    until(|| {
        let asked_for = seat.times().alive;
        thread::sleep(Duration::from_millis(2));
        seat.times().alive == asked_for
    });
    seat.leave();
}

/// What each seat has had after `for_ms` of `n_threads` threads that always find work.
fn simulated(n_threads: usize, seats: &[(usize, u64)], for_ms: u64) -> Vec<u64> {
    let mut roster = Roster::default();
    let began = Instant::now();
    let at = |ms| began + Duration::from_millis(ms);
    let ids: Vec<u64> = seats
        .iter()
        .map(|(most, _)| {
            roster.enter(
                Pieces::taking(1_000_000, Duration::ZERO),
                *most,
                CpuTime::default(),
                began,
            )
        })
        .collect();
    let mut had = vec![0; seats.len()];
    let mut at_work = vec![0; seats.len()];
    // When each busy thread comes back: (time, seat, since).
    let mut busy: Vec<(u64, usize, u64)> = Vec::new();
    let mut now = 0;
    while now < for_ms {
        while busy.len() < n_threads {
            let Some((id, _)) = roster.next(at(now), 0) else { break };
            let k = ids.iter().position(|other| *other == id).unwrap();
            let fewest = (0..seats.len()).filter(|k| at_work[*k] < seats[*k].0).map(|k| at_work[k]);
            assert_eq!(Some(at_work[k]), fewest.min());
            at_work[k] += 1;
            busy.push((now + seats[k].1, k, now));
        }
        let first = (0..busy.len()).min_by_key(|i| busy[*i].0).unwrap();
        let (back, k, since) = busy.swap_remove(first);
        now = back;
        at_work[k] -= 1;
        had[k] += back - since;
        assert!(!roster.back(ids[k], at(since), at(now)));
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
    let mut roster = Roster::default();
    let began = Instant::now();
    let at = |ms| began + Duration::from_millis(ms);
    let (busy, idle) = (Pieces::taking(1000, Duration::ZERO), Pieces::taking(0, Duration::ZERO));
    let a = roster.enter(busy, 1, CpuTime::default(), began);
    let b = roster.enter(Arc::clone(&idle) as _, 1, CpuTime::default(), began);
    for k in 0..100 {
        assert_eq!(roster.next(at(k), 0).unwrap().0, a);
        roster.back(a, at(k), at(k + 1));
    }
    idle.ready.store(1000, SeqCst);
    let mut turns = [0, 0];
    for k in 100..120 {
        let (id, _) = roster.next(at(k), 0).unwrap();
        turns[usize::from(id == b)] += 1;
        roster.back(id, at(k), at(k + 1));
    }
    assert!(turns[0] >= 9 && turns[1] >= 9, "{turns:?}");
}

proptest! {
    /// Against the definition of a max-min fair share, found by filling up.
    #[test]
    fn every_seat_has_its_fair_share(
        n_threads in 1_usize..7,
        seats in prop::collection::vec((1_usize..5, 1_u64..40), 1..5),
    ) {
        let for_ms = 20_000;
        let had = simulated(n_threads, &seats, for_ms);
        let mut fair = vec![0.0; seats.len()];
        let mut left = n_threads as f64;
        let mut open: Vec<usize> = (0..seats.len()).collect();
        while !open.is_empty() && left > 1e-9 {
            let each = left / open.len() as f64;
            let room = |k: &usize| seats[*k].0 as f64 - fair[*k];
            let step = open.iter().map(room).fold(each, f64::min);
            for k in &open {
                fair[*k] += step;
            }
            left -= step * open.len() as f64;
            open.retain(|k| (seats[*k].0 as f64 - fair[*k]) > 1e-9);
        }
        for (k, had) in had.iter().enumerate() {
            let share = *had as f64 / for_ms as f64;
            prop_assert!((share - fair[k]).abs() < 0.05 * fair[k] + 0.02, "{k}: {share}, {fair:?}");
        }
    }
}
