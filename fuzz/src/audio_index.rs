//! Index files, and the recordings in them.

use std::{
    cell::OnceCell,
    fs::{self, File},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use gristmill_audio::Entry;
use gristmill_core::{
    hash::xxh3,
    shard::{AudioEntry, AudioIndex, IndexDir, Shard},
    store::{DescriptorCache, Store},
};

use crate::{Outcome, Verdict, ensure, repair};

/// The version of the entries.
const VERSION: u64 = 1;

/// Entries of which it is looked at what they say: each has a checksum over its headers, which many may
/// share.
const MAX_LOOKED_AT: usize = 64;

/// Whatever the section of recordings is, the file is ignored or has entries; what it has is kept when it
/// is written again, and comes back. And whatever follows the key in the head, the shard can be opened, and
/// its index be kept.
///
/// It is read as it is, and again with the checksums of its blocks corrected.
pub fn audio_index(data: &[u8]) -> Verdict {
    thread_local! {
        static SAMPLE: OnceCell<Sample> = const { OnceCell::new() };
    }
    let mut repaired = data.to_vec();
    repair::blocks(&mut repaired);
    SAMPLE.with(|sample| {
        let sample = sample.get_or_init(Sample::new);
        sample.check_head(data)?;
        sample.check_head(&repaired)?;
        sample.check(data)?;
        sample.check(&repaired)
    })
}

/// A shard, and where its index file is.
struct Sample {
    shard: Shard,
    path: PathBuf,
    file: PathBuf,
    /// The file's first bytes, which name the format.
    magic: Vec<u8>,
    /// What the payload of the head begins with: the key, after its length.
    key: Vec<u8>,
    _folder: tempfile::TempDir,
}

/// The kind of the section of recordings.
const AUDIO: u64 = 2;

/// The bytes of a block's mark, checksum and length.
const BLOCK_HEAD: usize = 20;

impl Sample {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("shard.arrow");
        fs::write(&path, include_bytes!("../corpus/shard/narrow-stream-plain")).expect("room");
        // One that changed a moment ago has no index.
        let file = File::options().append(true).open(&path).expect("the shard");
        file.set_modified(SystemTime::now() - Duration::from_secs(60)).expect("its owner");
        let shard = open(&path);
        let mut index = AudioIndex::default();
        index.add(0, AudioEntry { bytes: &[], headers: &[] });
        assert!(shard.save_audio_index(VERSION, &mut index), "there is room for its index");
        let file = folder.path().join("shard.arrow.gmindex");
        let written = fs::read(&file).expect("its index");
        let (magic, rest) = written.split_at(8);
        let len_of_key = usize::from(rest[BLOCK_HEAD]);
        let key = rest[BLOCK_HEAD..][..=len_of_key].to_vec();
        Self { shard, path, magic: magic.to_vec(), key, file, _folder: folder }
    }

    /// Writes a file with such a head, after the key, and with what follows the head.
    fn put(&self, head: &[u8], rest: &[u8]) {
        let payload = [&self.key, head].concat();
        let len = (payload.len() as u64).to_le_bytes();
        let sum = xxh3(&payload).to_le_bytes();
        // Not overwritten in place, which makes some file systems flush it.
        let _ = fs::remove_file(&self.file);
        let bytes = [&self.magic, &b"GMBL"[..], &sum, &len, &payload, rest].concat();
        fs::write(&self.file, bytes).expect("room for an index");
    }

    fn check_head(&self, data: &[u8]) -> Verdict {
        self.put(data, data);
        drop(open(&self.path));
        let mut index = AudioIndex::default();
        index.add(7, AudioEntry { bytes: b"entry", headers: b"headers" });
        ensure!(self.shard.save_audio_index(VERSION, &mut index), "it is not written");
        let again = self.shard.load_audio_index(VERSION);
        ensure!(again.iter().eq(index.iter()), "other entries come back");
        Ok(Outcome::Data)
    }

    fn check(&self, data: &[u8]) -> Verdict {
        let mut head = vec![1];
        for number in [AUDIO, 0, VERSION, data.len() as u64] {
            put_number(&mut head, number);
        }
        self.put(&head, data);
        let index = self.shard.load_audio_index(VERSION);
        ensure!(index.len() <= data.len(), "{} entries", index.len());
        for (at, (start, entry)) in index.iter().enumerate() {
            ensure!(index.get(start) == Some(entry), "another entry at {start}");
            let AudioEntry { bytes, headers } = entry;
            ensure!(bytes.len().max(headers.len()) <= data.len(), "a long entry at {start}");
            if at < MAX_LOOKED_AT {
                drop(Entry::from_bytes(bytes, headers));
            }
        }
        let mut kept = AudioIndex::default();
        ensure!(self.shard.save_audio_index(VERSION, &mut kept), "it is not written again");
        ensure!(kept.iter().eq(index.iter()), "other entries are kept");
        let written = fs::read(&self.file).expect("the index");
        let mut again = self.shard.load_audio_index(VERSION);
        ensure!(again.iter().eq(index.iter()), "other entries come back");
        ensure!(self.shard.save_audio_index(VERSION, &mut again), "it is not written a third time");
        ensure!(fs::read(&self.file).expect("the index") == written, "other bytes are written");
        Ok(if index.is_empty() { Outcome::Refused } else { Outcome::Data })
    }
}

fn open(path: &Path) -> Shard {
    let store = Arc::new(Store::new(&DescriptorCache::new(1)));
    Shard::open(&store, &IndexDir::Beside, path).expect("a shard")
}

/// Appends a number as index files have it.
fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}
