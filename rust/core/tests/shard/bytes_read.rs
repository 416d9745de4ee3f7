//! Requests and bytes of opening a shard, and of reading a table and a row.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BinaryArray, Int64Array, RecordBatch, StringArray, StructArray,
    builder::{BinaryBuilder, Float32Builder, ListBuilder},
};
use arrow_schema::{DataType, Field};
use gristmill_core::shard::{Blob, Projection};

use crate::common::{Fixture, Written, assert_reads_as, names};

const ROWS: usize = 20;
const ROW_BYTES: usize = 100_000;

/// `audio: struct<bytes, path>`, a label and a name, as `datasets` writes them.
fn audio_batch(seed: usize) -> RecordBatch {
    let mut bytes = BinaryBuilder::new();
    for row in 0..ROWS {
        bytes.append_value(vec![(seed + row) as u8; ROW_BYTES + row]);
    }
    let path: StringArray = (0..ROWS).map(|row| Some(format!("{seed}/{row}.ogg"))).collect();
    let audio = StructArray::from(vec![
        (
            Arc::new(Field::new("bytes", DataType::Binary, true)),
            Arc::new(bytes.finish()) as ArrayRef,
        ),
        (Arc::new(Field::new("path", DataType::Utf8, true)), Arc::new(path) as ArrayRef),
    ]);
    let label: Int64Array = (0..ROWS as i64).map(Some).collect();
    let name: StringArray = (0..ROWS).map(|row| (row % 3 > 0).then(|| format!("n{row}"))).collect();
    RecordBatch::try_from_iter([
        ("audio", Arc::new(audio) as ArrayRef),
        ("label", Arc::new(label)),
        ("name", Arc::new(name)),
    ])
    .unwrap()
}

#[test]
fn opening_and_one_row_read_little() {
    for written in [Written::STREAM, Written::FILE] {
        let batches: Vec<_> = (0..4).map(audio_batch).collect();
        let bytes = written.bytes(&batches);
        let fixture = Fixture::new(&bytes);
        let reads = || fixture.store.reads();
        let shard = fixture.open().unwrap();
        let (requests, read) = reads();
        println!("{written:?}: {} bytes; open: {requests} requests, {read} bytes", bytes.len());
        assert!(requests <= 8, "{requests} requests to open");
        assert!(read <= 8 * 4096, "{read} bytes to open");

        let projection =
            Projection::without_siblings(shard.schema(), None, &names(&["audio"])).unwrap();
        let table = shard.load_table(2, &projection).unwrap();
        let (now, bytes) = reads();
        let (requests, read) = (now - requests, bytes - read);
        println!("  table: {requests} requests, {read} bytes, {} in memory", table.n_bytes);
        assert!(requests <= 2, "{requests} requests for a table");
        assert!(read <= 8192, "{read} bytes for a table");

        let (requests, read) = reads();
        let Some(Blob::Range(range)) = table.blob(0, 7) else { panic!("no range") };
        let mut row = vec![0; (range.end - range.start) as usize];
        shard.read_blob(&range, &mut row).unwrap();
        assert_eq!(row, vec![9; ROW_BYTES + 7]);
        assert_eq!(reads(), (requests + 1, read + row.len() as u64));
    }
}

/// Lists of lists of different lengths, with nulls, and a number beside them.
fn nested_batch() -> RecordBatch {
    let mut lists = ListBuilder::new(ListBuilder::new(Float32Builder::new()));
    for row in 0..ROWS {
        for inner in 0..row % 4 {
            for value in 0..100 * inner {
                lists.values().values().append_option((value % 7 > 0).then_some(value as f32));
            }
            lists.values().append(inner != 2);
        }
        lists.append(row % 5 > 0);
    }
    let number: Int64Array = (0..ROWS as i64).map(|row| (row % 3 > 0).then_some(row)).collect();
    RecordBatch::try_from_iter([
        ("lists", Arc::new(lists.finish()) as ArrayRef),
        ("number", Arc::new(number)),
    ])
    .unwrap()
}

