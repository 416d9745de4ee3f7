//! A stream without storage and without audio: what the queue and its lock cost a row.

use std::time::Duration;

use super::{
    queue::{CompleteBatch, Grant, Items, Limits, Next, Queue},
    row_loop::RowLoop,
    shared_queue::SharedQueue,
};
use crate::{error::Result, memory::MemoryPool};

/// Rows that are nothing but their number.
#[derive(Debug)]
struct Bare;

impl Items for Bare {
    type Parked = ();
    type Read = u64;
    type Row = u64;
    type Slot = ();
    type Lease = ();
    type Batch = Vec<u64>;
}

/// Takes `n_rows` rows through a queue on one thread, which is the reader, the decoder and the
/// consumer in turn. Returns the rows as they were delivered.
///
/// # Errors
///
/// What the queue reports; these rows give it no reason to.
pub fn pass_rows(n_rows: u64, rows_per_batch: u64) -> Result<Vec<u64>> {
    let limits = Limits {
        rows_per_batch,
        max_open_batches: 4,
        batch_bytes: 1,
        whole_batches: false,
        max_parked: 16,
        n_urgent: 0,
    };
    let shared = SharedQueue::<Bare>::new(MemoryPool::default().open(1 << 20));
    shared.update(|queue| queue.begin(0..n_rows, limits));
    let mut delivered = Vec::with_capacity(n_rows as usize);
    loop {
        Reader(&shared).run(|| true);
        Decoder(&shared).run(|| true);
        match shared.next(Duration::ZERO, |_| ())? {
            Next::Batch(rows) => delivered.extend(rows),
            Next::End | Next::Pending => return Ok(delivered),
        }
    }
}

struct Reader<'a>(&'a SharedQueue<Bare>);
struct Decoder<'a>(&'a SharedQueue<Bare>);

impl RowLoop for Reader<'_> {
    type Items = Bare;
    type Claimed = u64;
    type Outcome = u64;

    fn update<T>(&self, change: impl FnOnce(&mut Queue<Bare>) -> T) -> T {
        self.0.update(change)
    }

    fn claim(&self, queue: &mut Queue<Bare>) -> Option<u64> {
        loop {
            match queue.next_read()? {
                Grant::Open(permit) => {
                    let slots = vec![(); queue.n_rows_to_open()];
                    queue.open_batch(slots, (), Some(permit));
                }
                Grant::Claim(rows) => return Some(rows.start),
                Grant::Resume { .. } => return None,
            }
        }
    }

    fn work(&mut self, row: u64) -> Option<u64> {
        Some(row)
    }

    fn report(row: u64, queue: &mut Queue<Bare>) -> Option<CompleteBatch<Bare>> {
        queue.push_read(row, row);
        None
    }

    fn join(&self, _: CompleteBatch<Bare>) {}
}

impl RowLoop for Decoder<'_> {
    type Items = Bare;
    type Claimed = u64;
    type Outcome = u64;

    fn update<T>(&self, change: impl FnOnce(&mut Queue<Bare>) -> T) -> T {
        self.0.update(change)
    }

    fn claim(&self, queue: &mut Queue<Bare>) -> Option<u64> {
        queue.next_decode().map(|(_, read, _)| read)
    }

    fn work(&mut self, row: u64) -> Option<u64> {
        Some(row)
    }

    fn report(row: u64, queue: &mut Queue<Bare>) -> Option<CompleteBatch<Bare>> {
        queue.finish_decoded(row, Ok(row))
    }

    fn join(&self, mut complete: CompleteBatch<Bare>) {
        let rows = complete.take_rows();
        self.update(|queue| queue.finish_batch(complete.first, rows, 0));
    }
}

#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
mod tests {
    use super::*;

    #[test]
    fn every_row_comes_once_and_in_order() {
        assert_eq!(pass_rows(130, 32).unwrap(), (0..130).collect::<Vec<_>>());
    }
}
