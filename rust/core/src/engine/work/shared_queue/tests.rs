//! Readers, decoders and a consumer on one queue, through many interleavings of their threads: no
//! wake-up is lost, and nothing deadlocks.
//!
//! `cargo test --profile quick -p gristmill-core --features shuttle shuttle`

use shuttle::{Config, Runner, scheduler::RandomScheduler, thread};

use super::*;
use crate::{
    engine::{
        wait::WaitFor,
        work::{CompleteBatch, Floor, Grant, Limits, Pool, RowLoop, Work},
    },
    memory::{MemoryPool, Permit},
    sync::AtomicBool,
};

const ITERATIONS: usize = 3_000;

#[derive(Debug)]
struct Numbers;

impl Items for Numbers {
    type Parked = (u64, bool);
    type Read = (u64, Vec<Permit>);
    type Row = (u64, Vec<Permit>);
    type Slot = ();
    type Lease = ();
    type Batch = (Vec<u64>, Vec<Permit>);
}

/// A stream of a test.
#[derive(Clone, Copy, Debug)]
struct Spec {
    n_rows: u64,
    rows_per_batch: u64,
    max_open_batches: usize,
    budget: usize,
    row_bytes: usize,
    /// Whether every third row needs a load, which one of them does.
    loads: bool,
    fails_at: Option<u64>,
    panics_at: Option<u64>,
}

const SPEC: Spec = Spec {
    n_rows: 6,
    rows_per_batch: 2,
    max_open_batches: 2,
    budget: 30,
    row_bytes: 12,
    loads: false,
    fails_at: None,
    panics_at: None,
};

#[derive(Debug)]
struct Stream {
    spec: Spec,
    queue: Arc<SharedQueue<Numbers>>,
    is_opening: AtomicBool,
    is_loading: AtomicBool,
    account: Arc<Account>,
}

struct Readers(Arc<Stream>);
struct Decoders(Arc<Stream>);

impl Stream {
    fn start(spec: Spec, memory: &MemoryPool, readers: &Pool, decoders: &Pool) -> Arc<Self> {
        let account = memory.open(spec.budget);
        let queue = Arc::new(SharedQueue::new(Arc::clone(&account)));
        queue.watch_account();
        let (is_opening, is_loading) = (AtomicBool::new(false), AtomicBool::new(false));
        let stream = Arc::new(Self { spec, queue, is_opening, is_loading, account });
        let decoding = decoders.join(Arc::new(Decoders(Arc::clone(&stream)))).unwrap();
        let reading = readers.join(Arc::new(Readers(Arc::clone(&stream)))).unwrap();
        stream.queue.set_clients(reading, decoding);
        stream
    }

    fn open(&self) {
        if !self.is_opening.swap(true, SeqCst) {
            let limits = Limits {
                rows_per_batch: self.spec.rows_per_batch,
                max_open_batches: self.spec.max_open_batches,
                batch_bytes: 5,
                max_parked: 3,
                ..Limits::default()
            };
            self.queue.clear_readable();
            self.queue.update(|queue| queue.begin(0..self.spec.n_rows, limits));
        }
    }

    /// Reads a row as far as possible now.
    fn read(&self, grant: Grant<(u64, bool)>) -> Option<Outcome> {
        let ((index, is_loaded), mut permit) = match grant {
            Grant::Open(_) => return None,
            Grant::Claim(rows) => ((rows.start, false), None),
            Grant::Resume { parked, permit } => (parked, permit),
        };
        assert!(self.spec.panics_at != Some(index), "row {index}");
        if self.spec.loads && index.is_multiple_of(3) && !is_loaded {
            let after = self.queue.read(Queue::n_loads);
            if self.is_loading.swap(true, SeqCst) {
                let wait = WaitFor::Load { after };
                self.queue.update(|queue| queue.park(index, (index, false), wait))?;
            } else {
                self.is_loading.store(false, SeqCst);
                self.queue.update(Queue::load_ended);
            }
        }
        if permit.is_none() {
            let wait = WaitFor::Bytes { n_bytes: self.spec.row_bytes, from_reserve: false };
            permit = self.queue.bytes_at_once(wait);
            if permit.is_none() {
                permit = self.queue.update(|queue| queue.park(index, (index, true), wait))?.1;
            }
        }
        Some((index, Ok((index, permit.into_iter().collect()))))
    }

