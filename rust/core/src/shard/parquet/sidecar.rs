//! The part of a sidecar that is Parquet's own.
//!
//! * the footer, where its offset indexes begin, and their bytes;
//! * the number of columns whose values were located, and for each: the number of its run of rows, its
//!   leaf, its validity bitmap (empty without nulls), the offsets of its values in the shard, the end
//!   of the last, and the values' lengths (four bytes each).
//!
//! Footer and indexes are parsed and checked as when they were first read, and each value must lie in
//! its column chunk.

use std::sync::Arc;

use super::{
    super::{
        blob::BlobColumn,
        index_file::{IndexReader, IndexWriter},
    },
    ParquetReader,
    footer::{Footer, chunk_range},
    values,
};

pub(super) fn save(reader: &ParquetReader, out: &mut IndexWriter) {
    let footer = &reader.footer;
    out.bytes(&footer.source);
    out.numbers(&[footer.index_start]);
    out.bytes(&footer.index_source);
    let located = reader.located.all();
    out.numbers(&[located.len() as u64]);
    for ((run, leaf), column) in located {
        out.numbers(&[run as u64, leaf as u64]);
        out.bytes(&column.validity());
        out.words(column.offsets());
        let lens = column.lens().unwrap_or_default();
        out.bytes(&lens.iter().flat_map(|len| len.to_le_bytes()).collect::<Vec<_>>());
    }
}

/// Reads the metadata of a shard of `len` bytes; `None` for damage.
pub(super) fn restore(saved: &mut IndexReader<'_>, len: u64) -> Option<ParquetReader> {
    let (source, index_start, index_source) = (saved.bytes()?, saved.number()?, saved.bytes()?);
    let reader = ParquetReader::new(Footer::restore(source, index_start, index_source, len).ok()?);
    for _ in 0..saved.number()? {
        let (run, leaf) =
            (usize::try_from(saved.number()?).ok()?, usize::try_from(saved.number()?).ok()?);
        let validity = saved.bytes()?.to_vec();
        let offsets = saved.words()?;
        let lens =
            saved.bytes()?.as_chunks().0.iter().map(|len| u32::from_le_bytes(*len)).collect();
        let rows = reader.runs.get(run)?;
        let chunk = reader.footer.chunk(rows.group, leaf).ok()?;
        let n_rows = usize::try_from(rows.rows.end - rows.rows.start).ok()?;
        let data = chunk_range(chunk);
        if !values::is_readable_by_value(chunk) {
            return None;
        }
        let column =
            BlobColumn::scattered_from_sidecar(validity, offsets, lens, n_rows, &data).ok()?;
        reader.located.put((run, leaf), &Arc::new(column));
    }
    reader.located.saved();
    Some(reader)
}
