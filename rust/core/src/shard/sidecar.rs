//! Sidecars: what is known of a shard's record batches, in its index file, so that headers are read once.
//!
//! The section is the id of the shard's [`Format`](super::format::Format), and what that format writes.

use super::{
    format::{FORMATS, FormatReader},
    index_file::{IndexDir, IndexFile, IndexReader, IndexWriter, MAX_BYTES, Section},
};
use crate::store::RangeReader;

/// A shard's metadata from its sidecar; `None` where it has none that is valid.
pub(super) fn load(reader: &RangeReader, dir: &IndexDir) -> Option<Box<dyn FormatReader>> {
    let file = IndexFile::of_shard(reader, dir)?;
    let section = file.read(Section::BATCHES, MAX_BYTES)?;
    let mut saved = IndexReader::new(section.whole()?);
    let id = saved.number()?;
    let format = FORMATS.iter().find(|format| format.id == id)?;
    let contents = (format.restore)(&mut saved, reader.len())?;
    saved.is_empty().then_some(contents)
}

/// Writes the sidecar of a shard whose metadata has just been read. Returns whether it has one now.
///
/// Errors (a read-only folder, a full disk) are ignored: the next opening reads the metadata again.
pub(super) fn save(reader: &RangeReader, dir: &IndexDir, contents: &dyn FormatReader) -> bool {
    let Some(file) = IndexFile::of_shard(reader, dir) else { return false };
    let mut out = IndexWriter::default();
    out.number(contents.format().id);
    contents.save(&mut out);
    out.len() as u64 <= MAX_BYTES && file.write(Section::BATCHES, out.as_bytes())
}
