//! What was worked out from columns, in a small file, so that they are read once.
//!
//! Such a file lies with the sidecars and is trusted as little: it holds all that its answer depends
//! on, and where any of that differs it is ignored.

use std::os::unix::ffi::OsStrExt;

use crate::{
    hash::fnv1a,
    shard::{IndexDir, Shard, read_derived, save_derived},
    store::identity,
};

/// The last byte is the version.
const MAGIC: &[u8; 8] = b"GMROWS\0\x01";

/// Bytes of what goes before the key: the magic, the checksum and the key's length.
const HEAD: usize = 24;

/// Answers to questions about the rows of some shards.
#[derive(Debug)]
pub(super) struct Cache<'a> {
    dir: &'a IndexDir,
    shards: &'a [Shard],
}

impl<'a> Cache<'a> {
    pub(super) fn new(dir: &'a IndexDir, shards: &'a [Shard]) -> Self {
        Self { dir, shards }
    }

    /// The answer to this question, of `n_words` words: from the file, or else from `answer`, whose
    /// answer is kept.
    ///
    /// # Errors
    ///
    /// Those of `answer`.
    pub(super) fn get<E>(
        &self,
        question: &str,
        n_words: usize,
        answer: impl FnOnce() -> Result<Vec<u64>, E>,
    ) -> Result<Vec<u64>, E> {
        let Some((key, name)) = self.key(question) else { return answer() };
        let Some((first, _)) = self.shards.first().and_then(Shard::version_key) else {
            return answer();
        };
        let most = n_words.saturating_mul(8).saturating_add(key.len() + HEAD);
        let saved = read_derived(self.dir, first, &name, most);
        let saved = saved.and_then(|bytes| decode(&bytes, &key));
        if let Some(saved) = saved.filter(|saved| saved.len() == n_words) {
            return Ok(saved);
        }
        let words = answer()?;
        save_derived(self.dir, first, &name, &encode(&key, &words));
        Ok(words)
    }

    /// All that the answer depends on, and the name of its file.
    fn key(&self, question: &str) -> Option<(Vec<u8>, String)> {
        if *self.dir == IndexDir::Nowhere {
            return None;
        }
        let mut key = format!("{}\n{question}\n", env!("CARGO_PKG_VERSION")).into_bytes();
        for shard in self.shards {
            let (shard, version) = shard.version_key()?;
            key.extend(identity(shard)?.as_os_str().as_bytes());
            key.push(0);
            key.extend(version.iter().flat_map(|word| word.to_le_bytes()));
        }
        let name = format!("rows-{:016x}.gmrows", fnv1a(&key));
        Some((key, name))
    }
}

fn encode(key: &[u8], words: &[u64]) -> Vec<u8> {
    let mut payload = (key.len() as u64).to_le_bytes().to_vec();
    payload.extend(key);
    payload.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    let mut bytes = MAGIC.to_vec();
    bytes.extend(fnv1a(&payload).to_le_bytes());
    bytes.extend(payload);
    bytes
}

fn decode(bytes: &[u8], key: &[u8]) -> Option<Vec<u64>> {
    let (sum, payload) = bytes.strip_prefix(MAGIC)?.split_first_chunk()?;
    if u64::from_le_bytes(*sum) != fnv1a(payload) {
        return None;
    }
    let (len, rest) = payload.split_first_chunk()?;
    let (saved, words) = rest.split_at_checked(u64::from_le_bytes(*len).try_into().ok()?)?;
    let (words, left) = words.as_chunks();
    let is_sound = saved == key && left.is_empty();
    is_sound.then(|| words.iter().map(|word| u64::from_le_bytes(*word)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_changed_byte_is_found() {
        let bytes = encode(b"key", &[1, u64::MAX, 3]);
        assert_eq!(decode(&bytes, b"key"), Some(vec![1, u64::MAX, 3]));
        assert_eq!(decode(&bytes, b"yek"), None);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(decode(&damaged, b"key"), None);
            assert_eq!(decode(&bytes[..at], b"key"), None);
        }
    }
}
