//! Shards: metadata, columns, and the bytes of rows.

use std::{cell::OnceCell, fs, io::Cursor, panic::AssertUnwindSafe, path::PathBuf, sync::Arc};

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchReader, cast::AsArray};
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::ArrowError;
use arrow_select::concat::concat_batches;
use bytes::Bytes;
use gristmill_core::{
    Error, ErrorKind,
    shard::{Blob, IndexDir, Projection, Shard, Table},
    store::{DescriptorCache, Store},
};

use parquet::arrow::arrow_reader::ParquetRecordBatchReader;

use crate::{Outcome, Verdict, ensure};

/// The most bytes of a table of Parquet.
const MAX_TABLE: usize = 32 << 20;

/// A shard is read, or refused with an error that names it. Rows that are read one by one equal those
/// of the column.
pub fn shard(data: &[u8]) -> Verdict {
    read(data, usize::MAX)
        .map(|batches| if batches.is_some() { Outcome::Data } else { Outcome::Refused })
}

/// As [`shard`], and what arrow-ipc's own reader reads has the same rows here. For valid files only:
/// that reader accepts more damaged ones.
pub fn shard_as_arrow(data: &[u8]) -> Verdict {
    let found = read(data, usize::MAX)?;
    let Ok(expected) = std::panic::catch_unwind(AssertUnwindSafe(|| arrow(data))) else {
        return Ok(Outcome::Refused);
    };
    match (found, expected) {
        (Some(found), Ok(expected)) => {
            ensure!(found.len() == expected.len(), "{} record batches", found.len());
            for (number, (found, expected)) in found.iter().zip(&expected).enumerate() {
                ensure!(found.columns() == expected.columns(), "record batch {number} differs");
            }
            Ok(Outcome::Data)
        }
        (Some(_), Err(_)) => Ok(Outcome::Data),
        (None, _) => Ok(Outcome::Refused),
    }
}

/// As [`shard`], of Parquet: pages of a few bytes may claim gigabytes, so a table has a limit.
pub fn parquet(data: &[u8]) -> Verdict {
    read(data, MAX_TABLE)
        .map(|batches| if batches.is_some() { Outcome::Data } else { Outcome::Refused })
}

/// As [`parquet`], and what the crate's own reader reads has the same rows here. For valid files only.
pub fn parquet_as_arrow(data: &[u8]) -> Verdict {
    let found = read(data, MAX_TABLE)?;
    let expected = std::panic::catch_unwind(AssertUnwindSafe(|| {
        let reader = ParquetRecordBatchReader::try_new(Bytes::copy_from_slice(data), 1000)?;
        let schema = reader.schema();
        let batches = reader.collect::<Result<Vec<_>, _>>()?;
        concat_batches(&schema, &batches)
    }));
    let (Some(found), Ok(Ok(expected))) = (found, expected) else { return Ok(Outcome::Refused) };
    let found = concat_batches(&expected.schema(), &found).map_err(|e| e.to_string())?;
    ensure!(found.columns() == expected.columns(), "the rows differ");
    Ok(Outcome::Data)
}

fn arrow(data: &[u8]) -> Result<Vec<RecordBatch>, ArrowError> {
    if data.starts_with(b"ARROW1") {
        FileReader::try_new(Cursor::new(data), None)?.collect()
    } else {
        StreamReader::try_new(Cursor::new(data), None)?.collect()
    }
}

/// All record batches; `None` where the bytes were refused.
fn read(data: &[u8], limit: usize) -> Result<Option<Vec<RecordBatch>>, String> {
    let path = write(data);
    let store = Arc::new(Store::new(&DescriptorCache::new(1)));
    let shard = match Shard::open(&store, &IndexDir::Nowhere, &path) {
        Ok(shard) => shard,
        Err(error) => return names_shard(&error).map(|()| None),
    };
    check_rows(&shard)?;
    let schema = Arc::clone(shard.schema());
    let is_blob =
        |name: &&String| Projection::new(&schema, None, std::slice::from_ref(*name)).is_ok();
    let blobs: Vec<_> = schema.fields().iter().map(|f| f.name()).filter(is_blob).cloned().collect();
    let whole = Projection::new(&schema, None, &[]).map_err(|e| e.to_string())?;
    let rowwise = Projection::new(&schema, None, &blobs).map_err(|e| e.to_string())?;
    let mut batches = Some(Vec::new());
    for batch in 0..shard.n_batches() {
        let table_of = |projection: &Projection| match shard.load_table_within(
            batch,
            projection,
            limit,
            &|_| (),
        ) {
            Ok(table) => Ok(Some(table)),
            Err(error) => names_shard(&error).map(|()| None),
        };
        let (table, by_row) = (table_of(&whole)?, table_of(&rowwise)?);
        let columns = table.as_ref().map(|table| &table.columns);
        if let Some(by_row) = &by_row {
            check_blobs(&shard, by_row, columns, &blobs)?;
        }
        check_slices(&shard, batch, &whole, table.as_ref(), limit)?;
        check_slices(&shard, batch, &rowwise, by_row.as_ref(), limit)?;
        if let Some(columns) = columns {
            crate::columns::check(columns)?;
        }
        if let (Some(batches), Some(table)) = (&mut batches, table) {
            batches.push(table.columns);
        } else {
            batches = None;
        }
    }
    Ok(batches)
}

