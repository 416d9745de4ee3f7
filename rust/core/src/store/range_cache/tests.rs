//! A cache folder with files that are damaged, removed and shared: right bytes, or none.

use std::{
    fs::{self, FileTimes},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use tempfile::TempDir;

use super::{
    BYTES, CacheLimit, CachedShard, LOG, RangeCache, RangeCacheOptions,
    bound::{UNUSED, Usage},
    log::RECORD,
    ranges::{CELL, PIECE},
};
use crate::{hash, store::FileVersion, threads};

pub(super) const LEN: u64 = 5 * CELL + 1000;

fn byte(at: u64) -> u8 {
    (at % 251) as u8
}

fn bytes(start: u64, n: u64) -> Vec<u8> {
    (start..start + n).map(byte).collect()
}

fn version(modified_s: i64) -> FileVersion {
    FileVersion { len: LEN, id: 7, modified: (modified_s, 5) }
}

pub(super) struct Setup {
    folder: TempDir,
    limit: CacheLimit,
}

impl Setup {
    pub(super) fn new(limit: u64) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), limit: CacheLimit::Bytes(limit) }
    }

    fn cache(&self) -> Arc<RangeCache> {
        let folder = self.folder.path().to_owned();
        Arc::new(RangeCache::new(RangeCacheOptions { folder, limit: self.limit }))
    }

    /// A shard as another process opens it.
    pub(super) fn shard(&self, name: &str) -> CachedShard {
        self.cache().shard(Path::new(name), &version(100)).unwrap()
    }

    pub(super) fn files(&self, extension: &str) -> Vec<PathBuf> {
        let files = fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> =
            files.filter(|path| path.extension().unwrap() == extension).collect();
        files.sort();
        files
    }

    fn n_bytes(&self) -> u64 {
        Usage::of(self.folder.path(), self.limit).unwrap().n_bytes
    }
}

/// Whether these bytes are cached; they are right if they are.
pub(super) fn has(shard: &CachedShard, start: u64, n: u64) -> bool {
    let mut buf = vec![0; n as usize];
    let is_there = shard.read(start, &mut buf, true).is_some();
    assert!(!is_there || buf == bytes(start, n), "wrong bytes from {start} on");
    is_there
}

pub(super) fn put(shard: &CachedShard, start: u64, n: u64) {
    shard.write(start, &bytes(start, n));
}

#[test]
fn what_was_written_is_read_in_any_parts_by_any_process() {
    let setup = Setup::new(1 << 30);
    let (one, other) = (setup.shard("/a.arrow"), setup.shard("/a.arrow"));
    put(&one, 10, 3 * CELL);
    for shard in [&one, &other, &setup.shard("/a.arrow")] {
        assert!(has(shard, 10, 3 * CELL) && has(shard, CELL - 1, 2) && has(shard, 10, 1));
        assert!(!has(shard, 9, 2) && !has(shard, 3 * CELL, 11) && !has(shard, 4 * CELL, 1));
    }
    // One process sees what another adds.
    put(&other, 3 * CELL + 10, LEN - 3 * CELL - 10);
    assert!(has(&one, 10, LEN - 10));
    assert!(!has(&setup.shard("/b.arrow"), 10, 1));
}

#[test]
fn neighbouring_crops_become_one_range() {
    let setup = Setup::new(1 << 30);
    let shard = setup.shard("a.arrow");
    for (start, n) in [(100, 50), (300, 50), (120, 200), (90, 10), (360, 10), (350, 10)] {
        put(&shard, start, n);
    }
    for shard in [&shard, &setup.shard("a.arrow")] {
        assert!(has(shard, 90, 280) && !has(shard, 89, 2) && !has(shard, 369, 2));
        let known = shard.known.lock().unwrap();
        assert_eq!(known.ranges.cover(&(90..370)).unwrap().len(), 1);
    }
}

