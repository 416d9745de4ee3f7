//! Index files: what was worked out from a shard, so that it is worked out once.
//!
//! A shard has one: where its record batches are, numbers for each row, and what is known of its recordings.
//! What was worked out from several shards is in a file of its own.
//!
//! An index file is never needed and never trusted. One that is missing, damaged, of another version of
//! the format or of the shard is ignored, and one that cannot be written is not written. Processes
//! may read and write the same one at the same time: it is written under another name and then
//! renamed, so that a reader finds the old one or the new one, whole. Of two that write at once, one may
//! lose what the other wrote, which is then worked out again.
//!
//! The bytes, version 2: a prefix of eight bytes that names the format and its version; a block
//! ([`blocks`]) with the head; then the sections, one behind the other, each of one block or several. In
//! the head are the key, which says what the file belongs to, and for each section its kind, what of that
//! kind it is, the version of its contents, and its length in bytes. A reader reads the head and its own
//! section. [`coding`] says how numbers and bytes are written.
//!
//! All blocks have checksums. What passes them is checked like the shard's own bytes.

pub(in crate::shard) mod blocks;
mod coding;
mod dir;
mod head;
mod replace;
mod varint;

use std::{
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom, Write},
    ops::Range,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

pub(in crate::shard) use self::coding::{IndexReader, IndexWriter};
pub use self::dir::IndexDir;
pub(crate) use self::head::Section;
use self::head::{Entry, MAX_SECTIONS};
use crate::store::RangeReader;

/// The largest section of record batches or recordings. The record batches of a shard with 100,000
/// messages take a twentieth of that.
pub(super) const MAX_BYTES: u64 = 64 << 20;

/// The most bytes of a number.
const MAX_NUMBER: u64 = 10;

/// An index file, which need not exist.
#[derive(Debug)]
pub(crate) struct IndexFile<'a> {
    dir: &'a IndexDir,
    path: PathBuf,
    /// Names the file's subject and its version. A file with another key is ignored.
    key: Vec<u8>,
}

impl<'a> IndexFile<'a> {
    /// That of a shard; `None` where it can have none.
    pub(super) fn of_shard(reader: &RangeReader, dir: &'a IndexDir) -> Option<Self> {
        if !reader.may_be_kept() {
            return None;
        }
        let path = dir.path(reader.path())?;
        let version = reader.version();
        let mut key = IndexWriter::default();
        key.bytes(dir.shard_path(reader.path())?.as_os_str().as_bytes());
        key.words(&[version.len, version.modified.0 as u64, version.modified.1 as u64]);
        Some(Self { dir, path, key: key.into_bytes() })
    }

    /// One of this name for what was worked out from several shards, of which this is the first. The key
    /// is to have all that it depends on.
    pub(crate) fn of_shards(
        dir: &'a IndexDir,
        first: &Path,
        name: &str,
        key: Vec<u8>,
    ) -> Option<Self> {
        Some(Self { dir, path: dir.derived_path(first, name)?, key })
    }

    /// A section of at most so many bytes; `None` where there is none.
    pub(super) fn read(&self, section: Section, most: u64) -> Option<SectionBytes> {
        let mut opened = self.open()?;
        let range = opened.sections().find(|(entry, _)| entry.section == section)?.1;
        if range.end - range.start > most.saturating_add(blocks::HEAD as u64) {
            return None;
        }
        opened.bytes(range).map(SectionBytes)
    }

    /// A section of so many words.
    pub(crate) fn read_words(&self, section: Section, n_words: u64) -> Option<Vec<u64>> {
        let section = self.read(section, n_words.saturating_mul(8).saturating_add(MAX_NUMBER))?;
        let mut saved = IndexReader::new(section.whole()?);
        let words = saved.words()?;
        (saved.is_empty() && words.len() as u64 == n_words).then_some(words)
    }

    /// Replaces a section by one of these words, if that is possible.
    pub(crate) fn write_words(&self, section: Section, words: &[u64]) {
        let mut out = IndexWriter::default();
        out.words(words);
        self.write(section, out.as_bytes());
    }

    /// Replaces a section by this one of one block. Returns whether that was possible.
    pub(super) fn write(&self, section: Section, payload: &[u8]) -> bool {
        let mut bytes = Vec::with_capacity(payload.len() + blocks::HEAD);
        blocks::write(&mut bytes, payload);
        self.write_blocks(section, &bytes)
    }

