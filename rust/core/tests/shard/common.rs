//! Shards for tests, and the naive reader that they are compared with.

use std::{
    fs::File,
    io::BufReader,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use arrow_array::{Array, RecordBatch, cast::AsArray};
use arrow_ipc::{
    CompressionType,
    reader::{FileReader, StreamReader},
    writer::{FileWriter, IpcWriteOptions, StreamWriter},
};
use arrow_schema::ArrowError;
use gristmill_core::{
    Result,
    shard::{Blob, IndexDir, Projection, Shard, Table},
    store::Store,
};

/// A format and a compression.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    pub(crate) file: bool,
    pub(crate) compression: Option<CompressionType>,
}

impl Written {
    pub(crate) const STREAM: Self = Self { file: false, compression: None };
    pub(crate) const FILE: Self = Self { file: true, compression: None };

    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let codecs = [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)];
        let formats = [false, true];
        formats.into_iter().flat_map(move |file| {
            codecs.into_iter().map(move |compression| Self { file, compression })
        })
    }

    /// The bytes of a shard of these record batches.
    pub(crate) fn bytes(self, batches: &[RecordBatch]) -> Vec<u8> {
        let options = IpcWriteOptions::default().try_with_compression(self.compression).unwrap();
        let schema = batches[0].schema();
        let mut bytes = Vec::new();
        if self.file {
            let mut writer =
                FileWriter::try_new_with_options(&mut bytes, &schema, options).unwrap();
            for batch in batches {
                writer.write(batch).unwrap();
            }
            writer.finish().unwrap();
        } else {
            let mut writer =
                StreamWriter::try_new_with_options(&mut bytes, &schema, options).unwrap();
            for batch in batches {
                writer.write(batch).unwrap();
            }
            writer.finish().unwrap();
        }
        bytes
    }
}

/// A shard in a temporary directory.
pub(crate) struct Fixture {
    pub(crate) store: Arc<Store>,
    pub(crate) path: PathBuf,
    _dir: tempfile::TempDir,
}

impl Fixture {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("shard-0000.arrow");
        std::fs::write(&path, bytes).unwrap();
        Self { store: Arc::default(), path, _dir: dir }
    }

    pub(crate) fn open(&self) -> Result<Shard> {
        Shard::open(&self.store, &IndexDir::Nowhere, &self.path)
    }
}

/// All record batches, by arrow-ipc's own readers.
pub(crate) fn oracle(path: &Path) -> Result<Vec<RecordBatch>, ArrowError> {
    let reader = BufReader::new(File::open(path).unwrap());
    let magic = std::fs::read(path).unwrap().starts_with(b"ARROW1");
    if magic {
        FileReader::try_new(reader, None)?.collect()
    } else {
        StreamReader::try_new(reader, None)?.collect()
    }
}

pub(crate) fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// One row's bytes, wherever they are.
pub(crate) fn blob_bytes(shard: &Shard, table: &Table, blob: usize, row: usize) -> Option<Vec<u8>> {
    Some(match table.blob(blob, row)? {
        Blob::Range(range) => {
            let mut bytes = vec![0; (range.end - range.start) as usize];
            shard.read_blob(&range, &mut bytes).unwrap();
            bytes
        }
        Blob::Bytes(buffer) => buffer.to_vec(),
    })
}

/// Some slices of a record batch of this many rows.
pub(crate) fn slices_of(n_rows: usize) -> Vec<Range<usize>> {
    let all = [0..1, 0..n_rows, n_rows / 2..n_rows, n_rows / 3..n_rows / 3 + 1, 1..n_rows.min(12)];
    all.into_iter().filter(|rows| rows.start < rows.end && rows.end <= n_rows).collect()
}

/// Checks every column of every record batch, slices of them, and every blob of these columns, against
/// the oracle.
pub(crate) fn assert_reads_as(shard: &Shard, expected: &[RecordBatch], blobs: &[String]) {
    assert_eq!(shard.n_batches(), expected.len());
    assert_eq!(shard.n_rows(), expected.iter().map(|b| b.num_rows() as u64).sum::<u64>());
    let whole = Projection::new(shard.schema(), None, &[]).unwrap();
    let rowwise = Projection::new(shard.schema(), None, blobs).unwrap();
    for (number, expected) in expected.iter().enumerate() {
        let table = shard.load_table(number, &whole).unwrap();
        assert_eq!(table.columns.columns(), expected.columns());
        for (column, field) in shard.schema().fields().iter().enumerate() {
            let alone =
                Projection::new(shard.schema(), Some(&names(&[field.name()])), &[]).unwrap();
            let table = shard.load_table(number, &alone).unwrap();
            // Of two columns with the same name, the first is read.
            let first = expected.schema().index_of(field.name()).unwrap();
            assert_eq!(table.columns.column(0), expected.column(first), "column {column}");
            for rows in slices_of(expected.num_rows()) {
                let slice = shard.load_slice(number, &rows, &alone, usize::MAX).unwrap();
                if let Some(slice) = slice {
                    let expected = expected.column(first).slice(rows.start, rows.len());
                    assert_eq!(slice.columns.column(0), &expected, "column {column}, {rows:?}");
                }
            }
        }
        let table = shard.load_table(number, &rowwise).unwrap();
        assert_eq!(table.n_rows(), expected.num_rows());
        for (blob, name) in blobs.iter().enumerate() {
            for row in 0..expected.num_rows() {
                let found = blob_bytes(shard, &table, blob, row);
                assert_eq!(found, expected_blob(expected, name, row), "{name}, row {row}");
            }
            assert_eq!(table.blob(blob, expected.num_rows()), None);
        }
        for rows in slices_of(expected.num_rows()) {
            let slice = shard.load_slice(number, &rows, &rowwise, usize::MAX).unwrap();
            let Some(slice) = slice else { continue };
            assert_eq!(slice.columns, table.columns.slice(rows.start, rows.len()), "{rows:?}");
            for blob in 0..blobs.len() {
                for (at, row) in rows.clone().enumerate() {
                    assert_eq!(slice.blob(blob, at), table.blob(blob, row), "{blob}, row {row}");
                }
                assert_eq!(slice.blob(blob, rows.len()), None);
            }
        }
    }
}

fn expected_blob(batch: &RecordBatch, name: &str, row: usize) -> Option<Vec<u8>> {
    let mut column = batch.column_by_name(name).unwrap().clone();
    if let Some(parent) = column.as_struct_opt() {
        if parent.is_null(row) {
            return None;
        }
        column = parent.column_by_name("bytes").unwrap().clone();
    }
    if column.is_null(row) {
        return None;
    }
    let large = column.as_binary_opt::<i64>().map(|array| array.value(row).to_vec());
    Some(large.unwrap_or_else(|| column.as_binary::<i32>().value(row).to_vec()))
}

/// A folder of the public test data. `None`, and a message, if it does not exist.
pub(crate) fn corpus(folder: &str) -> Option<PathBuf> {
    let root = std::env::var_os("GRISTMILL_CORPUS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpora"),
        PathBuf::from,
    );
    let path = root.join(folder);
    if path.is_dir() {
        return Some(path);
    }
    eprintln!("skipped: no corpus '{folder}' here; set GRISTMILL_CORPUS to where the corpora are");
    None
}

/// All files below a folder, sorted.
pub(crate) fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(files_below(&path)) } else { files.push(path) }
    }
    files.sort();
    files
}
