//! The queue against a naive sequential model, driven by every order of events.
//!
//! The model knows what the stream is: rows 0, 1, 2 and so on, in batches. A driver picks what
//! happens next (a reader asks, a read ends, a load ends, a decoder ends, the consumer takes) and
//! checks after each step that the promises hold.

use std::{collections::VecDeque, sync::Arc};

use proptest::prelude::*;

use super::{Claim, Complete, Grant, Items, Limits, Need, Queue, Taken};
use crate::{
    error::Error,
    memory::{Account, MemoryPool, Permit},
};

#[derive(Debug)]
struct Numbers;

impl Items for Numbers {
    type Parked = Row;
    type Read = Row;
    type Row = Row;
    type Slot = ();
    type Rest = ();
    type Batch = (Vec<u64>, Vec<Permit>);
}

/// A row, how far it has come, and the bytes that it holds.
#[derive(Debug)]
struct Row {
    indices: Vec<u64>,
    /// What it needs, one after another.
    needs: VecDeque<Wanted>,
    held: Vec<Permit>,
    /// How often it is to be read again as another one.
    bad: u8,
    /// It is parked to be read again, and needs nothing for that.
    is_again: bool,
}

#[derive(Clone, Copy, Debug)]
enum Wanted {
    Bytes(usize, bool),
    Load,
}

#[derive(Clone, Debug)]
struct Plan {
    rows_per_batch: u64,
    n_rows: u64,
    look_ahead: usize,
    batch_bytes: usize,
    whole: bool,
    decodes: bool,
    asked_first: u64,
    budget: usize,
    reserve: usize,
    max_parked: usize,
    /// By row, used in turn: what it needs, and how often it is bad.
    needs: Vec<(Vec<Wanted>, u8)>,
    /// The batch with an error, if there is one.
    fails_at: Option<u64>,
}

fn wanted() -> impl Strategy<Value = Wanted> {
    prop_oneof![
        (0_usize..60, any::<bool>()).prop_map(|(n, reserved)| Wanted::Bytes(n, reserved)),
        Just(Wanted::Load),
    ]
}

prop_compose! {
    fn plan()(
        rows_per_batch in 1_u64..5,
        n_rows in 0_u64..25,
        look_ahead in 1_usize..4,
        batch_bytes in 0_usize..40,
        whole in any::<bool>(),
        decodes in any::<bool>(),
        early in any::<bool>(),
        budget in 1_usize..150,
        reserve in 0_usize..60,
        max_parked in 1_usize..6,
        needs in prop::collection::vec((prop::collection::vec(wanted(), 0..4), 0_u8..3), 1..8),
        fails_at in prop::option::weighted(0.1, 0_u64..25),
    ) -> Plan {
        let asked_first = if early && !whole { rows_per_batch.min(n_rows) } else { 0 };
        Plan {
            rows_per_batch, n_rows, look_ahead, batch_bytes, whole, decodes: decodes && !whole,
            asked_first, budget, reserve, max_parked, needs, fails_at,
        }
    }
}

/// Drives a queue.
struct Driver<'a> {
    plan: &'a Plan,
    account: Arc<Account>,
    queue: Queue<Numbers>,
    /// In readers' hands, and what each needs next is granted.
    reading: Vec<Row>,
    decoding: Vec<Row>,
    complete: Vec<Complete<Numbers>>,
    /// Loads that are under way.
    n_loading: usize,
    delivered: Vec<u64>,
    /// With the consumer, who holds two batches.
    held: VecDeque<Vec<Permit>>,
    failed: bool,
    over: bool,
    /// The most bytes beyond the budget that the exception may have granted so far.
    excess: usize,
}

impl<'a> Driver<'a> {
    fn new(plan: &'a Plan) -> Self {
        let account = MemoryPool::default().open(plan.budget);
        account.set_reserve(plan.reserve);
        let limits = Limits {
            rows_per_batch: plan.rows_per_batch,
            look_ahead: plan.look_ahead,
            batch_bytes: plan.batch_bytes,
            whole_batches: plan.whole,
            max_parked: plan.max_parked,
            asked_first: plan.asked_first,
        };
        let mut queue = Queue::new(limits, Arc::clone(&account));
        assert!(queue.next_read().is_none() && !queue.has_something());
        queue.begin(0..plan.n_rows, limits);
        Self {
            plan,
            account,
            queue,
            reading: Vec::new(),
            decoding: Vec::new(),
            complete: Vec::new(),
            n_loading: 0,
            delivered: Vec::new(),
            held: VecDeque::new(),
            failed: false,
            over: false,
            excess: 0,
        }
    }

