//! Damaged and hostile bytes: data or a typed error, and never a panic.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BinaryArray, DictionaryArray, Int32Array, ListArray, RecordBatch, StringArray,
    types::{Int8Type, Int32Type},
};
use gristmill_core::{Error, ErrorKind, Result, shard::Projection};

use crate::common::{Fixture, Written, blob_bytes, corpus, files_below, names};

/// Opens a shard and reads all of it, rows included.
fn read_all(bytes: &[u8]) -> Result<u64> {
    read_again(&Fixture::new(bytes), bytes)
}

/// The same in an existing file, for loops over many.
fn read_again(fixture: &Fixture, bytes: &[u8]) -> Result<u64> {
    // Not overwritten in place, which makes some file systems flush it.
    std::fs::remove_file(&fixture.path).unwrap();
    std::fs::write(&fixture.path, bytes).unwrap();
    let shard = fixture.open()?;
    let fields = shard.schema().fields();
    let is_blob = |name: &String| Projection::new(shard.schema(), None, &names(&[name])).is_ok();
    let blobs: Vec<_> = fields.iter().map(|f| f.name().clone()).filter(is_blob).collect();
    for blobs in [blobs, vec![]] {
        let Ok(projection) = Projection::new(shard.schema(), None, &blobs) else { continue };
        for batch in 0..shard.n_batches() {
            for row in 0..8 {
                // Damage of other rows is not seen, so that this may be data where the whole is not.
                if let Err(error) = shard.load_slice(batch, &(row..row + 1), &projection, 1 << 28) {
                    assert_typed(&error);
                }
            }
            let table = shard.load_table(batch, &projection)?;
            for blob in 0..blobs.len() {
                (0..table.n_rows().min(100))
                    .for_each(|row| drop(blob_bytes(&shard, &table, blob, row)));
            }
        }
    }
    Ok(shard.n_rows())
}

/// The error must be of a kind that a damaged shard can cause, and name the shard.
fn assert_typed(error: &Error) {
    let typed = matches!(
        error.kind(),
        ErrorKind::Corrupt(_) | ErrorKind::Schema { .. } | ErrorKind::Limit(_)
    );
    assert!(typed, "{error:?}");
    assert!(error.at().shard.is_some(), "{error:?}");
}

#[test]
fn the_fuzz_corpus_ends_in_data_or_typed_errors() {
    let Some(folder) = corpus("ipc-fuzz") else { return };
    for path in files_below(&folder) {
        match read_all(&std::fs::read(&path).unwrap()) {
            Ok(rows) => println!("{}: {rows} rows", path.display()),
            Err(error) => {
                println!("{}: {error}", path.file_name().unwrap().display());
                assert_typed(&error);
            }
        }
    }
}

fn sample() -> RecordBatch {
    let keys: DictionaryArray<Int8Type> = ["a", "b", "a", "c", "b"].into_iter().collect();
    let values = [Some(&b"one"[..]), None, Some(b""), Some(b"four"), Some(b"five")];
    RecordBatch::try_from_iter([
        ("i", Arc::new(Int32Array::from(vec![1, 2, 3, 4, 5])) as ArrayRef),
        ("s", Arc::new(StringArray::from(vec!["x", "yy", "", "zzz", "w"]))),
        ("b", Arc::new(BinaryArray::from_opt_vec(values.to_vec()))),
        ("d", Arc::new(keys)),
    ])
    .unwrap()
}

#[test]
fn every_truncation_is_named_or_ends_between_messages() {
    for written in [Written::STREAM, Written::FILE] {
        let bytes = written.bytes(&[sample(), sample()]);
        assert_eq!(read_all(&bytes).unwrap(), 10);
        let mut n_whole = 0;
        let fixture = Fixture::new(&bytes);
        for len in 0..bytes.len() {
            match read_again(&fixture, &bytes[..len]) {
                Ok(_) => n_whole += 1,
                Err(error) => {
                    assert_typed(&error);
                    assert!(error.at().byte.is_some(), "{error:?}");
                }
            }
        }
        // A stream may end after the schema, each dictionary and each record batch, and inside the end
        // marker.
        assert!(if written.file { n_whole == 0 } else { n_whole <= 8 }, "{n_whole}");
    }
}

