//! The queue against a naive sequential model, driven by random orders of events.
//!
//! The model of the stream is rows 0, 1, 2 and so on, in batches. A driver picks the next event (a
//! reader asks, a read ends, a load ends, a decoder ends, the consumer takes) and checks after each
//! that the promises hold.

use std::{collections::VecDeque, sync::Arc};

use proptest::prelude::*;

use super::{CompleteBatch, Grant, Items, Limits, Next, Queue};
use crate::{
    engine::wait::WaitFor,
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
    type Lease = ();
    type Batch = (Vec<u64>, Vec<Permit>);
}

/// A claimed row or batch, and the bytes that it holds.
#[derive(Debug)]
struct Row {
    indices: Vec<u64>,
    /// What it waits for, one after another.
    waits: VecDeque<Wait>,
    held: Vec<Permit>,
    /// How often it is replaced by another row.
    n_bad: u8,
    /// Whether it is parked to be replaced, which needs nothing but a reader.
    is_replaced: bool,
}

#[derive(Clone, Copy, Debug)]
enum Wait {
    Bytes(usize, bool),
    Load,
}

#[derive(Clone, Debug)]
struct Spec {
    rows_per_batch: u64,
    n_rows: u64,
    max_open_batches: usize,
    batch_bytes: usize,
    whole: bool,
    decodes: bool,
    n_urgent: u64,
    budget: usize,
    reserve: usize,
    max_parked: usize,
    /// Of row `i % len`: what it waits for, and how often it is replaced.
    rows: Vec<(Vec<Wait>, u8)>,
    /// A row whose batch fails, if there is one.
    fails_at: Option<u64>,
}

fn wait() -> impl Strategy<Value = Wait> {
    prop_oneof![
        (0_usize..60, any::<bool>()).prop_map(|(n, reserved)| Wait::Bytes(n, reserved)),
        Just(Wait::Load),
    ]
}

prop_compose! {
    fn spec()(
        rows_per_batch in 1_u64..5,
        n_rows in 0_u64..25,
        max_open_batches in 1_usize..4,
        batch_bytes in 0_usize..40,
        whole in any::<bool>(),
        decodes in any::<bool>(),
        is_urgent in any::<bool>(),
        budget in 1_usize..150,
        reserve in 0_usize..60,
        max_parked in 1_usize..6,
        rows in prop::collection::vec((prop::collection::vec(wait(), 0..4), 0_u8..3), 1..8),
        fails_at in prop::option::weighted(0.1, 0_u64..25),
    ) -> Spec {
        let n_urgent = if is_urgent && !whole { rows_per_batch.min(n_rows) } else { 0 };
        Spec {
            rows_per_batch, n_rows, max_open_batches, batch_bytes, whole,
            decodes: decodes && !whole, n_urgent, budget, reserve, max_parked, rows, fails_at,
        }
    }
}

/// Drives a queue.
struct Driver<'a> {
    spec: &'a Spec,
    memory: MemoryPool,
    account: Arc<Account>,
    /// The account of another iterator, which takes half of the budget while it is open.
    other: Option<Arc<Account>>,
    queue: Queue<Numbers>,
    /// Rows that readers have.
    reading: Vec<Row>,
    decoding: Vec<Row>,
    complete: Vec<CompleteBatch<Numbers>>,
    /// Loads that have not ended.
    n_loading: usize,
    delivered: Vec<u64>,
    /// The two batches that the consumer holds.
    held: VecDeque<Vec<Permit>>,
    failed: bool,
    over: bool,
}

impl<'a> Driver<'a> {
    fn new(spec: &'a Spec) -> Self {
        let memory = MemoryPool::default();
        let account = memory.open(spec.budget);
        account.set_reserve(spec.reserve);
        let limits = Limits {
            rows_per_batch: spec.rows_per_batch,
            max_open_batches: spec.max_open_batches,
            batch_bytes: spec.batch_bytes,
            whole_batches: spec.whole,
            max_parked: spec.max_parked,
            n_urgent: spec.n_urgent,
        };
        let mut queue = Queue::new(Arc::clone(&account));
        assert!(queue.next_read().is_none() && !queue.is_ready());
        queue.begin(0..spec.n_rows, limits);
        Self {
            spec,
            memory,
            account,
            other: None,
            queue,
            reading: Vec::new(),
            decoding: Vec::new(),
            complete: Vec::new(),
            n_loading: 0,
            delivered: Vec::new(),
            held: VecDeque::new(),
            failed: false,
            over: false,
        }
    }

