//! What a pipeline has measured so far, as plain numbers.

use std::{sync::Arc, time::Duration};

use super::{CpuTime, ShardRows};

/// Percentiles of durations, to within a sixteenth of each.
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
    /// Rows, requests, batches or elements, depending on the stage.
    pub count: u64,
    /// Thread time spent working.
    pub busy: Duration,
    /// Thread time spent waiting.
    pub waiting: Duration,
    /// Of the time of one row, request, batch or element.
    pub percentiles: Percentiles,
}

/// Requests to the storage, those for opening the shards included.
#[derive(Clone, Copy, Debug, Default)]
pub struct StorageTimes {
    /// Requests.
    pub requests: u64,
    /// Bytes that they returned.
    pub bytes: u64,
    /// Thread time inside them.
    pub busy: Duration,
    /// Those that a server answered with 429 or 503: it has too many.
    pub throttled: u64,
    /// Those that failed and were repeated.
    pub retries: u64,
    /// The part of a request's time that does not depend on the bytes in flight; `None` where the
    /// requests do not tell.
    pub latency: Option<Duration>,
    /// Seconds for each byte in flight: the inverse of the bandwidth that all readers share; `None`
    /// as above.
    pub seconds_per_byte: Option<f64>,
    /// About how many bytes lay around crops, in recordings that were read whole since no audio index
    /// knew them.
    pub spare_bytes: u64,
}

/// The caches of tables, of open files and of ranges.
#[derive(Clone, Copy, Debug, Default)]
pub struct Caches {
    /// Rows whose record batch's table was cached.
    pub table_hits: u64,
    /// Tables that were loaded.
    pub table_loads: u64,
    /// Bytes of cached tables.
    pub table_bytes: usize,
    /// Requests that found their file open.
    pub file_hits: u64,
    /// Files that were opened, for the first time or again.
    pub file_opens: u64,
    /// Reads that the range cache answered without a request, of 4 MiB at most each.
    pub range_hits: u64,
    /// Their bytes.
    pub range_bytes: u64,
}

/// The depths of the queues between stages.
#[derive(Clone, Copy, Debug, Default)]
pub struct Depths {
    /// Rows that are claimed and not yet decoded.
    pub unfinished_rows: usize,
    /// Rows that are read and wait for a decoder.
    pub read_rows: usize,
    /// Bytes that they hold, and that decoding them will take.
    pub read_bytes: usize,
    /// Batches that are incomplete or wait for the consumer.
    pub open_batches: usize,
    /// Those that wait for the consumer.
    pub ready_batches: usize,
    /// Mean of `read_rows` over the times that the consumer took a batch.
    pub mean_read_rows: f64,
    /// Mean of `ready_batches`, the one that was taken included.
    pub mean_ready_batches: f64,
}

/// The memory budget.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryUse {
    /// Bytes held now.
    pub used: usize,
    /// The most bytes held so far.
    pub peak: usize,
    /// The most bytes allowed.
    pub budget: usize,
}

/// Pauses of the consumer: work of its own that took ten times the mean, or longer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pauses {
    /// Their number.
    pub count: u64,
    /// Their sum, to within a sixteenth.
    pub total: Duration,
}

/// Thread time of idle readers, by the reason.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReaderWaits {
    /// As many batches were open as may be.
    pub prefetch_depth: Duration,
    /// A batch or a row did not fit into the budget.
    pub memory_budget: Duration,
    /// Other readers were loading the same record batches, or others that left no room.
    pub tables: Duration,
    /// A request had failed, and was repeated after a while.
    pub retries: Duration,
}

/// One kind of thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadTimes {
    /// Their number.
    pub count: usize,
    /// Their number times the time since the shards were open.
    pub alive: Duration,
    /// The part of it in which they had work here and worked for another pipeline of the process.
    pub elsewhere: Duration,
    /// CPU time, of which this pipeline's part is in proportion to its busy time; `None` where the
    /// system does not tell.
    pub cpu: Option<CpuTime>,
}

/// Requests to one shard, and the outcomes of its rows.
#[derive(Clone, Debug)]
pub struct ShardReads {
    /// Its path, as it was given.
    pub name: Arc<str>,
    /// Requests, those for opening it included.
    pub requests: u64,
    /// Bytes that they returned.
    pub bytes: u64,
    /// Thread time inside them.
    pub busy: Duration,
    /// Those that the server answered with 429 or 503: it has too many.
    pub throttled: u64,
    /// Those that failed and were repeated.
    pub retries: u64,
    /// Its rows, if they are decoded.
    pub rows: ShardRows,
    /// The number of its data set in a mixture.
    pub data_set: u32,
}

/// All statistics of a pipeline.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Since the pipeline was started.
    pub elapsed: Duration,
    /// How long opening the shards took.
    pub opening: Option<Duration>,
    /// How long the consumer waited for the first element.
    pub first_element: Option<Duration>,
    /// Elements delivered.
    pub elements: u64,
    /// Rows delivered.
    pub rows: u64,
    /// Rows that could not be used, in batches that were delivered.
    pub bad_rows: u64,
    /// Locating rows, and decoding the tables of their record batches: readers' time outside
    /// requests. Percentiles are of loading a table.
    pub plan: StageTimes,
    /// Requests to the storage, after the shards were open.
    pub read: StageTimes,
    /// Decoding, without resampling.
    pub decode: StageTimes,
    /// Resampling.
    pub resample: StageTimes,
    /// Joining rows into batches.
    pub assemble: StageTimes,
    /// Converting batches to elements.
    pub deliver: StageTimes,
    /// The consumer's own work between elements, and its waits, of which the percentiles are.
    pub consumer: StageTimes,
    /// The consumer's pauses.
    pub pauses: Pauses,
    /// The storage.
    pub storage: StorageTimes,
    /// The caches.
    pub caches: Caches,
    /// The queues.
    pub depths: Depths,
    /// The memory budget.
    pub memory: MemoryUse,
    /// CPUs that this process may use, by affinity and cgroup quota.
    pub usable_cpus: usize,
    /// Why readers were idle.
    pub waits: ReaderWaits,
    /// Reader threads.
    pub readers: ThreadTimes,
    /// Decoder threads.
    pub decoders: ThreadTimes,
    /// The shards that were read from, in their order.
    pub shards: Vec<ShardReads>,
}