#[test]
fn every_changed_byte_ends_in_data_or_a_typed_error() {
    for written in Written::all() {
        let bytes = written.bytes(&[sample()]);
        let fixture = Fixture::new(&bytes);
        for at in 0..bytes.len() {
            for flip in [0xFF, 0x01] {
                let mut bytes = bytes.clone();
                bytes[at] ^= flip;
                if let Err(error) = read_again(&fixture, &bytes) {
                    assert_typed(&error);
                }
            }
        }
    }
}

#[test]
fn other_formats_are_named() {
    for (bytes, expected) in [
        (&b""[..], "empty"),
        (b"ARROW1", "without a schema"),
        (b"ARROW1\0\0", "without a schema"),
        (b"PAR1 and more", "Parquet"),
        (b"RIFF....WAVE", "RIFF"),
        (b"hello, world, this is text", "not an Arrow IPC"),
        (b"\xFF\xFF\xFF\xFF\0\0\0\0", "without a schema"),
        (b"\xFF\xFF\xFF\xFF\x10\0\0\0", "truncated"),
    ] {
        let error = read_all(bytes).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Corrupt(_)), "{error:?}");
        assert!(error.to_string().contains(expected), "{expected}: {error}");
    }
}

/// The start of each message of a stream, its metadata, and the end of its body.
fn messages(stream: &[u8]) -> Vec<(usize, std::ops::Range<usize>, usize)> {
    let (mut found, mut at) = (Vec::new(), 0);
    loop {
        let len = u32::from_le_bytes(stream[at + 4..at + 8].try_into().unwrap()) as usize;
        if len == 0 {
            return found;
        }
        let metadata = at + 8..at + 8 + len;
        let message = arrow_ipc::root_as_message(&stream[metadata.clone()]).unwrap();
        let end = metadata.end + message.bodyLength() as usize;
        found.push((at, metadata, end));
        at = end;
    }
}

#[test]
fn messages_out_of_order_are_refused() {
    let stream = Written::STREAM.bytes(&[sample()]);
    let messages = messages(&stream);
    let part = |i: usize| &stream[messages[i].0..messages[i].2];
    let (schema, dictionary, batch) = (part(0), part(1), part(2));
    let error = read_all(&[dictionary, schema, batch].concat()).unwrap_err();
    assert!(error.to_string().contains("where the schema belongs"), "{error}");
    let error = read_all(&[schema, dictionary, batch, schema].concat()).unwrap_err();
    assert!(error.to_string().contains("a second schema"), "{error}");
    assert_eq!(error.at().message, Some(3));
    // The keys of a column without its dictionary are invalid.
    let error = read_all(&[schema, batch].concat()).unwrap_err();
    assert_typed(&error);
    // A dictionary holds for later record batches only.
    assert_typed(&read_all(&[schema, batch, dictionary].concat()).unwrap_err());
    assert_eq!(read_all(&[schema, dictionary, batch, dictionary, batch].concat()).unwrap(), 10);
}

#[test]
fn big_endian_is_refused_by_name() {
    let stream = Written::STREAM.bytes(&[sample()]);
    let mut fbb = flatbuffers::FlatBufferBuilder::new();
    let fields = fbb.create_vector::<flatbuffers::WIPOffset<arrow_ipc::Field<'_>>>(&[]);
    let mut schema = arrow_ipc::SchemaBuilder::new(&mut fbb);
    schema.add_endianness(arrow_ipc::Endianness::Big);
    schema.add_fields(fields);
    let schema = schema.finish().as_union_value();
    let bytes = with_message(fbb, arrow_ipc::MessageHeader::Schema, schema);
    let error = read_all(&[&bytes[..], &stream].concat()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Schema { .. }));
    assert!(error.to_string().contains("big-endian"), "{error}");
}