    /// A reader asks for something to do; whether there was something.
    fn ask(&mut self) -> bool {
        let n_ready = self.queue.readable().unwrap_or(0);
        let before = self.account.used();
        let is_idle = self.reading.is_empty()
            && self.decoding.is_empty()
            && self.complete.is_empty()
            && self.queue.n_read() == 0;
        let grant = self.queue.next_read();
        assert_eq!(n_ready > 0, grant.is_some(), "readable tells whether there is something");
        let Some(grant) = grant else { return false };
        let granted = self.account.used() - before;
        match grant {
            Grant::Open(permit) => {
                assert_eq!(permit.n_bytes(), granted);
                self.check_budget(granted, self.queue.batches.is_empty());
                let n = self.queue.n_rows_to_open();
                self.queue.open_batch(vec![(); n], (), Some(permit));
            }
            Grant::Claim(Claim { rows }) => {
                assert!(!self.plan.whole || rows.end - rows.start <= self.plan.rows_per_batch);
                let (needs, bad) = &self.plan.needs[rows.start as usize % self.plan.needs.len()];
                self.reading.push(Row {
                    indices: rows.collect(),
                    needs: needs.iter().copied().collect(),
                    held: Vec::new(),
                    bad: if self.plan.decodes { *bad } else { 0 },
                    is_again: false,
                });
            }
            Grant::Resume { mut parked, permit } => {
                let in_first = self.queue.place_of(parked.indices[0]) == 0;
                self.check_budget(granted, in_first && is_idle);
                let again = std::mem::take(&mut parked.is_again);
                match if again { None } else { parked.needs.pop_front() } {
                    Some(Wanted::Bytes(n, _)) => {
                        assert_eq!(permit.as_ref().map(Permit::n_bytes), Some(n));
                    }
                    Some(Wanted::Load) | None => assert!(permit.is_none()),
                }
                parked.held.extend(permit);
                self.reading.push(parked);
            }
        }
        true
    }

    /// Bytes are granted within the budget, but for what everything waits for.
    fn check_budget(&mut self, granted: usize, is_awaited: bool) {
        let used = self.account.used();
        if granted > 0 && used > self.plan.budget {
            assert!(is_awaited, "{used} bytes of {}", self.plan.budget);
            self.excess = self.excess.max(used - self.plan.budget);
        }
    }

    /// The reader of this row goes on.
    fn read(&mut self, at: usize) {
        let mut row = self.reading.swap_remove(at);
        let index = row.indices[0];
        while let Some(next) = row.needs.front().copied() {
            let need = match next {
                Wanted::Bytes(n_bytes, of_reserve) => Need::Bytes { n_bytes, of_reserve },
                Wanted::Load => {
                    self.n_loading += 1;
                    Need::Load { after: self.queue.loads() }
                }
            };
            let before = self.account.used();
            let in_first = self.queue.place_of(index) == 0;
            let is_idle = self.reading.is_empty()
                && self.decoding.is_empty()
                && self.complete.is_empty()
                && self.queue.n_read() == 0;
            let Some((mut back, permit)) = self.queue.park(index, row, need) else { return };
            self.check_budget(self.account.used() - before, in_first && is_idle);
            back.needs.pop_front();
            back.held.extend(permit);
            row = back;
        }
        if self.plan.whole {
            let reserved = self.queue.take_reserved(index);
            let result = self.result(index, (row.indices, row.held));
            drop(reserved);
            self.queue.finish_whole(index, result, 3);
        } else if self.plan.decodes {
            self.queue.push_read(index, row);
        } else {
            let complete = self.queue.file_read(index, Ok(row));
            self.complete.extend(complete);
        }
    }

    /// A decoder takes the lowest row.
    fn decode(&mut self) -> bool {
        let Some((index, row, slot)) = self.queue.next_decode() else { return false };
        assert!(slot.is_some() && row.indices == [index]);
        self.decoding.push(row);
        true
    }

