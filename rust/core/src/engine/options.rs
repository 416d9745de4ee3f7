//! What a pipeline is asked to do.

use std::path::PathBuf;

use crate::{
    batch::{Binary, Styles},
    error::{Error, Result},
    order::OrderSpec,
    shard::IndexDir,
    store::{DescriptorCache, Store},
    threads::usable_cpus,
};
use gristmill_audio::AudioSpec;

/// Everything a pipeline depends on. Plain data: nothing is opened by making one.
#[derive(Clone, Debug)]
pub struct Options {
    /// The shards, in the order that numbers their rows.
    pub paths: Vec<PathBuf>,
    /// The columns wanted, `None` for all.
    pub columns: Option<Vec<String>>,
    /// Which column is decoded, and how.
    pub audio: AudioRequest,
    /// Order, epochs, and the part of them that is delivered here.
    pub order: OrderSpec,
    /// The seed of random crops.
    pub crop_seed: u64,
    /// (shard, row) pairs that take no part.
    pub exclude: Vec<(u32, u64)>,
    /// (shard, rows) pairs: how many rows a shard must have for `exclude` to be about it.
    pub expected_rows: Vec<(u32, u64)>,
    /// What becomes of rows whose audio cannot be used.
    pub on_error: OnError,
    /// The share of a row's frames, 0 to 1, of which more may not be missing; `None` is any. Only
    /// rows that are decoded without `strict` can have missing frames.
    pub max_missing: Option<f64>,
    /// Rows in a batch; `None` delivers single rows.
    pub batch_size: Option<usize>,
    /// Whether a short last batch is left out.
    pub drop_remainder: bool,
    /// How batches hold nulls and lists of unequal lengths.
    pub styles: Styles,
    /// What binary values become.
    pub binary: Binary,
    /// Whether elements carry `shard` and `row`.
    pub with_row_id: bool,
    /// Threads of the pool that may decode for it at a time; `None` is one for each CPU that this
    /// process may use.
    pub n_threads: Option<usize>,
    /// Requests to the storage at a time; `None` is two for each thread that decodes, 8 to 32.
    pub n_requests: Option<usize>,
    /// Bytes that may be in flight: encoded rows, decoded batches, cached tables.
    pub memory_budget: usize,
    /// Batches that may be under way or waiting.
    pub prefetch_batches: usize,
    /// Where the shards' sidecars are kept.
    pub index_dir: IndexDir,
    /// How often a request that failed is sent again, where that may help.
    pub retries: u32,
    /// Whether what was read stays in the operating system's page cache.
    pub page_cache: bool,
}

/// Which column is decoded.
#[derive(Clone, Debug)]
pub enum AudioRequest {
    /// The one that the Hugging Face features call audio, if there is one: whole, at its own rate.
    Auto,
    /// None: audio stays encoded.
    Encoded,
    /// This one, or the one that the features call audio.
    Decode {
        /// The column's name, `None` to find it by the features.
        column: Option<String>,
        /// What is wanted of each recording.
        spec: AudioSpec,
    },
}

/// What becomes of a row whose audio cannot be used: damage, a limit, or too much that is missing.
///
/// Shards that are corrupt or cannot be read are an error in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// It is an error.
    #[default]
    Raise,
    /// Another row is delivered in its place; see [`Substitutes`](crate::order::Substitutes).
    Substitute,
    /// It is delivered with zeros for audio, and every element tells which rows are valid.
    Mask,
    /// It is left out: its batch is shorter.
    Skip,
}

impl OnError {
    /// All of them, by the names that users give.
    pub const ALL: [(&'static str, Self); 4] = [
        ("raise", Self::Raise),
        ("substitute", Self::Substitute),
        ("mask", Self::Mask),
        ("skip", Self::Skip),
    ];
}

/// What one column of an element may always grow to, in bytes: a budget below only slows down.
const MIN_COLUMN_LIMIT: usize = 64 << 20;

impl Options {
    /// The most bytes that one column of an element may grow to.
    pub(crate) fn column_limit(&self) -> usize {
        self.memory_budget.max(MIN_COLUMN_LIMIT)
    }

