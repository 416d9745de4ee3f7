//! How many parts each row has: windows of its recording, or events in it.
//!
//! The number of a recording's windows follows from its length, which the shard's audio index or the
//! recording's headers tell. They are read once, in a pass over all rows, and what they tell is kept in the
//! shards' index files.

use std::{
    ops::Range,
    panic::{self, AssertUnwindSafe},
    sync::{
        Mutex, MutexGuard, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use crate::{
    batch::EventReader,
    engine::{
        cache::{entry, load_audio_index},
        dataset::{EventOptions, Options, Pick, SourceOptions},
    },
    error::{Error, ErrorKind, Result},
    hash::{fnv1a, hash},
    memory::AlignedBuf,
    order::{PartCounts, Rows},
    shard::{AudioIndex, Blob, Projection, Shard},
    sync::lock_std,
    threads,
};
use gristmill_audio::{AudioInfo, AudioSpec, Codec, Crop, Decoder, Strict, is_length_at_ends};

/// How far the pass over the rows is.
#[derive(Debug, Default)]
pub struct Progress {
    done: AtomicU64,
    total: AtomicU64,
}

impl Progress {
    /// Rows that were looked at, and rows to look at; 0 of 0 where no pass is needed.
    pub fn rows(&self) -> (u64, u64) {
        (self.done.load(Relaxed), self.total.load(Relaxed))
    }
}

/// The number of parts of each of `rows`; `None` where elements are whole rows.
///
/// A row whose parts cannot be told has one, which is a bad row once it is decoded.
///
/// # Errors
///
/// Those of reading; [`ErrorKind::Config`] where there are rows and no part of any.
pub(crate) fn part_counts(
    shards: &[Shard],
    rows: &Rows,
    (options, source): (&Options, &SourceOptions),
    audio: Option<&(String, AudioSpec)>,
    progress: &Progress,
) -> Result<Option<PartCounts>> {
    let Some((column, spec)) = audio else { return Ok(None) };
    let per_shard = Pass::new(shards, options, progress);
    let row_ids = || (0..rows.len()).filter_map(|n| rows.get(n));
    let (counts, nothing) = match spec.crop {
        Crop::Window { windows, .. } => {
            let lengths = per_shard.lengths(column, spec)?;
            let count = |length: Option<Length>| {
                let target = |info: &AudioInfo| spec.rate_hz.unwrap_or(info.rate_hz);
                let info = length.and_then(Length::info);
                let frames =
                    info.and_then(|info| Some((info.frames_at(target(&info)).ok()?, info)));
                frames.map_or(1, |(frames, info)| windows.count(frames, target(&info)))
            };
            let of = |id: crate::order::RowId| {
                let lengths = lengths.get(id.shard as usize);
                lengths.and_then(|lengths| lengths.get(id.row as usize).copied())
            };
            let longest = row_ids().filter_map(|id| of(id)?.info()).map(|info| info.duration_s());
            let nothing = format!(
                "crop=gm.Windows(seconds={}, tail=\"drop\") leaves no window: the longest \
                 recording has {} s; write tail=\"pad\" or fewer seconds",
                windows.seconds,
                longest.fold(0.0, f64::max)
            );
            (PartCounts::new(row_ids().map(|id| count(of(id))))?, nothing)
        }
        Crop::Event(_) => {
            let Some(events) = source.events.as_ref().filter(|e| e.pick == Pick::All) else {
                return Ok(None);
            };
            let counts = per_shard.event_counts(events)?;
            let of = |id: crate::order::RowId| {
                let counts = counts.get(id.shard as usize);
                counts.and_then(|counts| counts.get(id.row as usize).copied()).unwrap_or(1)
            };
            let nothing = "crop=gm.EventCrop(..., pick=\"all\") finds no event in any row; name \
                           other columns, or give other shards";
            (PartCounts::new(row_ids().map(of))?, nothing.to_owned())
        }
        _ => return Ok(None),
    };
    if counts.is_empty() && !rows.is_empty() {
        return Err(Error::config(nothing));
    }
    Ok(Some(counts))
}

/// The length of a recording, as two words; zeros where it cannot be opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Length {
    rate_hz: u64,
    n_frames: u64,
}

impl Length {
    /// As headers say it. The rest of what they say is left out.
    pub(crate) fn info(self) -> Option<AudioInfo> {
        let rate_hz = u32::try_from(self.rate_hz).ok().filter(|rate| *rate > 0)?;
        Some(AudioInfo { codec: Codec::Wav, rate_hz, n_channels: 1, n_frames: self.n_frames })
    }
}

/// By what lengths are kept. What a recording may ask for decides whether its length is taken.
pub(crate) fn lengths_key(column: &str, spec: &AudioSpec) -> u64 {
    let limits = &spec.limits;
    hash(&[
        3, // not 1: lengths of before were those of headers
        fnv1a(column.as_bytes()),
        spec.strict as u64,
        limits.max_bytes,
        u64::from(limits.max_sample_rate),
        u64::from(limits.max_channels),
        limits.max_seconds.to_bits(),
        limits.max_frames_per_byte,
    ])
}

/// A pass over the rows of some shards.
#[derive(Debug)]
pub(crate) struct Pass<'a> {
    shards: &'a [Shard],
    options: &'a Options,
    progress: &'a Progress,
    /// Held by the thread that has something larger than its share of the budget in memory.
    large: Mutex<()>,
}