    /// Replaces a section by these blocks, and copies the others. Returns whether that was possible.
    pub(super) fn write_blocks(&self, section: Section, blocks: &[u8]) -> bool {
        self.dir.make();
        let old = self.open();
        let others = old.iter().flat_map(Opened::sections);
        let others = others.filter(|(entry, _)| !entry.section.is_same(section));
        let others =
            others.filter(|(_, range)| old.as_ref().is_some_and(|old| range.end <= old.len));
        let mut sections: Vec<_> = others.map(|(entry, range)| (entry, Some(range))).collect();
        // Of a kind, what was written last is first, and what was written first is dropped at last.
        sections.truncate(MAX_SECTIONS - 1);
        sections.insert(0, (Entry { section, len: blocks.len() as u64 }, None));
        sections.sort_by_key(|(entry, _)| entry.section.kind);
        let entries: Vec<Entry> = sections.iter().map(|(entry, _)| *entry).collect();
        let write = |file: &mut File| {
            file.write_all(&head::encode(&self.key, &entries))?;
            for (_, range) in &sections {
                match old.as_ref().zip(range.as_ref()) {
                    Some((old, range)) => old.copy(range, file)?,
                    None => file.write_all(blocks)?,
                }
            }
            Ok(())
        };
        replace::replace(&self.path, write).is_ok()
    }

    /// The file, with its head read and found to be sound.
    fn open(&self) -> Option<Opened> {
        // Before opening: a pipe in its place would wait for its writer.
        fs::metadata(&self.path).ok().filter(fs::Metadata::is_file)?;
        let file = File::open(&self.path).ok()?;
        let len = file.metadata().ok()?.len();
        let max_head = head::max_bytes(&self.key);
        let mut start = Vec::with_capacity(max_head);
        (&file).take(max_head as u64).read_to_end(&mut start).ok()?;
        let (entries, head_len) = head::decode(&start, &self.key)?;
        let opened = Opened { file, len, start, entries, head_len };
        // One that was cut may have sections left. One that is longer was not written like that.
        let end = opened.sections().last().map_or(head_len, |(_, range)| range.end);
        (end >= len).then_some(opened)
    }
}

/// An index file whose head is sound.
#[derive(Debug)]
struct Opened {
    file: File,
    len: u64,
    /// The bytes that were read for the head, with what follows it among them.
    start: Vec<u8>,
    entries: Vec<Entry>,
    head_len: u64,
}

impl Opened {
    /// The sections, and where they lie: of a file that was cut, beyond its end.
    fn sections(&self) -> impl Iterator<Item = (Entry, Range<u64>)> {
        self.entries.iter().scan(self.head_len, |start, entry| {
            let range = *start..start.checked_add(entry.len)?;
            *start = range.end;
            Some((*entry, range))
        })
    }

    /// The bytes of a range, as far as the file has them.
    fn bytes(&mut self, range: Range<u64>) -> Option<Vec<u8>> {
        let range = range.start..range.end.min(self.len);
        let in_start = usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?;
        if let Some(bytes) = self.start.get(in_start) {
            return Some(bytes.to_vec());
        }
        let len = range.end.checked_sub(range.start)?;
        self.file.seek(SeekFrom::Start(range.start)).ok()?;
        // The file is that long: no number in it sizes this.
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(usize::try_from(len).ok()?).ok()?;
        (&self.file).take(len).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    fn copy(&self, range: &Range<u64>, out: &mut File) -> io::Result<()> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(range.start))?;
        let len = range.end - range.start;
        if io::copy(&mut file.take(len), out)? < len {
            // The sections behind it would lie elsewhere than the head says.
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }
}

/// A section as it lies in the file.
#[derive(Debug)]
pub(in crate::shard) struct SectionBytes(Vec<u8>);

impl SectionBytes {
    /// The payload of a section of one block; `None` for damage.
    pub(super) fn whole(&self) -> Option<&[u8]> {
        blocks::first(&self.0).and_then(|(payload, rest)| rest.is_empty().then_some(payload))
    }

    /// The payloads of the blocks that are sound.
    pub(super) fn sound(&self) -> impl Iterator<Item = &[u8]> {
        blocks::read(&self.0)
    }
}

#[cfg(test)]
mod tests;
