//! Readers, decoders and a consumer on one queue, through many interleavings of their threads: no
//! wake-up is lost, and nothing waits for ever.
//!
//! `cargo test --release -p gristmill-core --features shuttle shuttle`

use shuttle::{Config, Runner, scheduler::RandomScheduler, thread};

use super::*;
use crate::{
    engine::{
        pool::{Floor, Pool, Work},
        queue::{Claim, Grant, Need},
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
    type Rest = ();
    type Batch = (Vec<u64>, Vec<Permit>);
}

/// What a stream does in a test.
#[derive(Clone, Copy, Debug)]
struct Plan {
    n_rows: u64,
    rows_per_batch: u64,
    look_ahead: usize,
    budget: usize,
    row_bytes: usize,
    /// Every third row waits for a load that another one does.
    loads: bool,
    fails_at: Option<u64>,
    panics_at: Option<u64>,
}

const PLAN: Plan = Plan {
    n_rows: 6,
    rows_per_batch: 2,
    look_ahead: 2,
    budget: 30,
    row_bytes: 12,
    loads: false,
    fails_at: None,
    panics_at: None,
};

#[derive(Debug)]
struct Stream {
    plan: Plan,
    shell: Arc<Shell<Numbers>>,
    is_opening: AtomicBool,
    is_loading: AtomicBool,
    account: Arc<Account>,
}

struct Readers(Arc<Stream>);
struct Decoders(Arc<Stream>);

impl Stream {
    fn start(plan: Plan, memory: &MemoryPool, readers: &Pool, decoders: &Pool) -> Arc<Self> {
        let account = memory.open(plan.budget);
        let limits = Limits {
            rows_per_batch: plan.rows_per_batch,
            look_ahead: plan.look_ahead,
            batch_bytes: 5,
            whole_batches: false,
            max_parked: 3,
            asked_first: 0,
        };
        let shell = Arc::new(Shell::new(limits, Arc::clone(&account)));
        shell.watch_account();
        let (is_opening, is_loading) = (AtomicBool::new(false), AtomicBool::new(false));
        let stream = Arc::new(Self { plan, shell, is_opening, is_loading, account });
        let decoding = decoders.join(Arc::new(Decoders(Arc::clone(&stream)))).unwrap();
        let reading = readers.join(Arc::new(Readers(Arc::clone(&stream)))).unwrap();
        stream.shell.serve(reading, decoding);
        stream
    }

    fn limits(&self) -> Limits {
        Limits {
            rows_per_batch: self.plan.rows_per_batch,
            look_ahead: self.plan.look_ahead,
            batch_bytes: 5,
            whole_batches: false,
            max_parked: 3,
            asked_first: 0,
        }
    }

    fn open(&self) {
        if !self.is_opening.swap(true, SeqCst) {
            self.shell.nothing_to_read();
            self.shell.with(|queue| queue.begin(0..self.plan.n_rows, self.limits()));
        }
    }

    fn read(&self) -> bool {
        let grant = self.shell.with(|queue| {
            loop {
                match queue.next_read() {
                    Some(Grant::Open(permit)) => {
                        let n = queue.n_rows_to_open();
                        queue.open_batch(vec![(); n], (), Some(permit));
                    }
                    other => return other,
                }
            }
        });
        let ((index, is_loaded), mut permit) = match grant {
            None | Some(Grant::Open(_)) => return false,
            Some(Grant::Claim(Claim { rows })) => ((rows.start, false), None),
            Some(Grant::Resume { parked, permit }) => (parked, permit),
        };
        assert!(self.plan.panics_at != Some(index), "row {index}");
        if self.plan.loads && index.is_multiple_of(3) && !is_loaded {
            let after = self.shell.look(Queue::loads);
            if self.is_loading.swap(true, SeqCst) {
                let need = Need::Load { after };
                if self.shell.with(|queue| queue.park(index, (index, false), need)).is_none() {
                    return true;
                }
            } else {
                self.is_loading.store(false, SeqCst);
                self.shell.with(Queue::loaded);
            }
        }
        if permit.is_none() {
            let need = Need::Bytes { n_bytes: self.plan.row_bytes, of_reserve: false };
            match self.shell.with(|queue| queue.park(index, (index, true), need)) {
                Some((_, granted)) => permit = granted,
                None => return true,
            }
        }
        self.shell.with(|queue| queue.push_read(index, (index, permit.into_iter().collect())));
        true
    }

    fn decode(&self) -> bool {
        let next = self.shell.with(Queue::next_decode);
        let Some((index, row, _)) = next else { return false };
        let row = match self.plan.fails_at {
            Some(at) if at == index => Err(Error::config("bad")),
            _ => Ok(row),
        };
        if let Some(complete) = self.shell.with(|queue| queue.file_decoded(index, row)) {
            let batch = complete.rows.map(|rows| {
                let indices = rows.iter().map(|(index, _)| *index).collect();
                (indices, rows.into_iter().flat_map(|(_, permits)| permits).collect())
            });
            drop(complete.reserved);
            self.shell.with(|queue| queue.finish(complete.first, batch, 1));
        }
        true
    }

    /// Takes batches as the consumer does, and holds the last one for a while.
    fn consume(&self, most: usize) -> Result<Vec<u64>> {
        let (mut taken, mut held) = (Vec::new(), None);
        let mut n_batches = 0;
        while n_batches < most {
            match self.shell.next(Duration::from_secs(1), |_| ())? {
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
        self.shell.close();
        self.shell.leave();
        self.account.close();
        assert_eq!(self.account.used(), 0);
    }
}

impl Work for Readers {
    fn n_ready(&self) -> usize {
        self.0.shell.n_readable()
    }

    fn max_threads(&self) -> usize {
        2
    }

    fn run(&self, _: bool) {
        if self.0.shell.look(Queue::has_begun) {
            self.0.read();
        } else {
            self.0.open();
        }
    }

    fn panicked(&self, message: String) {
        self.0.shell.fail(Error::new(ErrorKind::WorkerPanicked(message)));
    }
}

impl Work for Decoders {
    fn n_ready(&self) -> usize {
        self.0.shell.n_read()
    }

    fn max_threads(&self) -> usize {
        1
    }

    fn run(&self, _: bool) {
        self.0.decode();
    }

    fn panicked(&self, message: String) {
        self.0.shell.fail(Error::new(ErrorKind::WorkerPanicked(message)));
    }
}

/// Runs `body` through random interleavings. A lost wake-up shows as a deadlock, which fails it.
fn explore(body: impl Fn() + Send + Sync + 'static) {
    let mut config = Config::new();
    config.stack_size = 1 << 18;
    Runner::new(RandomScheduler::new_from_seed(7, ITERATIONS), config).run(body);
}

fn pools() -> (Pool, Pool) {
    (Pool::new("read", Floor::Fixed(2)), Pool::new("decode", Floor::Fixed(1)))
}

#[test]
fn shuttle_every_row_comes_in_order() {
    for plan in [
        PLAN,
        Plan { loads: true, ..PLAN },
        Plan { budget: 10, ..PLAN },
        Plan { budget: 1000, look_ahead: 3, rows_per_batch: 1, ..PLAN },
    ] {
        println!("{plan:?}");
        explore(move || {
            let (readers, decoders) = pools();
            let stream = Stream::start(plan, &MemoryPool::default(), &readers, &decoders);
            assert_eq!(stream.consume(usize::MAX).unwrap(), (0..plan.n_rows).collect::<Vec<_>>());
            stream.close();
        });
    }
}

#[test]
fn shuttle_an_error_or_a_panic_ends_it() {
    for plan in [Plan { fails_at: Some(3), ..PLAN }, Plan { panics_at: Some(2), ..PLAN }] {
        println!("{plan:?}");
        explore(move || {
            let (readers, decoders) = pools();
            let stream = Stream::start(plan, &MemoryPool::default(), &readers, &decoders);
            assert!(stream.consume(usize::MAX).is_err());
            stream.close();
        });
    }
}

#[test]
fn shuttle_it_closes_at_any_moment() {
    explore(|| {
        let (readers, decoders) = pools();
        let stream = Stream::start(PLAN, &MemoryPool::default(), &readers, &decoders);
        let consumer = Arc::clone(&stream);
        let consumer = thread::spawn(move || drop(consumer.consume(usize::MAX)));
        stream.shell.close();
        consumer.join().unwrap();
        stream.close();
    });
}

#[test]
fn shuttle_streams_share_threads_and_memory() {
    explore(|| {
        let ((readers, decoders), memory) = (pools(), MemoryPool::default());
        let streams = [(); 2].map(|()| Stream::start(PLAN, &memory, &readers, &decoders));
        let others = Arc::clone(&streams[1]);
        let other = thread::spawn(move || {
            let taken = others.consume(usize::MAX).unwrap();
            others.close();
            taken
        });
        // A slow consumer: it stops in the middle, and starts again later.
        assert_eq!(streams[0].consume(1).unwrap(), [0, 1]);
        assert_eq!(other.join().unwrap(), [0, 1, 2, 3, 4, 5]);
        assert_eq!(streams[0].consume(usize::MAX).unwrap(), [2, 3, 4, 5]);
        streams[0].close();
        let again = Stream::start(PLAN, &memory, &readers, &decoders);
        assert_eq!(again.consume(2).unwrap(), [0, 1, 2, 3]);
        again.close();
        assert_eq!(memory.used(), 0);
    });
}
