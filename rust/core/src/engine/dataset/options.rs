//! The options of a pipeline.

use std::path::{Path, PathBuf};

use crate::{
    batch::{Binary, EventColumns, Styles},
    error::{Error, Result},
    order::{OrderSpec, Stop},
    select::{RowSpec, WeightSpec},
    shard::{IndexDir, Labels},
    store::{DescriptorCache, RangeCacheOptions, StorageOptions, Store, is_remote},
    threads::usable_cpus,
};
use gristmill_audio::{AudioSpec, Crop};

/// All options of a pipeline. Plain data: making one opens nothing.
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own, named in Python")]
#[derive(Clone, Debug)]
pub struct Options {
    /// The data set, or several that are mixed.
    pub sources: Vec<SourceOptions>,
    /// How they are mixed; `None` for one that is not.
    pub mixture: Option<MixtureOptions>,
    /// The policy for rows whose audio cannot be used.
    pub on_error: OnError,
    /// Rows in a batch; `None` delivers single rows.
    pub batch_size: Option<usize>,
    /// A short last batch.
    pub remainder: Remainder,
    /// How batches represent nulls and lists of unequal lengths.
    pub styles: Styles,
    /// The representation of binary values.
    pub binary: Binary,
    /// Whether elements carry `shard` and `row`.
    pub with_row_id: bool,
    /// Whether elements say which part of each recording they hold.
    pub with_crop: bool,
    /// Threads that decode at a time; `None` is one for each CPU that this process may use.
    pub n_threads: Option<usize>,
    /// Requests to the storage at a time; `None` is two for each decoding thread, 8 to 32, or 32
    /// behind URLs, and more where that brings more bytes.
    pub n_requests: Option<usize>,
    /// The most bytes of encoded rows, batches and cached tables together.
    pub memory_budget: usize,
    /// Batches that may be incomplete or wait for the consumer.
    pub prefetch_batches: usize,
    /// Where the shards' sidecars are kept.
    pub index_dir: IndexDir,
    /// Whether audio indexes beside the sidecars are used, and learned: crops are read without the rest
    /// of their recordings.
    pub audio_index: bool,
    /// The local cache of what is read of shards.
    pub range_cache: Option<RangeCacheOptions>,
    /// How often a request is repeated after transient errors.
    pub retries: u32,
    /// Whether what was read stays in the operating system's page cache.
    pub page_cache: bool,
}

/// Which rows of one data set there are, in which order, and what is read of them.
#[derive(Clone, Debug)]
pub struct SourceOptions {
    /// The shards, in the order in which their rows are numbered.
    pub paths: Vec<PathBuf>,
    /// What is done where class labels of shards mean different classes.
    pub labels: Labels,
    /// How those of them that are URLs are reached.
    pub storage_options: StorageOptions,
    /// The columns wanted, `None` for all.
    pub columns: Option<Vec<String>>,
    /// Which column is decoded, and how.
    pub audio: AudioRequest,
    /// Other columns that are decoded beside it, which are cropped where it is.
    pub other_audio: Vec<OtherAudio>,
    /// The rates in Hz that a `datasets.Dataset` has for its audio columns, which `cast_column` changes
    /// without changing its files; `None` is what the features of the shards say.
    pub audio_rates: Option<Vec<(String, Option<u32>)>>,
    /// The folder of the recordings of rows that hold a path and no bytes.
    pub root: Option<PathBuf>,
    /// Where the events are found, if the crop is about events.
    pub events: Option<EventOptions>,
    /// Order, epochs, and the part of them that is delivered here.
    pub order: OrderSpec,
    /// The seed of random crops.
    pub crop_seed: u64,
    /// Which rows take part, beside those that are left out.
    pub rows: RowSpec,
    /// The weights of rows that are drawn, where the order has draws.
    pub weights: Option<WeightSpec>,
    /// (shard, row) pairs that are left out.
    pub exclude: Vec<(u32, u64)>,
    /// (shard, number of rows) pairs: another number means that `exclude` is of other data.
    pub expected_rows: Vec<(u32, u64)>,
    /// The largest share of a row's frames, 0 to 1, that may be missing; `None` is any. Only rows that
    /// are decoded without `strict` can have missing frames.
    pub max_missing: Option<f64>,
}

