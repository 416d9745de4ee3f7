//! Files of audio indexes.

use std::{
    cell::OnceCell,
    fs::{self, File},
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};

use gristmill_audio::Entry;
use gristmill_core::{
    shard::{AudioEntry, AudioIndex, IndexDir, Shard},
    store::{DescriptorCache, Store},
};

use crate::{Outcome, Verdict, ensure, repair};

/// The version of the entries.
const VERSION: u64 = 1;

/// Entries of which it is looked at what they say: each has a checksum over its headers, which many may
/// share.
const MAX_LOOKED_AT: usize = 64;

/// Whatever follows the block that names the shard, the file is read past or has entries; what it has is
/// kept when it is written again, and comes back.
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
        sample.check(data)?;
        sample.check(&repaired)
    })
}

/// A shard, and where its audio index lies.
struct Sample {
    shard: Shard,
    file: PathBuf,
    /// The file's bytes up to the end of the block that names the shard.
    head: Vec<u8>,
    _folder: tempfile::TempDir,
}

impl Sample {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("shard.arrow");
        fs::write(&path, include_bytes!("../corpus/shard/narrow-stream-plain")).expect("room");
        // One that changed a moment ago has no index.
        let file = File::options().append(true).open(&path).expect("the shard");
        file.set_modified(SystemTime::now() - Duration::from_secs(60)).expect("its owner");
        let store = Arc::new(Store::new(&DescriptorCache::new(1)));
        let shard = Shard::open(&store, &IndexDir::Beside, &path).expect("a shard");
        let mut index = AudioIndex::default();
        index.add(0, AudioEntry { bytes: &[], headers: &[] });
        assert!(shard.save_audio_index(VERSION, &mut index), "there is room for its index");
        let file = folder.path().join("shard.arrow.gmaudio");
        let written = fs::read(&file).expect("its index");
        let n_bytes = u32::from_le_bytes(*written[12..].first_chunk().expect("a block"));
        let head = written[..24 + n_bytes as usize].to_vec();
        Self { shard, file, head, _folder: folder }
    }

    fn check(&self, data: &[u8]) -> Verdict {
        // Not overwritten in place, which makes some file systems flush it.
        let _ = fs::remove_file(&self.file);
        fs::write(&self.file, [&self.head, data].concat()).expect("room for an index");
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