    fn join(&self, mut complete: CompleteBatch<Numbers>) {
        let batch = complete.take_rows().map(|rows| {
            let indices = rows.iter().map(|(index, _)| *index).collect();
            (indices, rows.into_iter().flat_map(|(_, permits)| permits).collect())
        });
        drop(complete.reserved);
        self.queue.update(|queue| queue.finish_batch(complete.first, batch, 1));
    }

    /// Takes up to `max` batches as the consumer does, and holds each until it has the next.
    fn consume(&self, max: usize) -> Result<Vec<u64>> {
        let (mut taken, mut held) = (Vec::new(), None);
        let mut n_batches = 0;
        while n_batches < max {
            match self.queue.next(Duration::from_secs(1), |_| ())? {
                Next::Batch((indices, permits)) => {
                    taken.extend(indices);
                    drop(held.replace(permits));
                    n_batches += 1;
                }
                Next::End => break,
                Next::Pending => thread::yield_now(),
            }
        }
        drop(held);
        Ok(taken)
    }

    fn close(&self) {
        self.queue.close();
        self.queue.join();
        self.account.close();
        assert_eq!(self.account.used(), 0);
    }
}

impl Work for Readers {
    fn n_ready(&self) -> usize {
        self.0.queue.n_readable()
    }

    fn max_threads(&self) -> usize {
        2
    }

    fn run(&self, slice: Duration) {
        if self.0.queue.read(Queue::has_begun) {
            Reading(&self.0).run(up_to_two(slice));
        } else {
            self.0.open();
        }
    }

    fn panicked(&self, message: String) {
        self.0.queue.fail(Error::new(ErrorKind::WorkerPanicked(message)));
    }
}

impl Work for Decoders {
    fn n_ready(&self) -> usize {
        self.0.queue.n_read()
    }

    fn max_threads(&self) -> usize {
        1
    }

    fn run(&self, slice: Duration) {
        Decoding(&self.0).run(up_to_two(slice));
    }

    fn panicked(&self, message: String) {
        self.0.queue.fail(Error::new(ErrorKind::WorkerPanicked(message)));
    }
}

/// A thread that is alone works on a second row, as others do for a moment.
fn up_to_two(slice: Duration) -> impl FnMut() -> bool {
    let mut n_done = 0;
    move || {
        n_done += 1;
        !slice.is_zero() && n_done < 2
    }
}

/// A row, or its error, and its number.
type Outcome = (u64, Result<(u64, Vec<Permit>)>);

struct Reading<'a>(&'a Stream);
struct Decoding<'a>(&'a Stream);

impl RowLoop for Reading<'_> {
    type Items = Numbers;
    type Claimed = Grant<(u64, bool)>;
    type Outcome = Outcome;

    fn update<T>(&self, change: impl FnOnce(&mut Queue<Numbers>) -> T) -> T {
        self.0.queue.update(change)
    }

    fn claim(&self, queue: &mut Queue<Numbers>) -> Option<Self::Claimed> {
        loop {
            match queue.next_read()? {
                Grant::Open(permit) => {
                    let n = queue.n_rows_to_open();
                    queue.open_batch(vec![(); n], (), Some(permit));
                }
                other => return Some(other),
            }
        }
    }

    fn work(&mut self, grant: Self::Claimed) -> Option<Outcome> {
        self.0.read(grant)
    }

    fn report((index, row): Outcome, queue: &mut Queue<Numbers>) -> Option<CompleteBatch<Numbers>> {
        match row {
            // As rows that no decoder needs.
            Ok(row) if index % 5 == 4 => queue.finish_read(index, Ok(row)),
            Ok(row) => {
                queue.push_read(index, row);
                None
            }
            Err(error) => queue.finish_read(index, Err(error)),
        }
    }

    fn join(&self, complete: CompleteBatch<Numbers>) {
        self.0.join(complete);
    }
}