impl<'a> Pass<'a> {
    pub(crate) fn new(shards: &'a [Shard], options: &'a Options, progress: &'a Progress) -> Self {
        Self { shards, options, progress, large: Mutex::default() }
    }

    /// Waits until no other thread has anything larger than its share of the budget, if this has.
    fn alone_if_large(&self, n_bytes: u64) -> Option<MutexGuard<'_, ()>> {
        let share = self.options.memory_budget / 2 / self.options.n_threads().max(1);
        (n_bytes > share as u64).then(|| lock_std(&self.large))
    }

    /// As [`Self::alone_if_large`], for a table of a record batch.
    fn alone_if_large_table(
        &self,
        shard: &Shard,
        batch: usize,
        of: &Projection,
    ) -> Result<Option<MutexGuard<'_, ()>>> {
        let size = shard.table_size(batch, of)?;
        let n_bytes = size.map(|size| {
            size.stored.saturating_mul(if size.is_compressed { EXPECTED_GROWTH } else { 1 })
        });
        Ok(self.alone_if_large(n_bytes.map_or(u64::MAX, |n| n as u64)))
    }

    /// The length of each recording.
    pub(crate) fn lengths(&self, column: &str, spec: &AudioSpec) -> Result<Vec<Vec<Length>>> {
        let names = [column.to_owned()];
        let Some(first) = self.shards.first() else { return Ok(Vec::new()) };
        let projection = Projection::without_siblings(first.schema(), Some(&[]), &names)?;
        let indexes: Vec<OnceLock<AudioIndex>> =
            self.shards.iter().map(|_| OnceLock::new()).collect();
        let index_of = |number: usize, shard: &Shard| {
            let index = indexes.get(number).filter(|_| self.options.audio_index)?;
            Some(index.get_or_init(|| load_audio_index(shard)))
        };
        let learn = |number: usize, shard: &Shard, batch: usize| {
            let index = index_of(number, shard);
            let alone = self.alone_if_large_table(shard, batch, &projection)?;
            let table = self.table(shard, batch, &projection)?;
            let mut decoder = Decoder::default();
            let mut words = Vec::new();
            for row in 0..table.n_rows() {
                let info = match table.blob(0, row) {
                    None => Ok(None),
                    Some(Blob::Bytes(bytes)) => length(&mut decoder, &bytes, spec),
                    Some(Blob::Range(range)) => {
                        let known = index.and_then(|index| entry(index, &range));
                        if let Some(info) = known.and_then(|entry| entry.length(spec)) {
                            Ok(Some(info))
                        } else {
                            let n_bytes = range.end - range.start;
                            let _alone = alone.is_none().then(|| self.alone_if_large(n_bytes));
                            length_in(shard, &range, &mut decoder, spec)
                        }
                    }
                };
                words.extend(info?.map_or([0, 0], |i| [u64::from(i.rate_hz), i.n_frames]));
                self.progress.done.fetch_add(1, Relaxed);
            }
            Ok(words)
        };
        let words = self.words(lengths_key(column, spec), 2, learn)?;
        let length = |&[rate_hz, n_frames]: &[u64; 2]| Length { rate_hz, n_frames };
        Ok(words.iter().map(|words| words.as_chunks().0.iter().map(length).collect()).collect())
    }

    /// The number of events of each row; 1 for a bad row.
    fn event_counts(&self, events: &EventOptions) -> Result<Vec<Vec<u64>>> {
        let Some(first) = self.shards.first() else { return Ok(Vec::new()) };
        let columns: Vec<String> = events.columns.names().into_iter().cloned().collect();
        let projection = Projection::new(first.schema(), Some(&columns), &[])?;
        let reader = EventReader::new(&projection.small_schema(), &events.columns)?;
        let named = columns.iter().map(|name| fnv1a(name.as_bytes()));
        let key = hash(&std::iter::once(2).chain(named).collect::<Vec<_>>());
        self.words(key, 1, |_, shard, batch| {
            let _alone = self.alone_if_large_table(shard, batch, &projection)?;
            let table = self.table(shard, batch, &projection)?;
            let count = |row| reader.read(&table.columns, row).map_or(1, |all| all.len() as u64);
            let counts = (0..table.n_rows()).map(count).collect();
            self.progress.done.fetch_add(table.n_rows() as u64, Relaxed);
            Ok(counts)
        })
    }

    fn table(&self, shard: &Shard, batch: usize, of: &Projection) -> Result<crate::shard::Table> {
        shard.load_table_within(batch, of, self.options.memory_budget, &|_| ())
    }

    /// `per_row` numbers for each row of each shard: those that are kept under `key`, or else what
    /// `learn` says of each record batch of the shard of this number, which is kept then.
    fn words(
        &self,
        key: u64,
        per_row: u64,
        learn: impl Fn(usize, &Shard, usize) -> Result<Vec<u64>> + Sync,
    ) -> Result<Vec<Vec<u64>>> {
        let dir = &self.options.index_dir;
        let kept: Vec<Mutex<Learnt>> = self.shards.iter().map(|_| Mutex::default()).collect();
        let jobs = self.shards.iter().zip(&kept).collect();
        threads::parallel_for_each(
            "gristmill-open",
            jobs,
            self.options.n_openers(),
            |(shard, of)| {
                let n_words = shard.n_rows().saturating_mul(per_row);
                lock_std(of).whole = shard.load_kept(dir, key, n_words);
            },
        );
        let mut jobs = Vec::new();
        for (number, (shard, of)) in self.shards.iter().zip(&kept).enumerate() {
            let mut learnt = lock_std(of);
            if learnt.whole.is_none() {
                learnt.batches = (0..shard.n_batches()).map(|_| None).collect();
                self.progress.total.fetch_add(shard.n_rows(), Relaxed);
                jobs.extend((0..shard.n_batches()).map(|batch| (number, shard, of, batch)));
            }
        }
        let learnt = |(number, shard, of, batch): (usize, &Shard, &Mutex<Learnt>, usize)| {
            let work = AssertUnwindSafe(|| learn(number, shard, batch));
            let words = panic::catch_unwind(work).unwrap_or_else(|payload| {
                let message = threads::panic_message(&*payload);
                Err(Error::new(ErrorKind::WorkerPanicked(message)))
            });
            let mut learnt = lock_std(of);
            if let Some(slot) = learnt.batches.get_mut(batch) {
                *slot = Some(words.map_err(|error| error.in_shard(shard.name())));
            }
            if let Some(words) = learnt.joined() {
                shard.keep(dir, key, &words);
                learnt.whole = Some(words);
            }
        };
        threads::parallel_for_each("gristmill-count", jobs, self.options.n_threads(), learnt);
        let whole = kept.into_iter().zip(self.shards).map(|(learnt, shard)| {
            let learnt = learnt.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
            match learnt.whole {
                Some(words) => Ok(words),
                None if shard.n_batches() == 0 => Ok(Vec::new()),
                None => Err(learnt.failed()),
            }
        });
        whole.collect()
    }
}