/// How several data sets are mixed.
#[derive(Clone, Debug)]
pub struct MixtureOptions {
    /// Their weights: see [`Schedule`](crate::order::Schedule).
    pub weights: Vec<u64>,
    /// When the mixture ends.
    pub stop: Stop,
    /// What is done where class labels of data sets mean different classes.
    pub labels: Labels,
}

/// What becomes of a short last batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Remainder {
    /// It is delivered short.
    #[default]
    Keep,
    /// It is left out.
    Drop,
    /// It is filled up with rows that are not valid, and all hosts and workers deliver equally many
    /// batches.
    Pad,
}

impl Remainder {
    /// All of them, by their names in Python.
    pub const ALL: [(&'static str, Self); 3] =
        [("keep", Self::Keep), ("drop", Self::Drop), ("pad", Self::Pad)];
}

/// Where a row's events are found, and which of them are delivered.
#[derive(Clone, Debug)]
pub struct EventOptions {
    /// The columns that hold them.
    pub columns: EventColumns,
    /// Which are delivered.
    pub pick: Pick,
}

/// Which events of a row are delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// One in each epoch, all equally likely.
    Random,
    /// Each of them, as an element of its own.
    All,
}

impl Pick {
    /// Both, by their names in Python.
    pub const ALL: [(&'static str, Self); 2] = [("random", Self::Random), ("all", Self::All)];
}

/// Which column is decoded.
#[derive(Clone, Debug)]
pub enum AudioRequest {
    /// The audio column by the Hugging Face features, if there is one: whole, at the rate of the
    /// features, or else its own.
    Auto,
    /// None: audio stays encoded.
    Encoded,
    /// The named column, or the audio column by the features.
    Decode {
        /// The column's name; `None` to find it by the features.
        column: Option<String>,
        /// What is decoded of each recording.
        spec: AudioSpec,
        /// Whether the rate is that of the features, where these name one.
        follows_features: bool,
    },
}

/// One more column that is decoded: see the fields of [`AudioRequest`] and [`SourceOptions`].
#[derive(Clone, Debug)]
pub struct OtherAudio {
    /// The column's name.
    pub column: String,
    /// What is decoded of each recording.
    pub spec: AudioSpec,
    /// Whether the rate is that of the features.
    pub follows_features: bool,
    /// The folder of the recordings.
    pub root: Option<PathBuf>,
    /// The largest share of a row's frames that may be missing.
    pub max_missing: Option<f64>,
}

/// The policy for a row whose audio cannot be used: it is damaged, exceeds a limit, or too much of it
/// is missing.
///
/// Corrupt or unreadable shards are an error with any policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// Raise an error.
    #[default]
    Raise,
    /// Deliver another row in its place; see [`Substitutes`](crate::order::Substitutes).
    Substitute,
    /// Deliver it with zeros for audio; every element says which rows are valid.
    Mask,
    /// Leave it out: its batch is shorter.
    Skip,
}

impl OnError {
    /// All policies, by their names in Python.
    pub const ALL: [(&'static str, Self); 4] = [
        ("raise", Self::Raise),
        ("substitute", Self::Substitute),
        ("mask", Self::Mask),
        ("skip", Self::Skip),
    ];
}

/// Requests at a time, at first, where no number is asked for: two for each thread that decodes, 8 to 32.
///
/// Storage with round trips of 5 ms needs eight for rows of 0.5 MB. More than the CPUs need take
/// memory on local files: 16 on two cores took 1.21 of a budget of 128 MiB. The measurements are
/// in `docs/decisions/requests.md`.
pub fn default_requests(n_threads: usize) -> usize {
    (2 * n_threads).clamp(8, 32)
}

/// Requests at a time, at first, to shards behind URLs: a round trip takes some 20 ms, so that fewer
/// starve a run until more were tried.
const REMOTE_REQUESTS: usize = 32;

/// Single rows that count as one of `prefetch_batches`: one for each thread, and at least 8.
///
/// Grain's shuffle window takes some hundred rows in a run and then none for a while. On two cores its
/// pipeline takes 1.15 times as long with two rows for each of four batches (`docs/benchmarks.md`).
pub fn single_rows_of_a_batch(n_threads: usize) -> usize {
    n_threads.max(8)
}

/// The prefetch depth of single rows.
pub fn max_open_rows(prefetch_batches: usize, n_threads: usize) -> usize {
    prefetch_batches.saturating_mul(single_rows_of_a_batch(n_threads)).saturating_add(1)
}

/// The limit of one column of an element, in bytes, is at least this: a smaller budget only slows
/// down.
const MIN_COLUMN_LIMIT: usize = 64 << 20;

impl Options {
    /// The most bytes of one column of an element.
    pub(crate) fn column_limit(&self) -> usize {
        self.memory_budget.max(MIN_COLUMN_LIMIT)
    }