#[test]
fn another_version_and_another_shard_have_nothing() {
    let setup = Setup::new(1 << 30);
    put(&setup.shard("a.arrow"), 0, 1000);
    let cache = setup.cache();
    let get = |path, version| cache.shard(Path::new(path), &version);
    assert!(has(&get("a.arrow", version(100)).unwrap(), 0, 1000));
    // A number of the file system is not part of the version: a mount may give it anew.
    assert!(has(&get("a.arrow", FileVersion { id: 8, ..version(100) }).unwrap(), 0, 1000));
    for other in [
        version(101),
        FileVersion { modified: (100, 6), ..version(100) },
        FileVersion { len: LEN - 1, ..version(100) },
    ] {
        assert!(!has(&get("a.arrow", other).unwrap(), 0, 1000));
    }
    assert!(get("a.arrow", version(FileVersion::NEVER_SETTLED)).is_none());
    assert!(get("http://h/a?b", FileVersion { id: 0, ..version(100) }).is_none());
    assert!(get("http://h/a?b", version(100)).is_some());
}

#[test]
fn damaged_bytes_are_none_and_written_anew() {
    let setup = Setup::new(1 << 30);
    for at in [0, 1, CELL - 1, CELL, 2 * CELL - 1] {
        let shard = setup.shard("a.arrow");
        put(&shard, 0, 2 * CELL);
        let path = &setup.files(BYTES)[0];
        let mut all = fs::read(path).unwrap();
        all[at as usize] ^= 4;
        fs::write(path, all).unwrap();
        assert!(!has(&shard, 0, 2 * CELL), "{at}");
        // The other one is there, and all know which is not.
        for shard in [&shard, &setup.shard("a.arrow")] {
            assert_eq!(has(shard, 0, CELL), at >= CELL);
            assert_eq!(has(shard, CELL, CELL), at < CELL);
        }
        put(&shard, 0, 2 * CELL);
        assert!(has(&shard, 0, 2 * CELL) && has(&setup.shard("a.arrow"), 0, 2 * CELL));
        // Cut short, a hole, and none.
        for change in [
            |path: &PathBuf| {
                fs::File::options().write(true).open(path).unwrap().set_len(5).unwrap();
            },
            |path: &PathBuf| fs::write(path, vec![0; 2 * CELL as usize]).unwrap(),
            |path: &PathBuf| fs::remove_file(path).unwrap(),
        ] {
            change(&setup.files(BYTES)[0]);
            assert!(!has(&setup.shard("a.arrow"), 1, CELL));
            put(&shard, 0, 2 * CELL);
            assert!(has(&shard, 0, 2 * CELL) && has(&setup.shard("a.arrow"), 0, 2 * CELL));
        }
    }
}

#[test]
fn a_read_checks_the_pieces_that_it_lies_in_and_no_others() {
    let setup = Setup::new(1 << 30);
    let shard = setup.shard("a.arrow");
    put(&shard, 100, CELL);
    let path = &setup.files(BYTES)[0];
    let mut all = fs::read(path).unwrap();
    all[PIECE as usize] ^= 1;
    fs::write(path, all).unwrap();
    for shard in [&shard, &setup.shard("a.arrow")] {
        assert!(has(shard, 100, PIECE - 100) && has(shard, 2 * PIECE, CELL - 2 * PIECE + 100));
    }
    assert!(!has(&shard, 2 * PIECE - 1, 2));
    // From now on the range is damaged, and the one in the next 64 KiB is not.
    for shard in [&shard, &setup.shard("a.arrow")] {
        assert!(!has(shard, 100, 1) && has(shard, CELL, 100));
    }
}