    /// Rows in one delivered element.
    pub(crate) fn rows_per_batch(&self) -> usize {
        self.batch_size.unwrap_or(1)
    }

    /// Elements that may be under way: single rows are small, so more of them keep threads busy.
    pub(crate) fn look_ahead(&self) -> usize {
        match self.batch_size {
            Some(_) => self.prefetch_batches,
            None => self.prefetch_batches.saturating_mul(self.n_threads()).saturating_add(1),
        }
    }

    /// Threads that may decode at a time.
    pub(crate) fn n_threads(&self) -> usize {
        self.n_threads.unwrap_or_else(usable_cpus)
    }

    /// Threads that read, each with one request at a time.
    ///
    /// Eight are what storage with round trips of 5 ms wants for rows of 0.5 MB; more of them than the
    /// processors need cost memory on local files: 16 on two cores took 1.21 of a budget of 128 MiB.
    /// The table is in `docs/decisions/reading.md`.
    pub(crate) fn n_readers(&self) -> usize {
        self.n_requests.unwrap_or_else(|| (2 * self.n_threads()).clamp(8, 32))
    }

    /// Whether rows are decoded.
    pub(crate) fn is_decoding(&self) -> bool {
        !matches!(self.audio, AudioRequest::Encoded)
    }

    /// Threads that open shards at the start: each waits for storage, and ends with it.
    pub(crate) fn n_openers(&self) -> usize {
        self.n_readers().max(16)
    }

    /// Larger tables must not be held on to by rows, which copy what they need: in a shuffle every row
    /// in flight may be of another one, in a windowed one those of a stream are of one or two.
    pub(crate) fn largest_table_held(&self) -> usize {
        let rows = self.look_ahead().saturating_mul(self.rows_per_batch());
        let n_tables = match self.order.shuffle {
            None => return usize::MAX,
            Some(shuffle) => shuffle.window.map_or(rows, |window| {
                rows.min(usize::try_from(window.streams.saturating_mul(2)).unwrap_or(rows))
            }),
        };
        self.memory_budget / 8 / n_tables.max(1)
    }

    /// How a pipeline with these options reads.
    pub(crate) fn store(&self, descriptors: &DescriptorCache) -> Store {
        Store::new(descriptors).with_retries(self.retries).with_page_cache(self.page_cache)
    }

    /// With what depends on the machine as it is now. Asked anew it would be a few files of the
    /// kernel's each time, and single rows ask with every row.
    pub(crate) fn settled(self) -> Self {
        Self { n_threads: Some(self.n_threads()), ..self }
    }

    /// Refuses options that cannot mean anything.
    pub(crate) fn check(&self) -> Result<()> {
        let positive = [
            ("batch_size", self.batch_size.unwrap_or(1) > 0),
            ("num_threads", self.n_threads.unwrap_or(1) > 0),
            ("num_requests", self.n_requests.unwrap_or(1) > 0),
            ("prefetch_batches", self.prefetch_batches > 0),
            ("memory_budget", self.memory_budget > 0),
            ("epochs", self.order.epochs.unwrap_or(1) > 0),
        ];
        if let Some((name, _)) = positive.iter().find(|(_, is_positive)| !is_positive) {
            return Err(Error::config(format!("{name} must be at least 1")));
        }
        if self.paths.is_empty() {
            return Err(Error::config("there are no shards: paths is empty"));
        }
        if self.max_missing.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
            return Err(Error::config("max_missing is a share of a row's frames, 0 to 1"));
        }
        match &self.audio {
            AudioRequest::Decode { spec, .. } => spec.validate().map_err(Error::config),
            _ => Ok(()),
        }
    }
}
