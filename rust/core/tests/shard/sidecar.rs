//! Sidecars: fewer reads, and the same shard with or without a valid one.

use std::{
    fs::{self, File},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use arrow_array::{ArrayRef, BinaryArray, DictionaryArray, RecordBatch, types::Int8Type};
use gristmill_core::{
    hash,
    shard::{Blob, IndexDir, Projection, Shard},
    store::{DescriptorCache, Store},
};

use crate::common::{Fixture, Written, assert_reads_as, names, oracle};

/// Two columns of large rows, one with nulls, and a dictionary.
fn batch(seed: u8) -> RecordBatch {
    let large: Vec<_> = (0..5_u8).map(|row| vec![seed + row; 20_000 + usize::from(row)]).collect();
    let whole: BinaryArray = large.iter().map(|bytes| Some(&bytes[..])).collect();
    let gaps = large.iter().enumerate().map(|(row, bytes)| (row != 1).then_some(&bytes[..]));
    let gaps: BinaryArray = gaps.collect();
    let keys: DictionaryArray<Int8Type> = ["a", "b", "a", "c", "b"].into_iter().collect();
    RecordBatch::try_from_iter([
        ("whole", Arc::new(whole) as ArrayRef),
        ("gaps", Arc::new(gaps)),
        ("kind", Arc::new(keys)),
    ])
    .unwrap()
}

/// A shard that is old enough for a sidecar, with a folder for it.
struct Sample {
    fixture: Fixture,
    folder: PathBuf,
}

impl Sample {
    fn new(bytes: &[u8]) -> Self {
        let fixture = Fixture::new(bytes);
        let folder = fixture.path.with_file_name("sidecars");
        let sample = Self { fixture, folder };
        sample.touch(Duration::from_secs(60));
        sample
    }

    fn touch(&self, ago: Duration) {
        let file = File::options().append(true).open(&self.fixture.path).unwrap();
        file.set_modified(SystemTime::now() - ago).unwrap();
    }

    fn open_with(&self, index_dir: &IndexDir) -> (Shard, u64) {
        let store = Arc::new(Store::new(&DescriptorCache::new(4)));
        let shard = Shard::open(&store, index_dir, &self.fixture.path).unwrap();
        let requests = store.reads().0;
        (shard, requests)
    }

    /// Opens it and checks all of its rows. Returns the number of requests for opening it.
    fn open(&self) -> u64 {
        let (shard, requests) = self.open_with(&IndexDir::Folder(self.folder.clone()));
        let expected = oracle(&self.fixture.path).unwrap();
        assert_reads_as(&shard, &expected, &names(&["whole", "gaps"]));
        requests
    }

    fn sidecar(&self) -> PathBuf {
        only_file(&self.folder)
    }
}

fn only_file(folder: &Path) -> PathBuf {
    let files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files[0].clone()
}

#[test]
fn a_second_opening_reads_nothing_and_finds_the_same() {
    for written in Written::all() {
        let sample = Sample::new(&written.bytes(&[batch(0), batch(9)]));
        assert!(sample.open() > 0);
        assert_eq!(sample.open(), 0, "{written:?}");
        // Small: the values of rows are not in it.
        assert!(sample.sidecar().metadata().unwrap().len() < 16 << 10);
    }
}

#[test]
fn a_sidecar_beside_its_shard_moves_with_it() {
    let sample = Sample::new(&Written::STREAM.bytes(&[batch(0)]));
    assert!(sample.open_with(&IndexDir::Beside).1 > 0);
    let beside = sample.fixture.path.with_file_name("shard-0000.arrow.gmindex");
    let moved = sample.fixture.path.with_file_name("elsewhere");
    fs::create_dir(&moved).unwrap();
    for path in [&sample.fixture.path, &beside] {
        fs::rename(path, moved.join(path.file_name().unwrap())).unwrap();
    }
    let store = Arc::new(Store::new(&DescriptorCache::new(4)));
    let shard = Shard::open(&store, &IndexDir::Beside, &moved.join("shard-0000.arrow")).unwrap();
    assert_eq!((shard.n_rows(), store.reads().0), (5, 0));
}

#[test]
fn a_changed_shard_is_indexed_again() {
    let sample = Sample::new(&Written::STREAM.bytes(&[batch(0)]));
    sample.open();
    // The same length, other bytes, and a later time.
    fs::write(&sample.fixture.path, Written::STREAM.bytes(&[batch(7)])).unwrap();
    sample.touch(Duration::from_secs(30));
    assert!(sample.open() > 0);
    assert_eq!(sample.open(), 0);
    // Longer, with the same modification time.
    let bytes = Written::STREAM.bytes(&[batch(7), batch(8)]);
    let modified = sample.fixture.path.metadata().unwrap().modified().unwrap();
    fs::write(&sample.fixture.path, bytes).unwrap();
    File::options()
        .append(true)
        .open(&sample.fixture.path)
        .unwrap()
        .set_modified(modified)
        .unwrap();
    assert!(sample.open() > 0);
}

#[test]
fn a_shard_that_has_just_changed_gets_no_sidecar() {
    let sample = Sample::new(&Written::STREAM.bytes(&[batch(0)]));
    sample.touch(Duration::ZERO);
    sample.open();
    assert!(!sample.folder.exists());
}

#[test]
fn damaged_sidecars_are_ignored() {
    for written in [Written::STREAM, Written::FILE] {
        let sample = Sample::new(&written.bytes(&[batch(0), batch(9)]));
        sample.open();
        let path = sample.sidecar();
        let good = fs::read(&path).unwrap();
        let open = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            sample.open_with(&IndexDir::Folder(sample.folder.clone())).1
        };
        for at in (0..good.len()).step_by(13) {
            let mut bytes = good.clone();
            bytes[at] ^= 1 << (at % 8);
            assert!(open(&bytes) > 0, "byte {at}");
            assert_eq!(fs::read(&path).unwrap(), good, "written again");
            assert!(open(&good[..at]) > 0, "cut at {at}");
        }
        assert!(open(&[&good[..], b"more"].concat()) > 0);
        assert_eq!(open(&good), 0);
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_no_error() {
    let sample = Sample::new(&Written::STREAM.bytes(&[batch(0)]));
    fs::write(&sample.folder, b"a file where the folder should be").unwrap();
    assert!(sample.open() > 0);
    fs::remove_file(&sample.folder).unwrap();
    fs::create_dir(&sample.folder).unwrap();
    fs::set_permissions(&sample.folder, fs::Permissions::from_mode(0o500)).unwrap();
    assert!(sample.open() > 0);
    // A folder in place of the sidecar.
    fs::set_permissions(&sample.folder, fs::Permissions::from_mode(0o700)).unwrap();
    sample.open();
    let path = sample.sidecar();
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(sample.open() > 0);
    assert_eq!(fs::read_dir(&sample.folder).unwrap().count(), 1, "temporary files stay behind");
}

#[test]
fn concurrent_openings_find_whole_sidecars() {
    let sample = Sample::new(&Written::STREAM.bytes(&[batch(0), batch(9)]));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..5 {
                    sample.open();
                }
            });
        }
    });
    assert_eq!(sample.open(), 0);
    sample.sidecar();
}