#[test]
fn whatever_becomes_of_the_log_no_wrong_byte_is_read() {
    let setup = Setup::new(1 << 30);
    let shard = setup.shard("a.arrow");
    for k in 0..6 {
        put(&shard, 5000 * k, 3000);
    }
    let path = setup.files(LOG)[0].clone();
    let log = fs::read(&path).unwrap();
    let bytes_path = &setup.files(BYTES)[0];
    let all = fs::read(bytes_path).unwrap();
    for at in 0..log.len() {
        let mut changed = log.clone();
        changed[at] ^= 1 << (at % 8);
        for log in [&changed[..], &log[..at]] {
            fs::write(&path, log).unwrap();
            let shard = setup.shard("a.arrow");
            let n = (0..6).filter(|k| has(&shard, 5000 * k, 3000)).count();
            assert!(n >= if log.len() == changed.len() { 5 } else { at / RECORD }, "{at}");
            assert!(!has(&shard, 3000, 1));
        }
    }
    fs::write(&path, log).unwrap();
    assert_eq!(fs::read(bytes_path).unwrap(), all);
    assert!(has(&setup.shard("a.arrow"), 0, 3000));
}

#[test]
fn a_log_is_read_up_to_its_bound() {
    let setup = Setup::new(1 << 30);
    let shard = setup.shard("a.arrow");
    put(&shard, 0, 1000);
    let path = &setup.files(LOG)[0];
    let record = fs::read(path).unwrap();
    fs::write(path, record.repeat(10_000)).unwrap();
    assert!(has(&shard, 0, 1000));
    let n_bytes = shard.known.lock().unwrap().n_bytes;
    assert_eq!(n_bytes, shard.max_log_bytes());
    // Then nothing is added.
    put(&shard, 2000, 1000);
    assert!(!has(&shard, 2000, 1000) && has(&shard, 0, 1000));
}

#[test]
fn links_and_pipes_are_not_followed() {
    let setup = Setup::new(1 << 30);
    put(&setup.shard("a.arrow"), 0, 1000);
    let (path, log) = (&setup.files(BYTES)[0], &setup.files(LOG)[0]);
    let target = setup.folder.path().join("target.x");
    fs::write(&target, bytes(0, 1000)).unwrap();
    for linked in [path, log] {
        fs::remove_file(linked).unwrap();
        std::os::unix::fs::symlink(&target, linked).unwrap();
        let cache = setup.cache();
        let shard = cache.shard(Path::new("a.arrow"), &version(100)).unwrap();
        assert!(!has(&shard, 0, 1000));
        put(&shard, 0, 500);
        assert!(cache.take_problem().is_some());
        assert_eq!(fs::read(&target).unwrap(), bytes(0, 1000));
        fs::remove_file(linked).unwrap();
    }
}

/// Writes until there is no more room, giving threads that make some their time.
fn fill(shard: &CachedShard, cache: &Arc<RangeCache>) {
    const N: u64 = 8 << 10;
    for k in 0..LEN / N {
        put(shard, k * N, N);
        cache.wait();
    }
}

#[test]
fn the_bound_is_kept_and_unused_files_go_first() {
    let setup = Setup::new(CELL * 16);
    let names = ["a", "b", "c", "d", "e", "f"];
    for (age, name) in names.iter().enumerate() {
        let cache = setup.cache();
        let shard = cache.shard(Path::new(name), &version(100)).unwrap();
        fill(&shard, &cache);
        assert!(setup.n_bytes() <= 16 * CELL, "{}", setup.n_bytes());
        drop(shard);
        // All of them are unused now; earlier ones for longer. One time is yet to come.
        let used = match age {
            0 => SystemTime::now() + Duration::from_secs(1 << 40),
            _ => SystemTime::now() - UNUSED * 10 + Duration::from_secs(age as u64),
        };
        for file in setup.files(LOG).iter().chain(&setup.files(BYTES)) {
            if file.to_string_lossy().contains(&format!("/{name}-")) {
                let times = FileTimes::new().set_modified(used);
                fs::File::options().write(true).open(file).unwrap().set_times(times).unwrap();
            }
        }
    }
    // Two shards fit, and a part of a third. The last ones are there.
    assert!(has(&setup.shard("f"), 0, CELL) && has(&setup.shard("e"), 0, CELL));
    assert!(!has(&setup.shard("a"), 0, CELL) && !has(&setup.shard("b"), 0, CELL));
}