#[test]
fn a_slice_reads_its_own_rows() {
    let batch = nested_batch();
    for written in Written::all() {
        let fixture = Fixture::new(&written.bytes(&[batch.clone(), batch.clone()]));
        let shard = fixture.open().unwrap();
        let projection = Projection::new(shard.schema(), None, &[]).unwrap();
        for row in 0..ROWS {
            let (requests, read) = fixture.store.reads();
            let rows = row..row + 1;
            let slice = shard.load_slice(1, &rows, &projection, usize::MAX).unwrap();
            assert_eq!(slice.is_some(), written.compression.is_none(), "{written:?}");
            let Some(slice) = slice else { break };
            assert_eq!(slice.columns.columns(), batch.slice(row, 1).columns(), "row {row}");
            let (now, bytes) = fixture.store.reads();
            println!("row {row}: {} requests, {} bytes", now - requests, bytes - read);
            // One request for each level of offsets, and one for the items and their validity.
            assert!(now - requests <= 6, "{} requests", now - requests);
        }
    }
}

#[test]
fn audio_structs_read_the_same_however_they_are_written() {
    let batches = [audio_batch(1), audio_batch(2)];
    for written in Written::all() {
        let fixture = Fixture::new(&written.bytes(&batches));
        let shard = fixture.open().unwrap();
        assert_reads_as(&shard, &batches, &names(&["audio"]));
        let table = |projection| shard.load_table(1, &projection).unwrap();
        let schema = shard.schema();
        let audio = names(&["audio"]);

        let with = table(Projection::new(schema, None, &audio).unwrap());
        let kept: &StructArray = with.columns.column(0).as_any().downcast_ref().unwrap();
        assert_eq!(kept.column_names(), ["path"]);
        let wanted = names(&["name", "audio", "label"]);
        let without = Projection::without_siblings(schema, Some(&wanted), &audio).unwrap();
        assert_eq!(without.small_schema().fields().len(), 2);
        let without = table(without);
        assert_eq!(without.columns.column(0), batches[1].column(2));
        assert_eq!(without.columns.column(1), batches[1].column(1));

        let only = table(Projection::new(schema, Some(&[]), &audio).unwrap());
        assert_eq!((only.columns.num_columns(), only.n_rows()), (0, ROWS));
        assert!(only.blob(0, 0).is_some());
    }
}

#[test]
fn rows_are_found_across_empty_record_batches() {
    let column = |n: usize| {
        let bytes: BinaryArray = (0..n).map(|i| Some(vec![i as u8])).collect();
        RecordBatch::try_from_iter([("b", Arc::new(bytes) as ArrayRef)]).unwrap()
    };
    let batches: Vec<_> = [0, 3, 0, 0, 2, 0].into_iter().map(column).collect();
    for written in Written::all() {
        let fixture = Fixture::new(&written.bytes(&batches));
        let shard = fixture.open().unwrap();
        assert_reads_as(&shard, &batches, &names(&["b"]));
        let found: Vec<_> = (0..6).map(|row| shard.locate(row)).collect();
        let expected = [(1, 0), (1, 1), (1, 2), (4, 0), (4, 1)].map(Some);
        assert_eq!(found[..5], expected);
        assert_eq!(found[5], None);
    }
}

#[test]
fn projections_name_what_does_not_fit() {
    let schema = audio_batch(0).schema();
    let wanted = names(&["label", "lable"]);
    let error = Projection::new(&schema, Some(&wanted), &[]).unwrap_err();
    let message = "column 'lable': there is no such column; there are: audio, label, name";
    assert_eq!(error.to_string(), message);
    let error = Projection::new(&schema, None, &names(&["label"])).unwrap_err();
    assert!(error.to_string().contains("this is Int64"), "{error}");
}
