//! Rows by their index, in any order, for many callers at once.
//!
//! A caller asks for some rows and waits for its own alone ([`RandomAccess::request`]). They are read
//! and decoded on the threads that streams use too. [`requests`] has who waits for which rows, [`work`] reads
//! and decodes them.
//! A row is read, decoded and replaced as in a stream in file order: row `i` of epoch `e` is row
//! `e * rows + i` of it, so that crops and substitutes are the same.

mod requests;
#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
mod tests;
mod work;

use std::{
    process,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Release},
    },
    time::Duration,
};

use self::{
    requests::{RequestQueue, RequestState, Ticket, cancel},
    work::{DecodeWork, ReadWork, Shared},
};
use crate::{
    batch::{Batch, Binary},
    engine::{
        cache::TableCache,
        dataset::{AudioRequest, Options, Pick, SourceOptions},
        opening,
        row::{Attempt, RowDecoder, RowReader, RowTask},
        runtime::Runtime,
        work::ReaderCount,
    },
    error::{Error, ErrorKind, Result},
    order::OrderSpec,
};
use gristmill_audio::{Crop, warm_up};

/// Rows for each decoding thread that are read, or being read, beside those of the readers.
const READ_AHEAD: usize = 2;

/// The part of the budget that the tables of rows under way may take, as a divisor.
const TABLES_SHARE: usize = 8;

/// The rows of a data set by their index. Any number of threads may use it at once.
///
/// Dropping it closes it.
#[derive(Debug)]
pub struct RandomAccess {
    shared: Arc<Shared>,
    /// A forked child has no threads to join, and a thread of the parent may hold any lock.
    pid: u32,
}

/// Rows that were asked for. Dropping it leaves those out that were not begun.
#[derive(Debug)]
pub struct Request {
    state: Arc<RequestState>,
    queue: Arc<RequestQueue>,
    binary: Binary,
}

impl RandomAccess {
    /// Opens the shards. Of the options, those of the order and of batches do not matter.
    ///
    /// Blocks for the shards' headers, which several threads read.
    ///
    /// # Errors
    ///
    /// Those of a stream's options and of opening its shards;
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for crops that make several elements of a row.
    pub fn open(options: Options, runtime: &Runtime, cancel: &Arc<AtomicBool>) -> Result<Self> {
        options.check()?;
        options.sources.iter().try_for_each(refuse_parts)?;
        let mut options = Options { batch_size: None, mixture: None, ..options }.resolved();
        for source in &mut options.sources {
            source.order = OrderSpec { epochs: None, ..OrderSpec::ONCE };
        }
        if options.is_decoding() {
            warm_up();
        }
        let budget = options.memory_budget;
        let store = runtime.store(&options, cancel);
        let mut dataset = opening::open(&options, &store, None)?;
        dataset.expect_random_access(&options);
        let max_active = options.n_readers() + READ_AHEAD * options.n_threads();
        let reader_count =
            ReaderCount::new(options.n_requests, options.n_readers(), options.n_threads());
        let context = runtime.context(options, store, cancel);
        context.audio_index.open(&dataset.shards);
        context.dataset.get_or_init(|| dataset);
        let max_referenced = budget / TABLES_SHARE / max_active.max(1);
        let tables = TableCache::new(&context.account, budget, max_referenced);
        let queue = Arc::new(RequestQueue::by_request(Arc::clone(&context.account), max_active));
        queue.watch_account();
        let events = Arc::clone(&queue) as _;
        let decoder = RowDecoder::new(&context);
        // Without blocks: neighbours are asked for together by chance only.
        let reader = RowReader::new(&context, &events, tables, None);
        let numbers = AtomicU64::new(0);
        let shared = Arc::new(Shared { context, reader_count, reader, decoder, queue, numbers });
        let access = Self { shared: Arc::clone(&shared), pid: process::id() };
        let decoding = Arc::new(DecodeWork(Arc::clone(&shared)));
        let (reading, decoding) = runtime.join(Arc::new(ReadWork(shared)), decoding)?;
        access.shared.queue.set_clients(reading, decoding);
        Ok(access)
    }

    /// The number of rows, without those that are excluded.
    pub fn n_rows(&self) -> u64 {
        self.shared.context.dataset.get().map_or(0, |dataset| dataset.order.rows_per_epoch())
    }