/// A new file with these bytes, at the same path for each thread.
fn write(data: &[u8]) -> PathBuf {
    thread_local! {
        static FOLDER: OnceCell<tempfile::TempDir> = const { OnceCell::new() };
    }
    let path = FOLDER.with(|folder| {
        folder.get_or_init(|| tempfile::tempdir().expect("a folder")).path().join("shard.arrow")
    });
    // Not overwritten in place, which makes some file systems flush it.
    let _ = fs::remove_file(&path);
    fs::write(&path, data).expect("room for a shard");
    path
}

/// Record batches have all rows, in order.
fn check_rows(shard: &Shard) -> Result<(), String> {
    let n = shard.n_rows();
    ensure!(shard.locate(n).is_none(), "a row behind {n}");
    let Some(last) = n.checked_sub(1) else { return Ok(()) };
    ensure!(shard.locate(0).is_some_and(|(_, row)| row == 0), "row 0 is {:?}", shard.locate(0));
    let (batch, row) = shard.locate(last).ok_or("the last row is nowhere")?;
    ensure!(batch < shard.n_batches(), "row {last} in record batch {batch}");
    ensure!(row as u64 <= last, "row {last} is row {row} of record batch {batch}");
    Ok(())
}

/// The first rows alone, against the table of the record batch.
fn check_slices(
    shard: &Shard,
    batch: usize,
    projection: &Projection,
    table: Option<&Table>,
    limit: usize,
) -> Result<(), String> {
    for row in 0..8 {
        match (shard.load_slice(batch, &(row..row + 1), projection, limit), table) {
            (Ok(Some(slice)), Some(table)) => {
                ensure!(row < table.n_rows(), "row {row} of {}", table.n_rows());
                let expected = table.columns.slice(row, 1);
                ensure!(slice.columns.columns() == expected.columns(), "row {row} alone differs");
                for blob in 0..projection.n_blobs() {
                    let (found, expected) = (slice.blob(blob, 0), table.blob(blob, row));
                    ensure!(found == expected, "row {row}: blob {found:?}, not {expected:?}");
                }
            }
            (Ok(_), _) => {}
            (Err(error), _) => names_shard(&error)?,
        }
    }
    Ok(())
}

/// The first rows of each blob column, against the column.
fn check_blobs(
    shard: &Shard,
    table: &Table,
    columns: Option<&RecordBatch>,
    blobs: &[String],
) -> Result<(), String> {
    let n_rows = table.n_rows();
    for (blob, name) in blobs.iter().enumerate() {
        ensure!(table.blob(blob, n_rows).is_none(), "{name} has a row behind {n_rows}");
        let column = columns.and_then(|batch| batch.column_by_name(name));
        for row in 0..n_rows.min(50) {
            let found = match table.blob(blob, row) {
                None => None,
                Some(Blob::Bytes(buffer)) => Some(buffer.to_vec()),
                Some(Blob::Range(range)) => {
                    let mut bytes = vec![0; (range.end - range.start) as usize];
                    let read = shard.read_blob(&range, &mut bytes);
                    read.map_err(|e| format!("{name}, {row}: {e}"))?;
                    Some(bytes)
                }
            };
            if let Some(column) = column {
                let expected = value(column, row);
                ensure!(found == expected, "{name}, row {row}: {found:?} is not {expected:?}");
            }
        }
    }
    Ok(())
}

/// The bytes of one row of the decoded column.
fn value(column: &ArrayRef, row: usize) -> Option<Vec<u8>> {
    let mut column = column;
    if let Some(parent) = column.as_struct_opt() {
        if parent.is_null(row) {
            return None;
        }
        column = parent.column_by_name("bytes")?;
    }
    if column.is_null(row) {
        return None;
    }
    if let Some(dictionary) = column.as_any_dictionary_opt() {
        let key = *dictionary.normalized_keys().get(row)?;
        return value(dictionary.values(), key);
    }
    if let Some(array) = column.as_binary_view_opt() {
        return Some(array.value(row).to_vec());
    }
    match column.as_binary_opt::<i64>() {
        Some(array) => Some(array.value(row).to_vec()),
        None => column.as_binary_opt::<i32>().map(|array| array.value(row).to_vec()),
    }
}

/// The error must be of a kind that bytes can cause.
pub(crate) fn is_typed(error: &Error) -> Result<(), String> {
    let kind = error.kind();
    let is_typed =
        matches!(kind, ErrorKind::Corrupt(_) | ErrorKind::Schema { .. } | ErrorKind::Limit(_));
    ensure!(is_typed, "an error that no bytes can cause: {error:?}");
    Ok(())
}

/// The same, and the error must name the shard.
fn names_shard(error: &Error) -> Result<(), String> {
    is_typed(error)?;
    ensure!(error.at().shard.is_some(), "an error of no shard: {error:?}");
    Ok(())
}
