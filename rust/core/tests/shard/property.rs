//! Any record batches are read as they were written, in all formats.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BinaryArray, DictionaryArray, Int32Array, LargeBinaryArray, ListArray, RecordBatch,
    StringArray, StructArray,
    types::{Int16Type, Int32Type},
};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field};
use proptest::{collection::vec, option, prelude::*};

use crate::common::{Fixture, Written, assert_reads_as, names};

/// One row of every column.
#[derive(Clone, Debug)]
struct Row {
    int: Option<i32>,
    text: Option<String>,
    list: Option<Vec<Option<i32>>>,
    audio: Option<(Option<Vec<u8>>, Option<String>)>,
    large: Option<Vec<u8>>,
    key: Option<String>,
}

fn row() -> impl Strategy<Value = Row> {
    let bytes = || option::of(vec(any::<u8>(), 0..300));
    (
        option::of(any::<i32>()),
        option::of(".{0,8}"),
        option::of(vec(option::of(any::<i32>()), 0..5)),
        option::of((bytes(), option::of("[a-z]{0,5}"))),
        bytes(),
        option::of("[ab]{0,2}"),
    )
        .prop_map(|(int, text, list, audio, large, key)| Row {
            int,
            text,
            list,
            audio,
            large,
            key,
        })
}

fn batch(rows: &[Row]) -> RecordBatch {
    let bytes: BinaryArray =
        rows.iter().map(|r| r.audio.as_ref().and_then(|a| a.0.as_ref())).collect();
    let path: StringArray =
        rows.iter().map(|r| r.audio.as_ref().and_then(|a| a.1.as_ref())).collect();
    let audio = StructArray::new(
        vec![Field::new("bytes", DataType::Binary, true), Field::new("path", DataType::Utf8, true)]
            .into(),
        vec![Arc::new(bytes), Arc::new(path)],
        Some(rows.iter().map(|r| r.audio.is_some()).collect::<NullBuffer>()),
    );
    let list =
        ListArray::from_iter_primitive::<Int32Type, _, _>(rows.iter().map(|r| r.list.clone()));
    let key: DictionaryArray<Int16Type> = rows.iter().map(|r| r.key.as_deref()).collect();
    let columns: [(&str, ArrayRef, bool); 6] = [
        ("int", Arc::new(rows.iter().map(|r| r.int).collect::<Int32Array>()), true),
        ("audio", Arc::new(audio), true),
        ("text", Arc::new(rows.iter().map(|r| r.text.as_ref()).collect::<StringArray>()), true),
        (
            "large",
            Arc::new(rows.iter().map(|r| r.large.as_ref()).collect::<LargeBinaryArray>()),
            true,
        ),
        ("list", Arc::new(list), true),
        ("key", Arc::new(key), true),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn any_record_batches_read_back(batches in vec(vec(row(), 0..20), 1..4)) {
        let batches: Vec<_> = batches.iter().map(|rows| batch(rows)).collect();
        for written in Written::all() {
            // Each record batch has a dictionary of its own, which a file cannot replace.
            let batches = if written.file { &batches[..1] } else { &batches[..] };
            let fixture = Fixture::new(&written.bytes(batches));
            let shard = fixture.open().unwrap();
            assert_reads_as(&shard, batches, &names(&["large", "audio"]));
            assert_reads_as(&shard, batches, &names(&["audio"]));
        }
    }

    #[test]
    fn any_bytes_end_in_an_error(mut bytes in vec(any::<u8>(), 0..200), arrow: bool) {
        if arrow {
            bytes.splice(0..0, *b"ARROW1\0\0");
        }
        let fixture = Fixture::new(&bytes);
        let shard = fixture.open();
        prop_assert!(shard.is_err() || shard.unwrap().n_rows() == 0);
    }
}

/// Dictionaries that are replaced and extended by deltas, with record batches read in any order.
#[test]
fn dictionaries_are_those_before_the_record_batch() {
    use arrow_ipc::writer::{DictionaryHandling, IpcWriteOptions, StreamWriter};
    let keys = |words: &[&str]| {
        let keys: DictionaryArray<Int32Type> = words.iter().copied().collect();
        RecordBatch::try_from_iter([("key", Arc::new(keys) as ArrayRef)]).unwrap()
    };
    // Grows, stays, is replaced, grows.
    let batches = [&["a", "b"][..], &["a", "b", "c"], &["a", "b", "c"], &["z"], &["z", "y", "z"]];
    let batches = batches.map(keys);
    for handling in [DictionaryHandling::Delta, DictionaryHandling::Resend] {
        let options = IpcWriteOptions::default().with_dictionary_handling(handling);
        let mut bytes = Vec::new();
        let schema = batches[0].schema();
        let mut writer = StreamWriter::try_new_with_options(&mut bytes, &schema, options).unwrap();
        for batch in &batches {
            writer.write(batch).unwrap();
        }
        writer.finish().unwrap();
        drop(writer);
        let fixture = Fixture::new(&bytes);
        let shard = fixture.open().unwrap();
        let projection = gristmill_core::shard::Projection::new(shard.schema(), None, &[]).unwrap();
        for number in [4, 0, 3, 1, 2, 4, 2, 0] {
            let table = shard.load_table(number, &projection).unwrap();
            let column = table.columns.column(0);
            let expected = batches[number].column(0);
            let values = |a: &ArrayRef| {
                let a: &DictionaryArray<Int32Type> = a.as_any().downcast_ref().unwrap();
                let typed = a.downcast_dict::<StringArray>().unwrap();
                typed.into_iter().map(|v| v.map(str::to_owned)).collect::<Vec<_>>()
            };
            assert_eq!(values(column), values(expected), "record batch {number}");
        }
    }
}

/// Unions have a validity bitmap only in metadata V4: the buffers of later columns must not shift.
#[test]
fn unions_read_in_both_versions_of_the_metadata() {
    use arrow_array::{Float64Array, UnionArray};
    use arrow_ipc::{
        MetadataVersion,
        writer::{IpcWriteOptions, StreamWriter},
    };
    use arrow_schema::UnionFields;
    let fields: UnionFields = [
        (0, Arc::new(Field::new("i", DataType::Int32, true))),
        (1, Arc::new(Field::new("f", DataType::Float64, true))),
    ]
    .into_iter()
    .collect();
    let ints: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None, Some(3)]));
    let floats: ArrayRef = Arc::new(Float64Array::from(vec![0.5, 1.5, 2.5]));
    let types = vec![0_i8, 1, 0];
    for offsets in [None, Some(vec![0, 0, 2].into())] {
        let children = vec![Arc::clone(&ints), Arc::clone(&floats)];
        let union = UnionArray::try_new(fields.clone(), types.clone().into(), offsets, children);
        let after: ArrayRef = Arc::new(BinaryArray::from_vec(vec![b"a", b"", b"ccc"]));
        let columns = [("u", Arc::new(union.unwrap()) as ArrayRef), ("after", after)];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        for version in [MetadataVersion::V4, MetadataVersion::V5] {
            let options = IpcWriteOptions::try_new(64, false, version).unwrap();
            let mut bytes = Vec::new();
            let mut writer =
                StreamWriter::try_new_with_options(&mut bytes, &batch.schema(), options).unwrap();
            writer.write(&batch).unwrap();
            writer.finish().unwrap();
            drop(writer);
            let fixture = Fixture::new(&bytes);
            let shard = fixture.open().unwrap();
            assert_reads_as(&shard, std::slice::from_ref(&batch), &names(&["after"]));
        }
    }
}
