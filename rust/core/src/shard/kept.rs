//! Numbers that were worked out for each row of a shard, in its index file. The key says what of.

use super::index_file::{IndexDir, IndexFile, Section};
use crate::store::RangeReader;

/// The numbers that are kept of a shard under this key, if there are `n_words` of them.
pub(super) fn load(
    reader: &RangeReader,
    dir: &IndexDir,
    key: u64,
    n_words: u64,
) -> Option<Vec<u64>> {
    file(reader, dir, key)?.read_words(Section::rows(key), n_words)
}

/// Keeps numbers of a shard. Errors are ignored: the next opening works them out again.
pub(super) fn save(reader: &RangeReader, dir: &IndexDir, key: u64, words: &[u64]) {
    if let Some(file) = file(reader, dir, key) {
        file.write_words(Section::rows(key), words);
    }
}

fn file<'a>(reader: &RangeReader, dir: &'a IndexDir, key: u64) -> Option<IndexFile<'a>> {
    IndexFile::of_shard(reader, dir, &format!("gmrows-{key:016x}"))
}
