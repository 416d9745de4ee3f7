//! Files of the range cache.

use std::{
    cell::OnceCell,
    fs::{self, File},
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use arrow_array::{ArrayRef, BinaryArray, RecordBatch};
use arrow_ipc::writer::StreamWriter;
use gristmill_core::{
    hash,
    shard::{Blob, IndexDir, Projection, Shard},
    store::{CacheLimit, DescriptorCache, RangeCacheOptions, Store},
};

use crate::{
    Outcome, Verdict,
    draw::{Draw, Fields},
    ensure,
};

/// Rows of more than two of the cache's blocks of 64 KiB, so that some cross from one to the next.
const N_ROWS: usize = 19;
const ROW_BYTES: usize = 7_900;

/// A record of the log: seven words.
const RECORD: usize = 56;

/// With more records than these, a log may name more ranges than are held in memory, or be full.
const MAX_RECORDS: usize = 60;

/// Whatever is done to the files of a shard in a range cache, its rows are read as they are, and soon
/// from the cache again.
///
/// An input has four numbers (bytes cut from the end of the log, 16 bits; bytes cut from the end of the
/// cached bytes, 32; where these are changed, 32; the length of what follows for the log, 16), then bits
/// to flip in the log, which continue behind its end, then those to flip in the cached bytes. Zeros change
/// nothing. The log is taken as that makes it, and again with the hash of each record corrected: such
/// a record lies.
pub fn range_cache(data: &[u8]) -> Verdict {
    thread_local! {
        static SAMPLE: OnceCell<Sample> = const { OnceCell::new() };
    }
    SAMPLE.with(|sample| {
        let sample = sample.get_or_init(Sample::new);
        let (log, bytes) = sample.changed(data);
        let mut lies = log.clone();
        sample.correct(&mut lies);
        let mut draw = Draw::of(data);
        let outcome = sample.check(&log, &bytes, &mut draw)?;
        sample.check(&lies, &bytes, &mut draw)?;
        Ok(outcome)
    })
}

/// A shard that was cached as a whole.
struct Sample {
    shard: PathBuf,
    cache: PathBuf,
    /// The hash in the names of its files.
    key: u64,
    log: (PathBuf, Vec<u8>),
    bytes: (PathBuf, Vec<u8>),
    _folder: tempfile::TempDir,
}

impl Sample {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let shard = folder.path().join("shard.arrow");
        let cache = folder.path().join("cache");
        write_shard(&shard);
        // One that changed a moment ago is not cached.
        let file = File::options().append(true).open(&shard).expect("the shard");
        file.set_modified(SystemTime::now() - Duration::from_secs(60)).expect("its owner");
        let mut sample = Self {
            shard,
            cache,
            key: 0,
            log: (PathBuf::new(), Vec::new()),
            bytes: (PathBuf::new(), Vec::new()),
            _folder: folder,
        };
        assert!(sample.read((0..N_ROWS).collect()) == Ok(false), "nothing is cached yet");
        for entry in fs::read_dir(&sample.cache).expect("the cache") {
            let path = entry.expect("an entry").path();
            let is_log = path.extension().is_some_and(|extension| extension == "gmlog");
            let key = path.file_stem().and_then(|stem| stem.to_str()?.rsplit('-').next());
            sample.key = u64::from_str_radix(key.expect("a key"), 16).expect("a hash");
            let files = if is_log { &mut sample.log } else { &mut sample.bytes };
            *files = (path.clone(), fs::read(path).expect("a file"));
        }
        assert!(!sample.log.1.is_empty() && !sample.bytes.1.is_empty(), "both files are there");
        sample
    }

    /// The log and the cached bytes, as an input changes them.
    fn changed(&self, data: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let (mut log, mut bytes) = (self.log.1.clone(), self.bytes.1.clone());
        let mut fields = Fields(data);
        let n_cut = usize::from(fields.u16()).min(log.len());
        let n_bytes_cut = (fields.u32() as usize).min(bytes.len());
        let at = fields.u32() as usize % bytes.len();
        let n_log = usize::from(fields.u16()).min(fields.0.len());
        let (over_log, over_bytes) = fields.0.split_at(n_log);
        log.truncate(log.len() - n_cut);
        log.resize(log.len().max(n_log), 0);
        for (byte, change) in log.iter_mut().zip(over_log) {
            *byte ^= change;
        }
        for (byte, change) in bytes[at..].iter_mut().zip(over_bytes) {
            *byte ^= change;
        }
        bytes.truncate(bytes.len() - n_bytes_cut);
        (log, bytes)
    }

    /// Makes the last word of each record fit what it says.
    fn correct(&self, log: &mut [u8]) {
        for record in log.as_chunks_mut::<RECORD>().0 {
            let mut words = [self.key; RECORD / 8];
            for (word, bytes) in words[1..].iter_mut().zip(record.as_chunks::<8>().0) {
                *word = u64::from_le_bytes(*bytes);
            }
            record[RECORD - 8..].copy_from_slice(&hash::hash(&words).to_le_bytes());
        }
    }

    fn check(&self, log: &[u8], bytes: &[u8], draw: &mut Draw) -> Verdict {
        for (path, content) in [(&self.bytes.0, bytes), (&self.log.0, log)] {
            // Not overwritten in place, which makes some file systems flush it.
            let _ = fs::remove_file(path);
            fs::write(path, content).expect("room");
        }
        let mut order: Vec<_> = (0..N_ROWS).collect();
        order.sort_by_cached_key(|_| draw.word());
        let is_all_there = self.read(order.clone())?;
        let is_untouched = log == self.log.1 && bytes == self.bytes.1;
        ensure!(is_all_there || !is_untouched, "files that nobody changed are not read");
        // Each time that a false range is met, what was asked for is read anew.
        let n_records = log.len() / RECORD;
        let is_mended = n_records > MAX_RECORDS
            || is_all_there
            || (0..2 * MAX_RECORDS).any(|_| self.read(order.clone()) == Ok(true));
        ensure!(is_mended, "what was damaged is never cached again");
        self.read(order)?;
        Ok(if is_all_there { Outcome::Data } else { Outcome::Refused })
    }

    /// Reads the rows in this order as another process would. Returns whether all of them came from
    /// the cache.
    fn read(&self, order: Vec<usize>) -> Result<bool, String> {
        let options =
            RangeCacheOptions { folder: self.cache.clone(), limit: CacheLimit::Bytes(1 << 30) };
        let store = Store::new(&DescriptorCache::new(1)).with_range_cache(Some(options));
        let store = Arc::new(store);
        let said = |error: gristmill_core::Error| format!("an error of the cache: {error}");
        let shard = Shard::open(&store, &IndexDir::Nowhere, &self.shard).map_err(said)?;
        let blobs = ["audio".to_owned()];
        let rowwise = Projection::new(shard.schema(), None, &blobs).map_err(said)?;
        let table = shard.load_table_within(0, &rowwise, usize::MAX, &|_| ()).map_err(said)?;
        ensure!(table.n_rows() == N_ROWS, "{} rows", table.n_rows());
        for row in order {
            let Some(Blob::Range(Range { start, end })) = table.blob(0, row) else {
                return Err(format!("row {row} is no range"));
            };
            let mut found = vec![0; (end - start) as usize];
            shard.read_blob(&(start..end), &mut found).map_err(said)?;
            ensure!(found == row_bytes(row), "row {row} has wrong bytes");
        }
        ensure!(store.take_cache_problem().is_none(), "nothing more is written");
        Ok(store.reads().0 == 0)
    }
}

/// Rows that are all different.
fn row_bytes(row: usize) -> Vec<u8> {
    (0..ROW_BYTES + 100 * row).map(|at| (at % 251 + 7 * row) as u8).collect()
}

fn write_shard(path: &Path) {
    let rows: Vec<_> = (0..N_ROWS).map(row_bytes).collect();
    let column: ArrayRef = Arc::new(BinaryArray::from_iter_values(&rows));
    let batch = RecordBatch::try_from_iter([("audio", column)]).expect("a batch");
    let file = File::create(path).expect("room for a shard");
    let mut writer = StreamWriter::try_new(file, &batch.schema()).expect("a writer");
    writer.write(&batch).and_then(|()| writer.finish()).expect("room for a shard");
}