#[test]
fn a_folder_that_is_full_of_what_is_read_stays_as_it_is() {
    let setup = Setup::new(CELL * 10);
    let cache = setup.cache();
    let shards =
        ["a", "b", "c", "d"].map(|name| cache.shard(Path::new(name), &version(100)).unwrap());
    for shard in &shards {
        fill(shard, &cache);
    }
    assert!(setup.n_bytes() <= 10 * CELL);
    assert!(has(&shards[0], 0, 4 * CELL) && !has(&shards[3], 0, CELL));
    assert!(cache.take_problem().is_none());
    // A smaller bound holds for what is there already.
    let small = Setup { limit: CacheLimit::Bytes(2 * CELL), ..setup };
    let cache = small.cache();
    let shard = cache.shard(Path::new("a"), &version(100)).unwrap();
    put(&shard, 0, CELL);
    cache.wait();
    assert!(small.n_bytes() <= 2 * CELL);
}

#[test]
fn a_share_is_of_what_would_be_free_without_the_cache() {
    let mut setup = Setup::new(0);
    setup.limit = CacheLimit::Share(0.5);
    let folder = setup.folder.path();
    let empty = Usage::of(folder, setup.limit).unwrap();
    let system = rustix::fs::statvfs(folder).unwrap();
    let free = system.f_bavail * system.f_frsize;
    assert!(empty.limit > free / 4 && empty.limit <= free);
    put(&setup.shard("a"), 0, LEN);
    assert!(has(&setup.shard("a"), 0, LEN));
}

#[test]
fn a_folder_that_cannot_be_written_is_told_of_once() {
    let setup = Setup::new(1 << 30);
    let file = setup.folder.path().join("file.x");
    fs::write(&file, b"").unwrap();
    let options = RangeCacheOptions { folder: file.join("below"), limit: setup.limit };
    let cache = Arc::new(RangeCache::new(options));
    let shard = cache.shard(Path::new("a"), &version(100)).unwrap();
    put(&shard, 0, 1000);
    assert!(!has(&shard, 0, 1000));
    assert!(cache.take_problem().unwrap().contains("nothing more is written to cache_dir="));
    put(&shard, 0, 1000);
    assert_eq!(cache.take_problem(), None);
    // One that is removed meanwhile, likewise.
    let cache = setup.cache();
    let shard = cache.shard(Path::new("a"), &version(100)).unwrap();
    put(&shard, 0, 1000);
    assert!(has(&shard, 0, 1000));
    fs::remove_dir_all(setup.folder.path()).unwrap();
    assert!(!has(&shard, 0, 1000));
    put(&shard, 0, 1000);
    assert!(!has(&shard, 0, 1000) && cache.take_problem().is_some());
}

#[test]
fn threads_and_processes_write_and_remove_at_once() {
    let setup = Setup::new(1 << 30);
    let threads: Vec<_> = (0..4_u64)
        .map(|n| {
            let (shard, folder) = (setup.shard("a.arrow"), setup.folder.path().to_owned());
            threads::spawn("gristmill-test", move || {
                let mut n_hits = 0;
                for k in 0..300 {
                    let start = hash::hash(&[n, k]) % (LEN - 70_000);
                    n_hits += usize::from(has(&shard, start, 70_000));
                    put(&shard, start, 70_000);
                    if k % 100 == 99 {
                        for file in fs::read_dir(&folder).unwrap() {
                            let _ = fs::remove_file(file.unwrap().path());
                        }
                    }
                }
                n_hits
            })
        })
        .collect();
    let n_hits: usize = threads.into_iter().map(|thread| thread.unwrap().join().unwrap()).sum();
    assert!(n_hits > 0);
}