    /// The decoder of this row is done with it.
    fn decoded(&mut self, at: usize) {
        let mut row = self.decoding.swap_remove(at);
        let index = row.indices[0];
        if row.bad > 0 {
            row.bad -= 1;
            row.held.clear();
            let (needs, _) = &self.plan.needs[index as usize % self.plan.needs.len()];
            row.needs = needs.iter().copied().collect();
            row.is_again = true;
            self.queue.read_again(index, row, Some(()));
            return;
        }
        let complete = self.queue.file_decoded(index, Ok(row));
        self.complete.extend(complete);
    }

    fn result<T>(&self, index: u64, value: T) -> Result<T, Error> {
        let batch = index / self.plan.rows_per_batch;
        match self.plan.fails_at {
            Some(at) if at / self.plan.rows_per_batch == batch => Err(Error::config("bad")),
            _ => Ok(value),
        }
    }

    /// A batch is assembled.
    fn assemble(&mut self, at: usize) {
        let Complete { first, rows, rest: (), reserved } = self.complete.swap_remove(at);
        drop(reserved);
        let rows = rows.unwrap();
        let indices: Vec<u64> = rows.iter().flat_map(|row| row.indices.clone()).collect();
        let held = rows.into_iter().flat_map(|row| row.held).collect();
        let batch = self.result(first, (indices, held));
        self.queue.finish(first, batch, 5);
    }

    /// The consumer asks for a batch; whether there was something.
    fn take(&mut self) -> bool {
        let something = self.queue.has_something();
        let taken = self.queue.take();
        assert_eq!(something, !matches!(taken, Taken::NotYet));
        match taken {
            Taken::Batch(Ok((indices, held))) => {
                self.delivered.extend(indices);
                self.held.push_back(held);
                if self.held.len() > 2 {
                    self.held.pop_front();
                }
            }
            Taken::Batch(Err(_)) => self.failed = true,
            Taken::End => self.over = true,
            Taken::NotYet => return false,
        }
        true
    }

    /// Does one of the things that could happen, by these choices; whether there was one.
    fn step(&mut self, choice: (u8, usize)) -> bool {
        let (what, which) = choice;
        for k in 0..6 {
            let pick = |n: usize| (n > 0).then(|| which % n);
            let done = match (usize::from(what) + k) % 6 {
                0 => self.ask(),
                1 => pick(self.reading.len()).map(|at| self.read(at)).is_some(),
                2 => self.decode(),
                3 => pick(self.decoding.len()).map(|at| self.decoded(at)).is_some(),
                4 => pick(self.complete.len()).map(|at| self.assemble(at)).is_some(),
                _ if self.n_loading > 0 => {
                    self.n_loading -= 1;
                    self.queue.loaded();
                    true
                }
                _ => self.take(),
            };
            if done {
                return true;
            }
        }
        self.take()
    }

    fn check(&self) {
        let expected: Vec<u64> = (0..self.delivered.len() as u64).collect();
        assert_eq!(self.delivered, expected, "in their order, once");
        assert!(self.queue.batches.len() <= self.plan.look_ahead);
        assert!(self.queue.readable() != Ok(0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn every_row_is_delivered_in_order_within_the_budget(
        plan in plan(),
        choices in prop::collection::vec((any::<u8>(), any::<usize>()), 64),
    ) {
        let mut driver = Driver::new(&plan);
        let mut n_steps = 0_usize;
        while !driver.over && !driver.failed {
            let choice = choices[n_steps % choices.len()];
            // Rows of the first batch are asked for sooner or later, as readers do.
            if n_steps.is_multiple_of(3) {
                (0..plan.asked_first).for_each(|index| driver.queue.asked(index));
            }
            prop_assert!(driver.step(choice), "nothing can happen: {:?}", driver.queue);
            driver.check();
            n_steps += 1;
            prop_assert!(n_steps < 100_000, "it goes on for ever");
        }
        if driver.failed {
            let first = plan.fails_at.unwrap() / plan.rows_per_batch * plan.rows_per_batch;
            prop_assert_eq!(driver.delivered.len() as u64, first);
        } else {
            prop_assert_eq!(driver.delivered.len() as u64, plan.n_rows);
            prop_assert!(driver.queue.is_over());
            driver.held.clear();
            prop_assert_eq!(driver.account.used(), 0, "all bytes have come back");
        }
        drop(driver.queue.clear());
    }
}