/// How many times larger a compressed table is expected to become.
const EXPECTED_GROWTH: usize = 4;

/// What is read of each end of a recording whose length follows from these.
const END_BYTES: u64 = 64 << 10;

/// The length of a recording that lies in a shard; `None` where it cannot be opened.
fn length_in(
    shard: &Shard,
    range: &Range<u64>,
    decoder: &mut Decoder,
    spec: &AudioSpec,
) -> Result<Option<AudioInfo>> {
    let n_bytes = range.end - range.start;
    if spec.limits.check_bytes(n_bytes).is_err() {
        return Ok(None);
    }
    let mut buffer = AlignedBuf::zeroed(n_bytes as usize)?;
    let bytes = buffer.as_bytes_mut();
    if n_bytes > 4 * END_BYTES {
        let end = END_BYTES as usize;
        let head = bytes.get_mut(..end).unwrap_or_default();
        shard.read_blob(&(range.start..range.start + END_BYTES), head)?;
        if is_length_at_ends(head) {
            let tail = bytes.get_mut(n_bytes as usize - end..).unwrap_or_default();
            shard.read_blob(&(range.end - END_BYTES..range.end), tail)?;
            // Any finding may be one of the zeros between the ends.
            let pedantic = AudioSpec { strict: Strict::Pedantic, ..spec.clone() };
            if let Some(info) = length(decoder, bytes, &pedantic)? {
                return Ok(Some(info));
            }
        }
    }
    shard.read_blob(range, bytes)?;
    length(decoder, bytes, spec)
}

/// The length of a recording; `None` where it cannot be opened.
fn length(decoder: &mut Decoder, bytes: &[u8], spec: &AudioSpec) -> Result<Option<AudioInfo>> {
    match decoder.length(bytes, spec) {
        Ok(info) => Ok(Some(info)),
        Err(error) if error.reason.is_of_row() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// What is known of the rows of a shard.
#[derive(Debug, Default)]
struct Learnt {
    whole: Option<Vec<u64>>,
    /// By record batch.
    batches: Vec<Option<Result<Vec<u64>>>>,
}

impl Learnt {
    /// All record batches' numbers, once all are there.
    fn joined(&self) -> Option<Vec<u64>> {
        let of_batch = |words: &Option<Result<Vec<u64>>>| words.as_ref()?.as_ref().ok().cloned();
        self.batches.iter().map(of_batch).collect::<Option<Vec<_>>>().map(|all| all.concat())
    }

    /// The first error.
    fn failed(self) -> Error {
        let error = self.batches.into_iter().flatten().find_map(Result::err);
        error.unwrap_or_else(|| Error::internal("rows of a shard were not looked at"))
    }
}
