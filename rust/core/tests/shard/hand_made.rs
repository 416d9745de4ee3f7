//! Parquet that no writer writes: pages of a few bytes that claim two thousand million values.

use gristmill_core::{
    Error, ErrorKind,
    select::{Condition, Op, RowSpec, Scalar, Selector},
    shard::{IndexDir, Projection, Shard},
};

use crate::common::Fixture;

/// The most values that a page can claim.
const N: u32 = i32::MAX as u32;

const PLAIN: u32 = 0;
const RUNS: u32 = 3;
const REFERENCES: u32 = 8;

/// A value in Thrift's compact protocol.
enum Thrift {
    I32(u32),
    I64(u64),
    Text(&'static str),
    List(Vec<Thrift>),
    /// Fields by their numbers, in rising order.
    Struct(Vec<(u8, Thrift)>),
}

use Thrift::{I32, I64, List, Struct, Text};

impl Thrift {
    fn kind(&self) -> u8 {
        match self {
            I32(_) => 5,
            I64(_) => 6,
            Text(_) => 8,
            List(_) => 9,
            Struct(_) => 12,
        }
    }

    fn bytes(&self) -> Vec<u8> {
        match self {
            I32(n) => varint(u64::from(*n) << 1),
            I64(n) => varint(n << 1),
            Text(text) => [&[text.len() as u8], text.as_bytes()].concat(),
            List(items) => {
                let mut bytes = vec![(items.len() as u8) << 4 | items[0].kind()];
                bytes.extend(items.iter().flat_map(Self::bytes));
                bytes
            }
            Struct(fields) => {
                let (mut bytes, mut last) = (Vec::new(), 0);
                for (number, value) in fields {
                    bytes.push((number - last) << 4 | value.kind());
                    bytes.extend(value.bytes());
                    last = *number;
                }
                bytes.push(0);
                bytes
            }
        }
    }
}

fn varint(mut n: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while n >= 0x80 {
        bytes.push(n as u8 | 0x80);
        n >>= 7;
    }
    bytes.push(n as u8);
    bytes
}

/// A data page, or a dictionary.
fn page(is_dictionary: bool, n: u32, encoding: u32, body: &[u8]) -> Vec<u8> {
    let mut own = vec![(1, I32(n)), (2, I32(encoding))];
    if !is_dictionary {
        own.extend([(3, I32(RUNS)), (4, I32(RUNS))]);
    }
    let (kind, field) = if is_dictionary { (2, 7) } else { (0, 5) };
    let size = || I32(body.len() as u32);
    let header = vec![(1, I32(kind)), (2, size()), (3, size()), (field, Struct(own))];
    [&*Struct(header).bytes(), body].concat()
}

/// A file of one column of binary values, called `x`, whose row group claims [`N`] rows.
fn file(may_be_null: bool, dictionary: &[u8], data: &[u8]) -> Vec<u8> {
    file_of(N.into(), may_be_null, dictionary, data)
}

/// The same of `n` rows; statistics say that all values are "b".
fn file_of(n: u64, may_be_null: bool, dictionary: &[u8], data: &[u8]) -> Vec<u8> {
    let n_bytes = || I64((dictionary.len() + data.len()) as u64);
    let mut chunk = vec![
        (1, I32(6)), // BYTE_ARRAY
        (2, List(vec![I32(if dictionary.is_empty() { PLAIN } else { REFERENCES }), I32(RUNS)])),
        (3, List(vec![Text("x")])),
        (4, I32(0)), // uncompressed
        (5, I64(n)),
        (6, n_bytes()),
        (7, n_bytes()),
        (9, I64(4 + dictionary.len() as u64)),
    ];
    if !dictionary.is_empty() {
        chunk.push((11, I64(4)));
    }
    chunk.push((12, Struct(vec![(5, Text("b")), (6, Text("b"))])));
    let column = Struct(vec![(2, I64(4)), (3, Struct(chunk))]);
    let group = vec![(1, List(vec![column])), (2, n_bytes()), (3, I64(n))];
    let root = Struct(vec![(4, Text("root")), (5, I32(1))]);
    let leaf = Struct(vec![(1, I32(6)), (3, I32(may_be_null.into())), (4, Text("x"))]);
    let footer = Struct(vec![
        (1, I32(2)),
        (2, List(vec![root, leaf])),
        (3, I64(n)),
        (4, List(vec![Struct(group)])),
        // By the order of their type: without this, bounds of bytes mean nothing.
        (7, List(vec![Struct(vec![(1, Struct(Vec::new()))])])),
    ]);
    let footer = footer.bytes();
    let len = (footer.len() as u32).to_le_bytes();
    [b"PAR1", dictionary, data, &footer, &len, b"PAR1"].concat()
}

fn open(fixture: &Fixture) -> Shard {
    let shard = fixture.open().unwrap();
    assert_eq!((shard.format(), shard.n_rows()), ("parquet", N.into()));
    shard
}

fn assert_too_much(error: &Error) {
    assert!(matches!(error.kind(), ErrorKind::Limit(_)), "{error:?}");
    assert!(error.to_string().contains("row group take up to"), "{error}");
    assert!(error.at().shard.is_some(), "{error:?}");
}

/// They are not looked at one by one, which takes a second for each such page: here that would find
/// that a reference has 33 bits.
#[test]
fn false_numbers_of_references_are_refused_before_these_are_added_up() {
    let dictionary = page(true, 1, PLAIN, &[&[8, 0, 0, 0], &b"eight by"[..]].concat());
    let fixture = Fixture::new(&file(false, &dictionary, &page(false, N, REFERENCES, &[33])));
    let shard = open(&fixture);
    let projection = Projection::new(shard.schema(), None, &[]).unwrap();
    assert_too_much(&shard.load_table(0, &projection).unwrap_err());
}

/// Where each row lies takes memory, and nulls take no bytes of the file.
#[test]
fn false_numbers_of_nulls_are_refused_before_they_are_located() {
    let run = [varint(u64::from(N) << 1), vec![0]].concat();
    let levels = [&(run.len() as u32).to_le_bytes(), &*run].concat();
    let fixture = Fixture::new(&file(true, &[], &page(false, N, PLAIN, &levels)));
    let shard = open(&fixture);
    assert_too_much(&shard.complete_sidecar().unwrap_err());
    let projection = Projection::new(shard.schema(), None, &["x".to_owned()]).unwrap();
    assert_too_much(&shard.load_table(0, &projection).unwrap_err());
}

/// Of rows that statistics leave out nothing is read, so that nothing bears their number out.
#[test]
fn rows_that_are_left_out_are_not_more_than_memory_takes() {
    let fixture = Fixture::new(&file_of(1 << 61, false, &[], &page(false, N, PLAIN, &[])));
    let shards = [fixture.open().unwrap()];
    let values = vec![Scalar::Bytes(b"a".to_vec())];
    let condition = Condition { column: "x".to_owned(), op: Op::Eq, values };
    let spec = RowSpec { filters: vec![vec![condition]], ..RowSpec::default() };
    let selector = Selector {
        shards: &shards,
        index_dir: &IndexDir::Nowhere,
        n_threads: 1,
        limit: 1 << 20,
        durations: None,
    };
    let error = selector.rows(&spec, &[]).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::OutOfMemory { .. }), "{error:?}");
    assert!(error.at().shard.is_some(), "{error:?}");
}