/// The contents of a sidecar with a valid checksum are still checked.
#[test]
fn false_sidecars_are_ignored_or_end_in_an_error() {
    const BLOCK_HEAD: usize = 20;
    let sample = Sample::new(&Written::STREAM.bytes(&[batch(0), batch(9)]));
    sample.open();
    let path = sample.sidecar();
    let good = fs::read(&path).unwrap();
    // The section is the second block.
    let section = 8 + good[8..].windows(4).skip(1).position(|mark| mark == b"GMBL").unwrap() + 1;
    let payload = section + BLOCK_HEAD;
    let n_bytes = fs::metadata(&sample.fixture.path).unwrap().len();
    let (mut rebuilt, mut refused) = (0, 0);
    for at in payload..good.len() {
        let mut bytes = good.clone();
        bytes[at] = [0, 1, 0x7F, 0xFF][at % 4];
        let sum = hash::xxh3(&bytes[payload..]).to_le_bytes();
        bytes[section + 4..section + 12].copy_from_slice(&sum);
        fs::write(&path, &bytes).unwrap();
        let (shard, requests) = sample.open_with(&IndexDir::Folder(sample.folder.clone()));
        rebuilt += u32::from(requests > 0);
        let wanted = names(&["whole", "gaps"]);
        let Ok(projection) = Projection::new(shard.schema(), None, &wanted) else { continue };
        for number in 0..shard.n_batches() {
            match shard.load_table(number, &projection) {
                Err(error) => {
                    refused += 1;
                    assert!(error.at().shard.is_some(), "{error}");
                }
                Ok(table) => {
                    assert!(table.n_rows() <= 5);
                    for row in 0..5 {
                        for blob in (0..2).filter_map(|blob| table.blob(blob, row)) {
                            let Blob::Range(range) = blob else { panic!("in memory") };
                            assert!(range.end <= n_bytes);
                        }
                    }
                }
            }
        }
    }
    println!("{rebuilt} rebuilt, {refused} refused");
    assert!(rebuilt > 300, "{rebuilt}");
}

/// Golden: sidecars of earlier versions stay valid.
#[test]
fn version_2_is_fixed() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/shard");
    for (name, expected) in [
        ("deltas", 0xb9a7_e811_6292_c3b3),
        ("whole-file-plain", 0x76ad_3cb5_062e_f7bf),
        ("whole-stream-lz4", 0xc9fa_fd99_d0e8_1f49),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(format!("{name}.arrow"));
        fs::write(&path, fs::read(seeds.join(name)).unwrap()).unwrap();
        let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        File::options().append(true).open(&path).unwrap().set_modified(modified).unwrap();
        Shard::open(&Arc::default(), &IndexDir::Beside, &path).unwrap();
        let sidecar = fs::read(folder.path().join(format!("{name}.arrow.gmindex"))).unwrap();
        assert_eq!(hash::fnv1a(&sidecar), expected, "{name}");
    }
}