impl RowLoop for Decoding<'_> {
    type Items = Numbers;
    type Claimed = (u64, (u64, Vec<Permit>), Option<()>);
    type Outcome = Outcome;

    fn update<T>(&self, change: impl FnOnce(&mut Queue<Numbers>) -> T) -> T {
        self.0.queue.update(change)
    }

    fn claim(&self, queue: &mut Queue<Numbers>) -> Option<Self::Claimed> {
        queue.next_decode()
    }

    fn work(&mut self, (index, row, _): Self::Claimed) -> Option<Outcome> {
        Some(match self.0.spec.fails_at {
            Some(at) if at == index => (index, Err(Error::config("bad"))),
            _ => (index, Ok(row)),
        })
    }

    fn report((index, row): Outcome, queue: &mut Queue<Numbers>) -> Option<CompleteBatch<Numbers>> {
        queue.finish_decoded(index, row)
    }

    fn join(&self, complete: CompleteBatch<Numbers>) {
        self.0.join(complete);
    }
}

/// Runs `body` through random interleavings. A lost wake-up fails it as a deadlock.
pub(super) fn explore(body: impl Fn() + Send + Sync + 'static) {
    let mut config = Config::new();
    config.stack_size = 1 << 18;
    let rounds = std::env::var("SHUTTLE_ROUNDS").ok();
    let rounds = rounds.map_or(ITERATIONS, |n| n.parse().expect("SHUTTLE_ROUNDS is a number"));
    Runner::new(RandomScheduler::new_from_seed(7, rounds), config).run(body);
}

pub(super) fn pools() -> (Pool, Pool) {
    (Pool::new("read", Floor::Fixed(2)), Pool::new("decode", Floor::Fixed(1)))
}

#[test]
fn shuttle_every_row_is_delivered_in_order() {
    for spec in [
        SPEC,
        Spec { loads: true, ..SPEC },
        Spec { budget: 10, ..SPEC },
        Spec { budget: 1000, max_open_batches: 3, rows_per_batch: 1, ..SPEC },
    ] {
        println!("{spec:?}");
        explore(move || {
            let (readers, decoders) = pools();
            let stream = Stream::start(spec, &MemoryPool::default(), &readers, &decoders);
            assert_eq!(stream.consume(usize::MAX).unwrap(), (0..spec.n_rows).collect::<Vec<_>>());
            stream.close();
        });
    }
}

#[test]
fn shuttle_an_error_or_a_panic_ends_it() {
    for spec in [Spec { fails_at: Some(3), ..SPEC }, Spec { panics_at: Some(2), ..SPEC }] {
        println!("{spec:?}");
        explore(move || {
            let (readers, decoders) = pools();
            let stream = Stream::start(spec, &MemoryPool::default(), &readers, &decoders);
            assert!(stream.consume(usize::MAX).is_err());
            stream.close();
        });
    }
}

#[test]
fn shuttle_it_closes_at_any_moment() {
    explore(|| {
        let (readers, decoders) = pools();
        let stream = Stream::start(SPEC, &MemoryPool::default(), &readers, &decoders);
        let consumer = Arc::clone(&stream);
        let consumer = thread::spawn(move || drop(consumer.consume(usize::MAX)));
        stream.queue.close();
        consumer.join().unwrap();
        stream.close();
    });
}

#[test]
fn shuttle_streams_share_threads_and_memory() {
    explore(|| {
        let ((readers, decoders), memory) = (pools(), MemoryPool::default());
        let streams = [(); 2].map(|()| Stream::start(SPEC, &memory, &readers, &decoders));
        let others = Arc::clone(&streams[1]);
        let other = thread::spawn(move || {
            let taken = others.consume(usize::MAX).unwrap();
            others.close();
            taken
        });
        // A slow consumer, which pauses after its first batch.
        assert_eq!(streams[0].consume(1).unwrap(), [0, 1]);
        assert_eq!(other.join().unwrap(), [0, 1, 2, 3, 4, 5]);
        assert_eq!(streams[0].consume(usize::MAX).unwrap(), [2, 3, 4, 5]);
        streams[0].close();
        let again = Stream::start(SPEC, &memory, &readers, &decoders);
        assert_eq!(again.consume(2).unwrap(), [0, 1, 2, 3]);
        again.close();
        assert_eq!(memory.used(), 0);
    });
}