    /// Whether nothing is being done.
    fn is_idle(&self) -> bool {
        self.reading.is_empty()
            && self.decoding.is_empty()
            && self.complete.is_empty()
            && self.queue.n_read() == 0
    }

    /// A reader asks for something to do. Returns whether there was something.
    fn ask(&mut self) -> bool {
        let n_ready = self.queue.readable().unwrap_or(0);
        let (before, is_idle) = (self.account.used(), self.is_idle() && self.queue.is_awaited());
        let grant = self.queue.next_read();
        assert_eq!(n_ready > 0, grant.is_some(), "readable says whether there is something");
        let Some(grant) = grant else { return false };
        let granted = self.account.used() - before;
        match grant {
            Grant::Open(permit) => {
                assert_eq!(permit.n_bytes(), granted);
                self.check_budget(granted, self.queue.order.batches.is_empty());
                let n = self.queue.n_rows_to_open();
                self.queue.open_batch(vec![(); n], (), Some(permit));
            }
            Grant::Claim(rows) => {
                assert!(!self.spec.whole || rows.end - rows.start <= self.spec.rows_per_batch);
                let (waits, n_bad) = self.row(rows.start);
                let n_bad = if self.spec.decodes { *n_bad } else { 0 };
                self.reading.push(Row {
                    waits: waits.iter().copied().collect(),
                    indices: rows.collect(),
                    held: Vec::new(),
                    n_bad,
                    is_replaced: false,
                });
            }
            Grant::Resume { mut parked, permit } => {
                let in_first = self.queue.order.batch_of(parked.indices[0]) == 0;
                self.check_budget(granted, in_first && is_idle);
                let is_replaced = std::mem::take(&mut parked.is_replaced);
                match if is_replaced { None } else { parked.waits.pop_front() } {
                    Some(Wait::Bytes(n, _)) => {
                        assert_eq!(permit.as_ref().map(Permit::n_bytes), Some(n));
                    }
                    Some(Wait::Load) | None => assert!(permit.is_none()),
                }
                parked.held.extend(permit);
                self.reading.push(parked);
            }
        }
        true
    }

