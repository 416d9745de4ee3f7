//! What was worked out from columns, in an index file, so that they are read once.
//!
//! The file's key holds all that its answer depends on, and where any of that differs it is ignored.

use std::os::unix::ffi::OsStrExt;

use crate::{
    hash::fnv1a,
    shard::{IndexDir, IndexFile, Section, Shard},
    store::identity,
};

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
        let Some(file) = self.file(question) else { return answer() };
        if let Some(saved) = file.read_words(Section::ANSWER, n_words as u64) {
            return Ok(saved);
        }
        let words = answer()?;
        file.write_words(Section::ANSWER, &words);
        Ok(words)
    }

    /// Where the answer is, or can be.
    fn file(&self, question: &str) -> Option<IndexFile<'_>> {
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
        let (first, _) = self.shards.first()?.version_key()?;
        let name = format!("rows-{:016x}.gmrows", fnv1a(&key));
        IndexFile::of_shards(self.dir, first, &name, key)
    }
}
