//! Numbers that were worked out for each row of a shard, in a small file beside its sidecar.
//!
//! What is said of sidecars in [`super::sidecar`] holds for these files: they are never needed, never
//! trusted, and of one version of the shard. The key says what the numbers are of.

use std::{os::unix::ffi::OsStrExt, path::PathBuf};

use super::{
    IndexDir,
    sidecar::{MAX_BYTES, SidecarReader, SidecarWriter, read, replace},
};
use crate::{hash, store::RangeReader};

/// The last byte is the version.
const MAGIC: &[u8; 8] = b"GMROWS\0\x01";

/// The numbers that are kept of a shard under this key, if there are `n_words` of them.
pub(super) fn load(
    reader: &RangeReader,
    dir: &IndexDir,
    key: u64,
    n_words: u64,
) -> Option<Vec<u64>> {
    if !reader.may_be_kept() {
        return None;
    }
    let path = path(reader, dir, key)?;
    // What goes before the numbers is far shorter than a sidecar may be.
    let bytes = read(&path, n_words.saturating_mul(8).saturating_add(MAX_BYTES)).ok()?;
    let (sum, payload) = bytes.strip_prefix(MAGIC)?.split_first_chunk()?;
    if u64::from_le_bytes(*sum) != hash::fnv1a(payload) {
        return None;
    }
    let mut saved = SidecarReader::new(payload);
    let shard = saved.bytes()?;
    let of = [saved.word()?, saved.word()?, saved.word()?, saved.word()?];
    if shard != dir.shard_path(reader.path())?.as_os_str().as_bytes() || of != version(reader, key)
    {
        return None;
    }
    let words = saved.words()?;
    (saved.is_empty() && words.len() as u64 == n_words).then_some(words)
}

/// Keeps numbers of a shard. Errors are ignored: the next opening works them out again.
pub(super) fn save(reader: &RangeReader, dir: &IndexDir, key: u64, words: &[u64]) {
    let Some((path, shard)) = path(reader, dir, key).zip(dir.shard_path(reader.path())) else {
        return;
    };
    if !reader.may_be_kept() {
        return;
    }
    let mut out = SidecarWriter::default();
    out.bytes(shard.as_os_str().as_bytes());
    out.words(&version(reader, key));
    out.words(&[words.len() as u64]);
    out.words(words);
    let payload = out.into_bytes();
    let mut bytes = MAGIC.to_vec();
    bytes.extend(hash::fnv1a(&payload).to_le_bytes());
    bytes.extend(payload);
    dir.make();
    let _ = replace(&path, &bytes);
}

fn version(reader: &RangeReader, key: u64) -> [u64; 4] {
    let version = reader.version();
    [version.len, version.modified.0 as u64, version.modified.1 as u64, key]
}

/// The sidecar's path, with the key in its extension.
fn path(reader: &RangeReader, dir: &IndexDir, key: u64) -> Option<PathBuf> {
    Some(dir.path(reader.path())?.with_extension(format!("gmrows-{key:016x}")))
}
