//! Audio indexes of shards: kept, shared between processes, and never in the way.

use std::{
    fs::{self, File},
    os::unix::fs::{PermissionsExt, symlink},
    path::PathBuf,
    sync::{Arc, Barrier},
    thread,
    time::{Duration, SystemTime},
};

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use gristmill_core::{
    shard::{AudioEntry, AudioIndex, IndexDir, Shard},
    store::{DescriptorCache, Store},
};

use crate::common::{Fixture, Written};

const VERSION: u64 = 7;

/// A shard that is old enough, with a folder for its index.
struct Sample {
    fixture: Fixture,
    dir: IndexDir,
    folder: PathBuf,
}

impl Sample {
    fn new() -> Self {
        let column = Arc::new(Int64Array::from(vec![1, 2, 3])) as ArrayRef;
        let batch = RecordBatch::try_from_iter([("label", column)]).unwrap();
        let fixture = Fixture::new(&Written::STREAM.bytes(&[batch]));
        let folder = fixture.path.with_file_name("indexes");
        let sample = Self { dir: IndexDir::Folder(folder.clone()), fixture, folder };
        sample.touch(60);
        sample
    }

    fn touch(&self, seconds_ago: u64) {
        let file = File::options().append(true).open(&self.fixture.path).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(seconds_ago)).unwrap();
    }

    fn open(&self) -> Shard {
        let store = Arc::new(Store::new(&DescriptorCache::new(4)));
        Shard::open(&store, &self.dir, &self.fixture.path).unwrap()
    }

    fn save(&self, mut index: AudioIndex) -> bool {
        self.open().save_audio_index(VERSION, &mut index)
    }

    fn loaded(&self) -> Vec<u64> {
        starts(&self.open().load_audio_index(VERSION))
    }

    fn file(&self) -> PathBuf {
        let mut files = fs::read_dir(&self.folder).unwrap().map(|entry| entry.unwrap().path());
        files.next().unwrap()
    }
}

fn index(of: impl IntoIterator<Item = u64>) -> AudioIndex {
    let mut index = AudioIndex::default();
    for start in of {
        index.add(start, AudioEntry { bytes: &[start as u8; 50], headers: &[start as u8 % 3; 90] });
    }
    index
}

fn starts(index: &AudioIndex) -> Vec<u64> {
    index.iter().map(|(start, _)| start).collect()
}

#[test]
fn entries_are_kept_and_added_to() {
    let sample = Sample::new();
    assert!(sample.loaded().is_empty());
    assert!(sample.save(index([1, 5])) && sample.save(index([3, 5])));
    assert_eq!(sample.loaded(), [1, 3, 5]);
    let loaded = sample.open().load_audio_index(VERSION);
    assert!(loaded.iter().eq(index([1, 3, 5]).iter()));
    assert!(sample.open().load_audio_index(VERSION + 1).is_empty());
}

#[test]
fn beside_the_shard_it_moves_with_it() {
    let mut sample = Sample::new();
    sample.dir = IndexDir::Beside;
    assert!(sample.save(index([1])));
    let moved = tempfile::tempdir().unwrap();
    for name in ["shard-0000.arrow", "shard-0000.arrow.gmindex"] {
        let from = sample.fixture.path.with_file_name(name);
        fs::rename(from, moved.path().join(name)).unwrap();
    }
    sample.fixture.path = moved.path().join("shard-0000.arrow");
    assert_eq!(sample.loaded(), [1]);
}

#[test]
fn that_of_another_version_of_the_shard_is_replaced() {
    let sample = Sample::new();
    assert!(sample.save(index([1])));
    sample.touch(30);
    assert!(sample.loaded().is_empty() && sample.save(index([2])));
    assert_eq!(sample.loaded(), [2]);
    sample.touch(0);
    assert!(!sample.save(index([3])), "it may change again without a later time");
}

#[test]
fn another_shard_s_file_is_read_past() {
    let (sample, other) = (Sample::new(), Sample::new());
    assert!(sample.save(index([1])) && other.save(index([2])));
    fs::copy(other.file(), sample.file()).unwrap();
    assert!(sample.loaded().is_empty());
}

#[test]
fn what_cannot_be_written_or_read_is_no_error() {
    let mut sample = Sample::new();
    sample.dir = IndexDir::Nowhere;
    assert!(!sample.save(index([1])) && sample.loaded().is_empty());
    sample.dir = IndexDir::Folder(sample.fixture.path.join("in-a-file"));
    assert!(!sample.save(index([1])) && sample.loaded().is_empty());
    // A device that is always full takes the place of the folder's file system.
    sample.dir = IndexDir::Folder(sample.folder.clone());
    assert!(sample.save(index([1])));
    let path = sample.file();
    fs::remove_file(&path).unwrap();
    symlink("/dev/full", &path).unwrap();
    assert!(sample.loaded().is_empty() && sample.save(index([2])));
    assert_eq!(sample.loaded(), [2], "a rename replaces whatever is there");
    fs::set_permissions(&sample.folder, fs::Permissions::from_mode(0o500)).unwrap();
    // Root may write all the same.
    let may_write = sample.save(index([3]));
    fs::set_permissions(&sample.folder, fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(sample.loaded(), if may_write { vec![2, 3] } else { vec![2] });
}

#[test]
fn many_writers_leave_a_whole_file() {
    let sample = Sample::new();
    // Otherwise one may write what it found of the record batches over the recordings of another.
    sample.open();
    let barrier = Barrier::new(8);
    thread::scope(|scope| {
        for k in 0..8_u64 {
            let (sample, barrier) = (&sample, &barrier);
            scope.spawn(move || {
                barrier.wait();
                for round in 0..20 {
                    assert!(sample.save(index([k * 100 + round])));
                    let found = sample.open().load_audio_index(VERSION);
                    assert!(!found.is_empty());
                    assert!(found.iter().all(|(start, entry)| entry.bytes == [start as u8; 50]));
                }
            });
        }
    });
    let left = fs::read_dir(&sample.folder).unwrap().count();
    assert_eq!(left, 1, "no temporary file");
}

#[test]
fn a_shard_has_one_file() {
    let sample = Sample::new();
    let (shard, other) = (sample.open(), sample.open());
    // What another wrote meanwhile stays.
    shard.keep(&sample.dir, 3, &[1, 2, 3]);
    assert!(other.save_audio_index(VERSION, &mut index([1, 5])));
    shard.keep(&sample.dir, 4, &[7]);
    let again = sample.open();
    assert_eq!(again.reads().requests, 0);
    assert_eq!(starts(&again.load_audio_index(VERSION)), [1, 5]);
    assert_eq!(again.load_kept(&sample.dir, 3, 3), Some(vec![1, 2, 3]));
    assert_eq!(again.load_kept(&sample.dir, 4, 1), Some(vec![7]));
    assert_eq!(fs::read_dir(&sample.folder).unwrap().count(), 1);
}

#[test]
fn threads_of_one_shard_lose_nothing() {
    let sample = Sample::new();
    let shard = sample.open();
    thread::scope(|scope| {
        for k in 0..8 {
            let (shard, dir) = (&shard, &sample.dir);
            scope.spawn(move || {
                shard.keep(dir, k, &[k]);
                assert!(shard.save_audio_index(VERSION, &mut index([k])));
            });
        }
    });
    assert_eq!(sample.loaded(), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert!((0..8).all(|k| sample.open().load_kept(&sample.dir, k, 1) == Some(vec![k])));
}