    /// Asks for these rows of an epoch, by their indices among the rows that are not excluded.
    ///
    /// Does not block: rows without blobs whose tables are cached are looked up at once.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for an index that is out of range;
    /// [`ErrorKind::Closed`](crate::ErrorKind::Closed).
    pub fn request(&self, indices: &[u64], epoch: u64) -> Result<Request> {
        let Shared { context, queue, numbers, .. } = &*self.shared;
        let dataset = self.shared.dataset()?;
        let n_rows = self.n_rows();
        let state = Arc::new(RequestState::new(indices.len()));
        let mut asked = Vec::new();
        for (place, index) in indices.iter().enumerate() {
            let index = Some(*index).filter(|index| *index < n_rows);
            let index = index.and_then(|i| epoch.checked_mul(n_rows)?.checked_add(i));
            let index = index.ok_or_else(|| Error::config("there is no such row"))?;
            if let Some(row) = self.shared.cached(dataset, index)? {
                state.set(place, row);
                continue;
            }
            let attempt = Attempt::first(dataset.step(index)?);
            let task = Box::new(RowTask::new(index, attempt));
            let ticket = Ticket::new(&state, place, queue, numbers);
            asked.push((ticket.number(), (task, ticket)));
        }
        let request = Request { state, queue: Arc::clone(queue), binary: context.options.binary };
        queue.ask(asked).map_err(|_refused| Error::new(ErrorKind::Closed))?;
        Ok(request)
    }

    /// Why nothing more is written to the cache folder, if that has come to pass; once.
    pub fn take_cache_problem(&self) -> Option<String> {
        (self.pid == process::id()).then(|| self.shared.context.store.take_cache_problem())?
    }

    /// That recordings are resampled to the rate of the features, if they are; once.
    pub fn take_rate_notice(&self) -> Option<String> {
        self.shared.context.take_rate_notice()
    }

    /// Ends all work, waits for its end, and frees memory and descriptors. What is asked for now or
    /// later ends in [`ErrorKind::Closed`](crate::ErrorKind::Closed). Safe to call again, and from any
    /// thread.
    pub fn close(&self) {
        if self.pid != process::id() {
            return;
        }
        let Shared { context, reader, decoder, queue, .. } = &*self.shared;
        queue.close();
        context.closed.store(true, Release);
        queue.join();
        context.audio_index.close();
        reader.clear();
        decoder.clear();
        context.account.close();
        context.store.close();
    }
}

/// Refuses crops that make several elements of a row, since an index is that of a row.
fn refuse_parts(source: &SourceOptions) -> Result<()> {
    let picks_all = source.events.as_ref().is_some_and(|events| events.pick == Pick::All);
    let AudioRequest::Decode { spec, .. } = &source.audio else { return Ok(()) };
    if matches!(spec.crop, Crop::Window { .. }) || picks_all {
        return Err(Error::config(
            "an index names a row, and gm.Windows and gm.EventCrop(pick=\"all\") make several \
             elements of one; write gm.EventCrop(pick=\"random\") or another crop, or read them with \
             gm.ArrowIterDataset",
        ));
    }
    Ok(())
}

impl Drop for RandomAccess {
    fn drop(&mut self) {
        if self.pid == process::id() {
            self.close();
        } else {
            // In a forked child a thread of the parent may hold any lock: leak everything.
            std::mem::forget(Arc::clone(&self.shared));
        }
    }
}

impl Request {
    /// Waits at most `timeout` for the rows, each as an element of its own; `None` where some are
    /// missing still. To be called until it returns the rows or an error, and not again.
    ///
    /// # Errors
    ///
    /// That of the first row, in the order in which they were asked for, that has one.
    pub fn wait(&self, timeout: Duration) -> Result<Option<Vec<Batch>>> {
        let Some(rows) = self.state.wait(timeout) else { return Ok(None) };
        let mut rows = rows.into_iter().collect::<Result<Vec<_>>>()?;
        for row in &mut rows {
            // The end of the Python objects that are made of these bytes is not reported.
            drop(row.take_object_permit(self.binary == Binary::Bytes));
        }
        Ok(Some(rows))
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        cancel(&self.queue, &self.state);
    }
}
