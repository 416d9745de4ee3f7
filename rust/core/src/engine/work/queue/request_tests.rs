//! Rows by request against a naive sequential model, driven by random orders of events.
//!
//! The model is a list of the rows that were asked for. A driver picks the next event (a caller asks or gives up,
//! a reader asks, a read ends, a load ends, a decoder ends, a thread panics) and checks after each that the promises
//! hold: rows begin in their order, few at a time; each ends once; one always goes on.

use std::{collections::VecDeque, sync::Arc};

use proptest::prelude::*;

use super::{ByRequest, Grant, Items, Queue};
use crate::{
    engine::wait::WaitFor,
    memory::{Account, MemoryPool, Permit},
};

#[derive(Debug)]
struct Asked;

impl Items for Asked {
    type Parked = Row;
    type Read = Row;
    type Row = ();
    type Slot = ();
    type Lease = ();
    type Batch = ();
}

/// A row that was asked for, and the bytes that it holds.
#[derive(Debug)]
struct Row {
    number: u64,
    caller: u8,
    waits: VecDeque<Wait>,
    held: Vec<Permit>,
    n_bad: u8,
    is_begun: bool,
}

#[derive(Clone, Copy, Debug)]
enum Wait {
    Bytes(usize, bool),
    Load,
}

#[derive(Clone, Debug)]
struct Spec {
    max_active: usize,
    budget: usize,
    /// Bytes that the callers hold on to.
    held: usize,
    decodes: bool,
    /// Of row `i % len`: what it waits for, how often it is replaced, and whether its thread panics.
    rows: Vec<(Vec<Wait>, u8, bool)>,
    /// Of each request: its caller, and the number of its rows.
    requests: Vec<(u8, u64)>,
}

fn wait() -> impl Strategy<Value = Wait> {
    prop_oneof![
        (0_usize..60, any::<bool>()).prop_map(|(n, reserved)| Wait::Bytes(n, reserved)),
        Just(Wait::Load),
    ]
}

prop_compose! {
    fn spec()(
        max_active in 1_usize..5,
        budget in 1_usize..150,
        held in 0_usize..200,
        decodes in any::<bool>(),
        rows in prop::collection::vec(
            (prop::collection::vec(wait(), 0..4), 0_u8..3, prop::bool::weighted(0.1)), 1..8,
        ),
        requests in prop::collection::vec((0_u8..3, 0_u64..6), 1..6),
    ) -> Spec {
        Spec { max_active, budget, held, decodes, rows, requests }
    }
}

struct Driver<'a> {
    spec: &'a Spec,
    account: Arc<Account>,
    queue: Queue<Asked, ByRequest<Asked>>,
    requests: VecDeque<(u8, u64)>,
    n_asked: u64,
    /// The model: rows that were asked for and neither begun nor left out, in their order.
    waiting: VecDeque<(u64, u8)>,
    n_active: usize,
    reading: Vec<Row>,
    decoding: Vec<Row>,
    n_loading: usize,
    ended: Vec<u64>,
    n_left_out: u64,
}

impl<'a> Driver<'a> {
    fn new(spec: &'a Spec, account: &Arc<Account>) -> Self {
        Self {
            spec,
            account: Arc::clone(account),
            queue: Queue::by_request(Arc::clone(account), spec.max_active),
            requests: spec.requests.iter().copied().collect(),
            n_asked: 0,
            waiting: VecDeque::new(),
            n_active: 0,
            reading: Vec::new(),
            decoding: Vec::new(),
            n_loading: 0,
            ended: Vec::new(),
            n_left_out: 0,
        }
    }