    fn row(&self, index: u64) -> &'a (Vec<Wait>, u8) {
        &self.spec.rows[index as usize % self.spec.rows.len()]
    }

    /// Bytes are granted within the budget, unless everything waits for them.
    fn check_budget(&self, granted: usize, may_exceed: bool) {
        let (used, limit) = (self.account.used(), self.account.limit());
        if granted > 0 && used > limit {
            assert!(may_exceed, "{used} bytes of {limit}");
        }
    }

    /// Another iterator opens or closes.
    fn change_share(&mut self) {
        match self.other.take() {
            Some(other) => other.close(),
            None => self.other = Some(self.memory.open(self.spec.budget)),
        }
    }

    /// The reader of this row goes on.
    fn read(&mut self, at: usize) {
        let mut row = self.reading.swap_remove(at);
        let index = row.indices[0];
        while let Some(next) = row.waits.front().copied() {
            let wait = match next {
                Wait::Bytes(n_bytes, from_reserve) => WaitFor::Bytes { n_bytes, from_reserve },
                Wait::Load => {
                    self.n_loading += 1;
                    WaitFor::Load { after: self.queue.n_loads() }
                }
            };
            let (before, is_idle) =
                (self.account.used(), self.is_idle() && self.queue.is_awaited());
            let in_first = self.queue.order.batch_of(index) == 0;
            let Some((mut back, permit)) = self.queue.park(index, row, wait) else { return };
            self.check_budget(self.account.used() - before, in_first && is_idle);
            back.waits.pop_front();
            back.held.extend(permit);
            row = back;
        }
        if self.spec.whole {
            let reserved = self.queue.take_reserved(index);
            let result = self.result(index, (row.indices, row.held));
            drop(reserved);
            self.queue.finish_whole(index, result, 3);
        } else if self.spec.decodes {
            self.queue.push_read(index, row);
        } else {
            let complete = self.queue.finish_read(index, Ok(row));
            self.complete.extend(complete);
        }
    }

    /// A decoder takes the first row.
    fn decode(&mut self) -> bool {
        let Some((index, row, slot)) = self.queue.next_decode() else { return false };
        assert!(slot.is_some() && row.indices == [index]);
        self.decoding.push(row);
        true
    }

    /// The decoder of this row has finished it, or found that it is bad.
    fn decoded(&mut self, at: usize) {
        let mut row = self.decoding.swap_remove(at);
        let index = row.indices[0];
        if row.n_bad > 0 {
            row.n_bad -= 1;
            row.held.clear();
            row.waits = self.row(index).0.iter().copied().collect();
            row.is_replaced = true;
            self.queue.replace(index, row, Some(()));
            return;
        }
        let complete = self.queue.finish_decoded(index, Ok(row));
        self.complete.extend(complete);
    }

    fn result<T>(&self, index: u64, value: T) -> Result<T, Error> {
        let batch = index / self.spec.rows_per_batch;
        match self.spec.fails_at {
            Some(at) if at / self.spec.rows_per_batch == batch => Err(Error::config("bad")),
            _ => Ok(value),
        }
    }

    /// A batch is assembled.
    fn assemble(&mut self, at: usize) {
        let mut complete = self.complete.swap_remove(at);
        let rows = complete.take_rows().unwrap();
        let CompleteBatch { first, lease: (), reserved, .. } = complete;
        drop(reserved);
        let indices: Vec<u64> = rows.iter().flat_map(|row| row.indices.clone()).collect();
        let held = rows.into_iter().flat_map(|row| row.held).collect();
        let batch = self.result(first, (indices, held));
        self.queue.finish_batch(first, batch, 5);
    }

    /// The consumer asks for a batch. Returns whether there was something.
    fn take(&mut self) -> bool {
        let is_ready = self.queue.is_ready();
        let taken = self.queue.take();
        assert_eq!(is_ready, !matches!(taken, Ok(Next::Pending)));
        match taken {
            Ok(Next::Batch((indices, held))) => {
                self.delivered.extend(indices);
                self.held.push_back(held);
                if self.held.len() > 2 {
                    self.held.pop_front();
                }
            }
            Err(_) => self.failed = true,
            Ok(Next::End) => self.over = true,
            Ok(Next::Pending) => return false,
        }
        true
    }

    /// Runs one of the events that are possible now, by these choices. Returns whether there was one.
    fn step(&mut self, choice: (u8, usize)) -> bool {
        let (what, which) = choice;
        if what.is_multiple_of(13) {
            self.change_share();
        }
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
                    self.queue.load_ended();
                    true
                }
                _ => self.take(),
            };
            if done {
                return true;
            }
        }
        // Readers may have something to do once the consumer waits.
        self.take() || self.ask()
    }

    fn check(&self) {
        let expected: Vec<u64> = (0..self.delivered.len() as u64).collect();
        assert_eq!(self.delivered, expected, "in their order, each once");
        assert!(self.queue.order.batches.len() <= self.spec.max_open_batches);
        assert!(self.queue.readable() != Ok(0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn every_row_is_delivered_in_order_within_the_budget(
        spec in spec(),
        choices in prop::collection::vec((any::<u8>(), any::<usize>()), 64),
    ) {
        let mut driver = Driver::new(&spec);
        let mut n_steps = 0_usize;
        while !driver.over && !driver.failed {
            let choice = choices[n_steps % choices.len()];
            // Readers send the requests of urgent rows sooner or later.
            if n_steps.is_multiple_of(3) {
                (0..spec.n_urgent).for_each(|index| driver.queue.requested(index));
            }
            prop_assert!(driver.step(choice), "no event is possible: {:?}", driver.queue);
            driver.check();
            n_steps += 1;
            prop_assert!(n_steps < 100_000, "it does not end");
        }
        if driver.failed {
            let first = spec.fails_at.unwrap() / spec.rows_per_batch * spec.rows_per_batch;
            prop_assert_eq!(driver.delivered.len() as u64, first);
        } else {
            prop_assert_eq!(driver.delivered.len() as u64, spec.n_rows);
            prop_assert!(driver.queue.is_over());
            driver.held.clear();
            prop_assert_eq!(driver.account.used(), 0, "all bytes are freed");
        }
        drop(driver.queue.clear());
    }
}
