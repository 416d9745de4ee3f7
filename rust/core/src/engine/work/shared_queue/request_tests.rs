//! Callers that ask for rows, and the threads that read and decode them, through many interleavings.

use shuttle::thread;

use super::{
    tests::{explore, pools},
    *,
};
use crate::{
    engine::{
        wait::WaitFor,
        work::{Grant, Work},
    },
    memory::MemoryPool,
};

const BUDGET: usize = 30;
const ROW_BYTES: usize = 20;

#[derive(Debug)]
struct Asked;

impl Items for Asked {
    type Parked = u64;
    type Read = (u64, Option<Permit>);
    type Row = ();
    type Slot = ();
    type Lease = ();
    type Batch = ();
}

type RequestQueue = SharedQueue<Asked, ByRequest<Asked>>;

/// The queue, and the number of rows that have ended.
struct Access {
    queue: Arc<RequestQueue>,
    account: Arc<Account>,
    n_ended: Mutex<u64>,
    ended: Condvar,
}

struct Readers(Arc<Access>);
struct Decoders(Arc<Access>);

impl Access {
    fn open() -> Arc<Self> {
        let account = MemoryPool::default().open(BUDGET);
        let queue = Arc::new(RequestQueue::by_request(Arc::clone(&account), 2));
        queue.watch_account();
        let (n_ended, ended) = (Mutex::new(0), Condvar::new());
        Arc::new(Self { queue, account, n_ended, ended })
    }

    fn ask(&self, numbers: std::ops::Range<u64>) {
        self.queue.ask(numbers.map(|number| (number, number)).collect()).unwrap();
    }

    fn end(&self, number: u64) {
        self.queue.update(|queue| queue.ended(number));
        *lock(&self.n_ended) += 1;
        self.ended.notify_all();
    }

    fn wait_for(&self, n: u64) {
        let mut n_ended = lock(&self.n_ended);
        while *n_ended < n {
            n_ended = wait_timeout(&self.ended, n_ended, Duration::from_secs(1));
        }
    }
}

impl Work for Readers {
    fn n_ready(&self) -> usize {
        self.0.queue.n_readable()
    }

    fn max_threads(&self) -> usize {
        2
    }

    fn run(&self, _: Duration) {
        let Access { queue, .. } = &*self.0;
        let Some(Grant::Resume { parked: number, permit }) = queue.update(Queue::next_read) else {
            return;
        };
        let wait = WaitFor::Bytes { n_bytes: ROW_BYTES, from_reserve: false };
        let permit = match permit {
            Some(permit) => Some(permit),
            None => match queue.update(|queue| queue.park(number, number, wait)) {
                Some((_, permit)) => permit,
                None => return,
            },
        };
        queue.update(|queue| queue.push_read(number, (number, permit)));
    }

    fn panicked(&self, message: String) {
        panic!("{message}");
    }
}

impl Work for Decoders {
    fn n_ready(&self) -> usize {
        self.0.queue.n_read()
    }

    fn max_threads(&self) -> usize {
        1
    }

    fn run(&self, _: Duration) {
        if let Some((number, (_, permit), _)) = self.0.queue.update(Queue::next_decode) {
            // Every third row leaves its bytes to a moment after its end, as callers hold on to them.
            let held = permit.filter(|_| number % 3 == 2);
            self.0.end(number);
            drop(held);
        }
    }

    fn panicked(&self, message: String) {
        panic!("{message}");
    }
}

#[test]
fn shuttle_every_row_that_was_asked_for_ends() {
    explore(|| {
        let (readers, decoders) = pools();
        let access = Access::open();
        let decoding = decoders.join(Arc::new(Decoders(Arc::clone(&access)))).unwrap();
        let reading = readers.join(Arc::new(Readers(Arc::clone(&access)))).unwrap();
        access.queue.set_clients(reading, decoding);
        let other = Arc::clone(&access);
        let other = thread::spawn(move || other.ask(3..5));
        access.ask(0..3);
        access.wait_for(5);
        other.join().unwrap();
        access.queue.close();
        access.queue.join();
        assert_eq!(access.account.used(), 0);
    });
}