    /// Rows in one delivered element.
    pub(crate) fn rows_per_batch(&self) -> usize {
        self.batch_size.unwrap_or(1)
    }

    /// The prefetch depth in elements.
    pub(crate) fn max_open_batches(&self) -> usize {
        match self.batch_size {
            Some(_) => self.prefetch_batches,
            None => max_open_rows(self.prefetch_batches, self.n_threads()),
        }
    }

    /// Threads that decode at a time.
    pub(crate) fn n_threads(&self) -> usize {
        self.n_threads.unwrap_or_else(usable_cpus)
    }

    /// Threads that read at first, each with one request at a time.
    pub(crate) fn n_readers(&self) -> usize {
        // Of many shards the first tells: they mostly lie in one place.
        let mut first = self.sources.iter().filter_map(|source| source.paths.first());
        let least = if first.any(|path| is_remote(path)) { REMOTE_REQUESTS } else { 1 };
        self.n_requests.unwrap_or_else(|| default_requests(self.n_threads()).max(least))
    }

    /// Whether rows are decoded.
    pub(crate) fn is_decoding(&self) -> bool {
        self.sources.iter().any(|source| !matches!(source.audio, AudioRequest::Encoded))
    }

    /// Whether the stream has no end.
    pub fn is_endless(&self) -> bool {
        let weight = |k| self.mixture.as_ref().and_then(|mixture| mixture.weights.get(k));
        let mut comes = self.sources.iter().enumerate().filter(|(k, _)| weight(*k) != Some(&0));
        let is_endless = |(_, source): (usize, &SourceOptions)| source.order.epochs.is_none();
        match &self.mixture {
            Some(MixtureOptions { stop: Stop::All, .. }) => comes.any(is_endless),
            _ => comes.all(is_endless),
        }
    }

    /// Whether neighbouring rows of the shards are delivered one after another.
    pub(crate) fn is_file_order(&self) -> bool {
        matches!(self.sources.as_slice(), [source] if source.order.is_file_order())
    }

    /// Threads that open shards at the start, most of the time waiting for storage.
    pub(crate) fn n_openers(&self) -> usize {
        self.n_readers().max(16)
    }

    /// The largest tables to which rows may refer; out of larger ones they copy what they need. In a
    /// shuffle every prefetched row may be of another table; in a windowed one, those of a stream are
    /// of one or two.
    pub(crate) fn max_referenced_table(&self) -> usize {
        let rows = self.max_open_batches().saturating_mul(self.rows_per_batch());
        let n_tables = |source: &SourceOptions| source.n_tables(rows);
        let scattered: usize = self.sources.iter().filter_map(n_tables).sum();
        if scattered == 0 {
            return usize::MAX;
        }
        // Those in file order have one or two.
        let n_tables = scattered.saturating_add(2 * self.sources.len() - 2);
        self.memory_budget / 8 / n_tables.min(rows).max(1)
    }

    /// How a pipeline with these options reads.
    pub(crate) fn store(&self, descriptors: &DescriptorCache) -> Store {
        let of_source = |source: &SourceOptions| {
            let options = source.storage_options.clone();
            let urls = source.paths.iter().filter(|path| is_remote(path)).cloned();
            urls.map(|url| (url, options.clone())).collect::<Vec<_>>()
        };
        Store::new(descriptors)
            .with_retries(self.retries)
            .with_page_cache(self.page_cache)
            .with_range_cache(self.range_cache.clone())
            .with_storage_options(self.sources.iter().flat_map(of_source))
    }