fn with_message(
    mut fbb: flatbuffers::FlatBufferBuilder<'_>,
    kind: arrow_ipc::MessageHeader,
    header: flatbuffers::WIPOffset<flatbuffers::UnionWIPOffset>,
) -> Vec<u8> {
    let mut message = arrow_ipc::MessageBuilder::new(&mut fbb);
    message.add_version(arrow_ipc::MetadataVersion::V5);
    message.add_header_type(kind);
    message.add_header(header);
    let message = message.finish();
    fbb.finish(message, None);
    let mut metadata = fbb.finished_data().to_vec();
    metadata.resize(metadata.len().next_multiple_of(8), 0);
    let mut bytes = vec![0xFF; 4];
    bytes.extend_from_slice(&(metadata.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&metadata);
    bytes
}

#[test]
fn tensors_are_refused_by_name() {
    let stream = Written::STREAM.bytes(&[sample()]);
    let (start, ..) = messages(&stream)[1];
    let mut fbb = flatbuffers::FlatBufferBuilder::new();
    let int = arrow_ipc::IntBuilder::new(&mut fbb).finish();
    let shape = fbb.create_vector::<flatbuffers::WIPOffset<arrow_ipc::TensorDim<'_>>>(&[]);
    let mut tensor = arrow_ipc::TensorBuilder::new(&mut fbb);
    tensor.add_type_type(arrow_ipc::Type::Int);
    tensor.add_type_(int.as_union_value());
    tensor.add_shape(shape);
    tensor.add_data(&arrow_ipc::Buffer::new(0, 0));
    let tensor = tensor.finish().as_union_value();
    let bytes = with_message(fbb, arrow_ipc::MessageHeader::Tensor, tensor);
    let error = read_all(&[&stream[..start], &bytes].concat()).unwrap_err();
    assert!(error.to_string().contains("Tensor"), "{error}");
    assert_eq!(error.at().message, Some(1));
}

#[test]
fn a_thousand_levels_of_nesting_are_refused() {
    use arrow_schema::{DataType, Field, Schema};
    for (depth, readable) in [(60, true), (70, false), (1000, false)] {
        let list = |inner, _| DataType::List(Arc::new(Field::new("item", inner, true)));
        let nested = (0..depth).fold(DataType::Int8, list);
        let schema = Arc::new(Schema::new(vec![Field::new("deep", nested, true)]));
        let bytes = Written::STREAM.bytes(&[RecordBatch::new_empty(schema)]);
        match read_all(&bytes) {
            Ok(rows) => assert!(readable && rows == 0),
            Err(error) => {
                assert!(!readable, "{error}");
                assert!(matches!(error.kind(), ErrorKind::Limit(_)), "{error:?}");
            }
        }
    }
}

/// Replaces an 8-byte number in the metadata of the last message.
fn falsify(stream: &[u8], honest: i64, claim: i64) -> Vec<u8> {
    let (_, metadata, _) = messages(stream).pop().unwrap();
    let mut bytes = stream.to_vec();
    let (honest, claim) = (honest.to_le_bytes(), claim.to_le_bytes());
    let mut n_replaced = 0;
    for at in metadata.clone().step_by(4) {
        if at + 8 <= metadata.end && bytes[at..at + 8] == honest {
            bytes[at..at + 8].copy_from_slice(&claim);
            n_replaced += 1;
        }
    }
    assert!(n_replaced > 0);
    bytes
}

#[test]
fn false_counts_are_refused() {
    let values: BinaryArray = (0..1357).map(|i| Some(vec![0; i % 3])).collect();
    let batch = RecordBatch::try_from_iter([("b", Arc::new(values) as ArrayRef)]).unwrap();
    let stream = Written::STREAM.bytes(&[batch]);
    for claim in [1 << 60, i64::MAX, -1, 1 << 33, 1358 * 4, 2000] {
        let error = read_all(&falsify(&stream, 1357, claim)).unwrap_err();
        assert_typed(&error);
        assert_eq!(error.at().message, Some(1), "{error}");
    }
}

#[test]
fn false_decompressed_lengths_are_refused() {
    for codec in [arrow_ipc::CompressionType::LZ4_FRAME, arrow_ipc::CompressionType::ZSTD] {
        let values: BinaryArray = (0..500).map(|_| Some(vec![7; 20])).collect();
        let batch = RecordBatch::try_from_iter([("b", Arc::new(values) as ArrayRef)]).unwrap();
        let stream = Written { file: false, compression: Some(codec) }.bytes(&[batch]);
        let honest = 10_000_i64.to_le_bytes();
        let at = stream.windows(8).rposition(|w| w == honest).unwrap();
        for claim in [i64::MAX, -2, 1 << 40, 9_999, 10_001, 0] {
            let mut bytes = stream.clone();
            bytes[at..at + 8].copy_from_slice(&claim.to_le_bytes());
            assert_typed(&read_all(&bytes).unwrap_err());
        }
    }
}

#[test]
fn offsets_that_decrease_or_lie_outside_are_refused() {
    let values: BinaryArray = (0..4).map(|_| Some(b"0123456789")).collect();
    let batch = RecordBatch::try_from_iter([("b", Arc::new(values) as ArrayRef)]).unwrap();
    let stream = Written::STREAM.bytes(&[batch]);
    let offsets: Vec<u8> = [0_i32, 10, 20, 30, 40].iter().flat_map(|o| o.to_le_bytes()).collect();
    let at = stream.windows(offsets.len()).position(|w| w == offsets).unwrap();
    for (which, offset) in [(1, 25), (1, -1), (4, 1000), (2, i32::MAX), (0, 11)] {
        let mut bytes = stream.clone();
        bytes[at + which * 4..at + which * 4 + 4].copy_from_slice(&i32::to_le_bytes(offset));
        let fixture = Fixture::new(&bytes);
        let shard = fixture.open().unwrap();
        for blobs in [&names(&["b"])[..], &[]] {
            let projection = Projection::new(shard.schema(), None, blobs).unwrap();
            assert_typed(&shard.load_table(0, &projection).unwrap_err());
        }
        let projection = Projection::new(shard.schema(), None, &[]).unwrap();
        let slice = |rows| shard.load_slice(0, &rows, &projection, usize::MAX);
        assert_typed(&slice(0..4).unwrap_err());
        // The rows that these offsets are of.
        let rows = [which.saturating_sub(1), which.min(3)].map(|row| slice(row..row + 1));
        assert!(rows.iter().any(Result::is_err), "offset {which} is {offset}");
        rows.into_iter().filter_map(Result::err).for_each(|error| assert_typed(&error));
    }
}

#[test]
fn slices_outside_a_record_batch_or_beyond_the_limit_are_refused() {
    let list = |n: i32| Some((0..n).map(Some).collect::<Vec<_>>());
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>((0..8).map(|_| list(1000)));
    let batch = RecordBatch::try_from_iter([("l", Arc::new(lists) as ArrayRef)]).unwrap();
    let fixture = Fixture::new(&Written::STREAM.bytes(&[batch]));
    let shard = fixture.open().unwrap();
    let projection = Projection::new(shard.schema(), None, &[]).unwrap();
    let slice = |batch, rows, limit| shard.load_slice(batch, &rows, &projection, limit);
    assert!(slice(0, 7..8, 4_100).unwrap().is_some());
    for refused in [slice(0, 7..8, 3_999), slice(0, 7..9, 9_999), slice(1, 0..1, 9_999)] {
        assert_typed(&refused.unwrap_err());
    }
}

/// All types of Arrow's writers, damaged in a few places at once.
#[test]
fn damaged_golden_files_end_in_data_or_typed_errors() {
    let Some(folder) = corpus("ipc-golden") else { return };
    let rounds = std::env::var("GRISTMILL_FUZZ_ROUNDS").ok().and_then(|n| n.parse().ok());
    let rounds: u64 = rounds.unwrap_or(20);
    for path in files_below(&folder) {
        if path.extension().is_none_or(|e| e != "stream" && e != "arrow_file") {
            continue;
        }
        let whole = std::fs::read(&path).unwrap();
        let fixture = Fixture::new(&whole);
        for round in 0..rounds {
            let mut bytes = whole.clone();
            // A linear congruential generator: the same damage each time.
            let mut draw = round.wrapping_mul(2) + 1;
            for _ in 0..=round % 4 {
                draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = (draw >> 33) as usize % bytes.len();
                let value = [0, 1, 0x7F, 0x80, 0xFF, (draw >> 20) as u8][(draw >> 29) as usize % 6];
                bytes[at] = value;
            }
            if let Err(error) = read_again(&fixture, &bytes) {
                assert_typed(&error);
            }
        }
    }
}
