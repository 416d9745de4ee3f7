//! What a pipeline has measured until one moment, as plain numbers.

use std::{sync::Arc, time::Duration};

use super::{CpuTime, ShardRows};

/// The durations below which half, 90 % and 99 % lie, to within a sixteenth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Percentiles {
    /// The median.
    pub p50: Duration,
    /// The 90th percentile.
    pub p90: Duration,
    /// The 99th percentile.
    pub p99: Duration,
}

/// One stage.
#[derive(Clone, Copy, Debug, Default)]
pub struct StageTimes {
    /// Rows, requests or batches, by the stage.
    pub count: u64,
    /// Thread time at work.
    pub busy: Duration,
    /// Thread time asleep.
    pub waiting: Duration,
    /// Of one row, request or batch.
    pub percentiles: Percentiles,
}

/// Positional reads, those that opened the shards included.
#[derive(Clone, Copy, Debug, Default)]
pub struct StorageTimes {
    /// Requests.
    pub requests: u64,
    /// Bytes that they brought.
    pub bytes: u64,
    /// Thread time inside them.
    pub busy: Duration,
    /// What a request costs, however many bytes are in flight; `None` where requests do not tell.
    pub latency: Option<Duration>,
    /// What each byte in flight adds, in seconds: the inverse of the bandwidth that all readers
    /// share; `None` as above.
    pub seconds_per_byte: Option<f64>,
}

/// What was found in memory or open.
#[derive(Clone, Copy, Debug, Default)]
pub struct Caches {
    /// Rows whose record batch's table was there.
    pub table_hits: u64,
    /// Tables that were loaded.
    pub table_loads: u64,
    /// Bytes of tables now.
    pub table_bytes: usize,
    /// Requests that found their file open.
    pub file_hits: u64,
    /// Files opened, again or for the first time.
    pub file_opens: u64,
}

/// How much lies between the stages.
#[derive(Clone, Copy, Debug, Default)]
pub struct Depths {
    /// Rows that are claimed and not yet decoded.
    pub unfinished_rows: usize,
    /// Rows that are read and wait for a decoder.
    pub read_rows: usize,
    /// Bytes that they hold, and that decoding them will take.
    pub read_bytes: usize,
    /// Batches under way or waiting for the consumer.
    pub open_batches: usize,
    /// Those that wait for the consumer.
    pub ready_batches: usize,
    /// Mean of `read_rows`, as the consumer found it whenever it took a batch.
    pub mean_read_rows: f64,
    /// Mean of `ready_batches`, the one that was taken included.
    pub mean_ready_batches: f64,
}

/// Bytes in flight.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// Now.
    pub used: usize,
    /// The most so far.
    pub peak: usize,
    /// The most allowed.
    pub budget: usize,
}

/// When the consumer did something else for ten times as long as it does on average, or longer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pauses {
    /// How often.
    pub count: u64,
    /// How long in all, to within a sixteenth.
    pub total: Duration,
}

/// Thread time of readers that had nothing to do, by the reason.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReaderWaits {
    /// As many batches were open as may be.
    pub look_ahead: Duration,
    /// A batch or a row did not fit into the budget.
    pub memory_budget: Duration,
    /// Other readers were loading the same record batches, or large ones.
    pub tables: Duration,
}

/// One kind of thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadTimes {
    /// How many there are.
    pub count: usize,
    /// Thread time that was there for this pipeline: as many threads, since the shards were open.
    pub alive: Duration,
    /// That part of it in which they could have worked here, and worked for another pipeline of the
    /// process.
    pub elsewhere: Duration,
    /// CPU time, this pipeline's part by the time at work; `None` where the system does not tell.
    pub cpu: Option<CpuTime>,
}

/// What was read of one shard, and what became of its rows.
#[derive(Clone, Debug)]
pub struct ShardReads {
    /// Its path, as it was given.
    pub name: Arc<str>,
    /// Requests, those that opened it included.
    pub requests: u64,
    /// Bytes that they brought.
    pub bytes: u64,
    /// Thread time inside them.
    pub busy: Duration,
    /// Its rows, where they are decoded.
    pub rows: ShardRows,
}

/// Everything.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Since the pipeline was started.
    pub elapsed: Duration,
    /// What opening the shards took.
    pub opening: Option<Duration>,
    /// How long the consumer waited for the first element.
    pub first_element: Option<Duration>,
    /// Elements delivered.
    pub elements: u64,
    /// Rows delivered.
    pub rows: u64,
    /// Rows that could not be used, in the places of these.
    pub bad_rows: u64,
    /// Finding rows, and loading the tables of their record batches: readers' time outside reads.
    /// Percentiles are of loading a table.
    pub plan: StageTimes,
    /// Requests to the storage, after opening.
    pub read: StageTimes,
    /// Decoding, without resampling.
    pub decode: StageTimes,
    /// Resampling.
    pub resample: StageTimes,
    /// Joining rows into batches.
    pub assemble: StageTimes,
    /// Making elements of batches.
    pub deliver: StageTimes,
    /// The consumer: work between elements, waiting for them; percentiles are of its waits.
    pub consumer: StageTimes,
    /// Its long absences.
    pub pauses: Pauses,
    /// The storage.
    pub storage: StorageTimes,
    /// Tables and files.
    pub caches: Caches,
    /// Queues.
    pub depths: Depths,
    /// Bytes.
    pub memory: Memory,
    /// CPUs that this process may use, by affinity and cgroup quota.
    pub usable_cpus: usize,
    /// Why readers had nothing to do.
    pub waits: ReaderWaits,
    /// Reader threads.
    pub readers: ThreadTimes,
    /// Decoder threads.
    pub decoders: ThreadTimes,
    /// The shards that were read from, in their order.
    pub shards: Vec<ShardReads>,
}