    /// With the number of CPUs as it is now. Asking for it reads a few files of the kernel, which is
    /// too slow for every row.
    pub(crate) fn resolved(self) -> Self {
        Self { n_threads: Some(self.n_threads()), ..self }
    }

    /// Refuses invalid options.
    pub(crate) fn check(&self) -> Result<()> {
        let positive = [
            ("batch_size", self.batch_size.unwrap_or(1) > 0),
            ("num_threads", self.n_threads.unwrap_or(1) > 0),
            ("num_requests", self.n_requests.unwrap_or(1) > 0),
            ("prefetch_batches", self.prefetch_batches > 0),
            ("memory_budget", self.memory_budget > 0),
        ];
        if let Some((name, _)) = positive.iter().find(|(_, is_positive)| !is_positive) {
            return Err(Error::config(format!("{name} must be at least 1")));
        }
        let is_mixture = self.mixture.is_some();
        if self.sources.is_empty() || (self.sources.len() > 1 && !is_mixture) {
            return Err(Error::config("there is one data set, or several that are mixed"));
        }
        self.sources.iter().try_for_each(SourceOptions::check)
    }
}

impl SourceOptions {
    /// Whether elements may be parts of rows.
    pub(crate) fn has_parts(&self) -> bool {
        self.has_windows() || self.events.is_some()
    }

    /// Whether elements are windows of recordings.
    pub(crate) fn has_windows(&self) -> bool {
        let AudioRequest::Decode { spec, .. } = &self.audio else { return false };
        matches!(spec.crop, Crop::Window { .. })
    }

    /// Whether the rate of the n-th column that is decoded is that of the features.
    pub(crate) fn follows_features(&self, n: usize) -> bool {
        match n.checked_sub(1).and_then(|n| self.other_audio.get(n)) {
            Some(other) => other.follows_features,
            None => !matches!(self.audio, AudioRequest::Decode { follows_features: false, .. }),
        }
    }

    /// The folder of the recordings, and the share of frames that may be missing, of each column that is
    /// decoded.
    pub(crate) fn of_recordings(&self) -> impl Iterator<Item = (Option<&Path>, Option<f64>)> {
        let others = self.other_audio.iter();
        let others = others.map(|other| (other.root.as_deref(), other.max_missing));
        std::iter::once((self.root.as_deref(), self.max_missing)).chain(others)
    }

    /// The most tables to which `rows` rows may refer; `None` in file order.
    fn n_tables(&self, rows: usize) -> Option<usize> {
        let OrderSpec { draws, is_list, shuffle, .. } = &self.order;
        let window = match shuffle {
            _ if draws.is_some() || *is_list => None,
            None => return None,
            Some(shuffle) => shuffle.window,
        };
        let of_window = window.map_or(rows, |window| {
            usize::try_from(window.streams.saturating_mul(2)).unwrap_or(rows)
        });
        Some(rows.min(of_window).max(1))
    }

    fn check(&self) -> Result<()> {
        if self.order.epochs == Some(0) {
            return Err(Error::config("epochs must be at least 1"));
        }
        if self.paths.is_empty() {
            return Err(Error::config("there are no shards: paths is empty"));
        }
        let mut shares = self.of_recordings().filter_map(|(_, share)| share);
        if shares.any(|share| !(0.0..=1.0).contains(&share)) {
            return Err(Error::config("max_missing is a share of a row's frames, 0 to 1"));
        }
        if let AudioRequest::Decode { spec, .. } = &self.audio
            && matches!(spec.crop, Crop::Window { .. })
            && self.root.is_some()
        {
            return Err(Error::config(
                "gm.Windows counts windows of recordings in the shards, not of files under root=; \
                 write the recordings into the shards with gm.pack, or take another crop",
            ));
        }
        let first = match &self.audio {
            AudioRequest::Decode { spec, .. } => Some(spec),
            _ => None,
        };
        let mut specs = first.into_iter().chain(self.other_audio.iter().map(|other| &other.spec));
        specs.try_for_each(AudioSpec::validate).map_err(Error::config)
    }
}