    fn row(&self, number: u64) -> &'a (Vec<Wait>, u8, bool) {
        &self.spec.rows[number as usize % self.spec.rows.len()]
    }

    /// A caller asks for rows. Returns whether one did.
    fn request(&mut self) -> bool {
        let Some((caller, n_rows)) = self.requests.pop_front() else { return false };
        let numbers = self.n_asked..self.n_asked + n_rows;
        self.n_asked += n_rows;
        self.waiting.extend(numbers.clone().map(|number| (number, caller)));
        let row = |number| {
            let (waits, n_bad, _) = self.row(number);
            let waits = waits.iter().copied().collect();
            let n_bad = if self.spec.decodes { *n_bad } else { 0 };
            (number, Row { number, caller, waits, held: Vec::new(), n_bad, is_begun: false })
        };
        let rows: Vec<_> = numbers.map(row).collect();
        self.queue.ask(rows);
        true
    }

    /// A caller gives up.
    fn give_up(&mut self, caller: u8) {
        let left_out = self.queue.leave_out(|row| row.caller == caller);
        let of_caller = self.waiting.iter().filter(|(_, of)| *of == caller);
        let expected: Vec<u64> = of_caller.map(|(number, _)| *number).collect();
        assert_eq!(left_out.iter().map(|(number, _)| *number).collect::<Vec<_>>(), expected);
        self.waiting.retain(|(_, of)| *of != caller);
        self.n_left_out += left_out.len() as u64;
        for (number, _) in left_out {
            self.queue.ended(number);
        }
    }

    /// Whether rows are under way that are not parked.
    fn is_moving(&self) -> bool {
        !self.reading.is_empty() || !self.decoding.is_empty() || self.queue.n_read() > 0
    }

    /// A reader asks for something to do. Returns whether there was something.
    fn ask(&mut self) -> bool {
        let n_ready = self.queue.readable().unwrap_or(0);
        let (before, is_moving) = (self.account.used(), self.is_moving());
        let grant = self.queue.next_read();
        assert_eq!(n_ready > 0, grant.is_some(), "readable says whether there is something");
        let Some(Grant::Resume { parked: mut row, permit }) = grant else { return false };
        let (used, granted) = (self.account.used(), self.account.used() - before);
        assert!(granted == 0 || used <= self.account.limit() || !is_moving, "beyond the budget");
        if row.is_begun {
            if let Some(Wait::Bytes(n, _)) = row.waits.pop_front() {
                assert_eq!(permit.as_ref().map(Permit::n_bytes), Some(n));
            } else {
                assert!(permit.is_none());
            }
        } else {
            assert_eq!(self.waiting.pop_front(), Some((row.number, row.caller)), "in their order");
            assert!(permit.is_none());
            row.is_begun = true;
            self.n_active += 1;
        }
        row.held.extend(permit);
        self.reading.push(row);
        true
    }

    /// The reader of this row goes on, or panics.
    fn read(&mut self, at: usize) {
        let mut row = self.reading.swap_remove(at);
        let (_, _, panics) = self.row(row.number);
        if *panics && row.waits.len() <= 1 {
            return self.end(row);
        }
        while let Some(next) = row.waits.front().copied() {
            let wait = match next {
                Wait::Bytes(n_bytes, from_reserve) => WaitFor::Bytes { n_bytes, from_reserve },
                Wait::Load => {
                    self.n_loading += 1;
                    WaitFor::Load { after: self.queue.n_loads() }
                }
            };
            let number = row.number;
            let Some((back, permit)) = self.queue.park(number, row, wait) else { return };
            row = back;
            row.waits.pop_front();
            row.held.extend(permit);
        }
        if self.spec.decodes {
            self.queue.push_read(row.number, row);
        } else {
            self.end(row);
        }
    }

    /// A decoder takes the first row.
    fn decode(&mut self) -> bool {
        let Some((number, row, slot)) = self.queue.next_decode() else { return false };
        assert!(slot.is_none() && row.number == number);
        self.decoding.push(row);
        true
    }

    /// The decoder of this row has finished it, or found that it is bad.
    fn decoded(&mut self, at: usize) {
        let mut row = self.decoding.swap_remove(at);
        if row.n_bad == 0 {
            return self.end(row);
        }
        row.n_bad -= 1;
        row.held.clear();
        row.waits = self.row(row.number).0.iter().copied().collect();
        // Parked to be replaced, it waits for nothing but a reader.
        row.waits.push_front(Wait::Load);
        self.queue.replace(row.number, row, None);
    }

    /// A row ends, and frees its bytes.
    fn end(&mut self, row: Row) {
        let number = row.number;
        drop(row);
        self.queue.ended(number);
        self.n_active -= 1;
        self.ended.push(number);
    }

    /// Runs one of the events that are possible now, by these choices. Returns whether there was one.
    fn step(&mut self, (what, which): (u8, usize)) -> bool {
        if what.is_multiple_of(17) {
            self.give_up(which as u8 % 3);
        }
        for k in 0..6 {
            let pick = |n: usize| (n > 0).then(|| which % n);
            let done = match (usize::from(what) + k) % 6 {
                0 => self.ask(),
                1 => pick(self.reading.len()).map(|at| self.read(at)).is_some(),
                2 => self.decode(),
                3 => pick(self.decoding.len()).map(|at| self.decoded(at)).is_some(),
                4 => self.request(),
                // The thread that loads for others may have panicked: then no load ends.
                _ if self.n_loading > 0 && !what.is_multiple_of(5) => {
                    self.n_loading -= 1;
                    self.queue.load_ended();
                    true
                }
                _ => false,
            };
            if done {
                return true;
            }
        }
        false
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    fn every_row_that_was_asked_for_ends_once_whatever_is_held(
        spec in spec(),
        choices in prop::collection::vec((any::<u8>(), any::<usize>()), 64),
    ) {
        let account = MemoryPool::default().open(spec.budget);
        let held = account.take(spec.held);
        let mut driver = Driver::new(&spec, &account);
        let is_done = |driver: &Driver<'_>| {
            driver.requests.is_empty() && driver.waiting.is_empty() && driver.n_active == 0
        };
        let mut n_steps = 0_usize;
        while !is_done(&driver) {
            let done = driver.step(choices[n_steps % choices.len()]);
            // Loads that nobody ends any more stand for a thread that panicked.
            prop_assert!(done || driver.ask() || is_done(&driver), "no event is possible: {:?}", driver.queue);
            prop_assert!(driver.n_active <= spec.max_active);
            prop_assert!(driver.queue.readable() != Ok(0));
            n_steps += 1;
            prop_assert!(n_steps < 100_000, "it does not end");
        }
        driver.ended.sort_unstable();
        driver.ended.dedup();
        prop_assert_eq!(driver.ended.len() as u64 + driver.n_left_out, driver.n_asked);
        drop(held);
        prop_assert_eq!(account.used(), 0, "all bytes are freed");
        drop(driver.queue.clear());
    }
}
