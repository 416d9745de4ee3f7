//! What `wall` times and `counts` counts: orders, shards, batches, the queue. Checked at first.

// The lints let test functions unwrap; benches are such. Each bench uses its part.
#![allow(clippy::expect_used, clippy::unwrap_used, dead_code)]

use std::{path::PathBuf, sync::Arc};

use arrow_array::{
    Array, ArrayRef, BinaryArray, Int64Array, ListArray, RecordBatch, StringArray, StructArray,
    types::Int32Type,
};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{DataType, Field, Schema};
use gristmill_core::{
    batch::{Column, Ragged, SizeLimit, Style, batch_of},
    hash::mix64,
    order::{Draws, Order, OrderSpec, Rows, Sampling, Schedule, Shuffle, Stop, Window},
    shard::{Blob, IndexDir, Projection, Shard},
    store::Store,
};
use tempfile::TempDir;

pub(crate) const BATCH: usize = 64;

/// Of the rows that are read.
pub(crate) const ROW_BYTES: usize = 10_000;

/// Positions that are looked up one after another.
pub(crate) const POSITIONS: u64 = 1000;

/// An order of 10^9 rows in 10,000 shards, and a place in its middle.
pub(crate) fn order(window: Option<Window>, shuffled: bool) -> Order {
    let shuffle = shuffled.then_some(Shuffle { seed: 1, window, reshuffle: true });
    let rows = Rows::new(&vec![100_000; 10_000], &[]).unwrap();
    let order = Order::new(rows, &OrderSpec { shuffle, ..OrderSpec::ONCE }).unwrap();
    positions(&order);
    order
}

pub(crate) fn file_order() -> Order {
    order(None, false)
}

pub(crate) fn global() -> Order {
    order(None, true)
}

pub(crate) fn windowed() -> Order {
    order(Some(Window { rows: 100_000, streams: 64 }), true)
}

/// A mixture of ten data sets of 10^8 rows in 1,000 shards each, of several weights and orders.
pub(crate) fn mixture() -> Order {
    let orders = (0..10).map(|k| {
        let window = (k % 3 == 2).then_some(Window { rows: 100_000, streams: 64 });
        let shuffle = (k % 3 > 0).then_some(Shuffle { seed: k, window, reshuffle: true });
        let rows = Rows::new(&vec![100_000; 1_000], &[]).unwrap();
        Order::new(rows, &OrderSpec { shuffle, epochs: None, ..OrderSpec::ONCE }).unwrap()
    });
    let schedule = Schedule::new(&[20, 1, 7, 13, 100, 3, 50, 2, 8, 5]).unwrap();
    let order = Order::mixed(orders.collect(), schedule, Stop::First).unwrap();
    positions(&order);
    order
}

/// Draws by weight from 10^8 rows in 1,000 shards, of which a table takes 1.2 GB.
pub(crate) fn weighted() -> Order {
    let draws = Draws { seed: 1, per_epoch: None, reshuffle: true };
    let rows = Rows::new(&vec![100_000; 1_000], &[]).unwrap();
    let weights = (0..rows.len()).map(|row| (1 + row % 1000) as f64).collect();
    let spec = OrderSpec { epochs: None, ..OrderSpec::ONCE };
    let sampling = Sampling::new(draws, weights).unwrap();
    let order = Order::sampled(rows, None, &spec, sampling).unwrap();
    positions(&order);
    order
}

/// The sum of the row numbers at [`POSITIONS`] positions.
pub(crate) fn positions(order: &Order) -> u64 {
    let start = 100_000_000;
    (start..start + POSITIONS).map(|i| order.step(i).unwrap().row.row).sum()
}

/// Rows of noise in a shard: `n_batches` record batches of 100 rows, as `datasets` writes audio.
pub(crate) struct Written {
    path: PathBuf,
    store: Arc<Store>,
    _folder: TempDir,
}

impl Written {
    pub(crate) fn audio(n_batches: usize, row_bytes: usize) -> Self {
        let bytes = BinaryArray::from_iter_values((0..100).map(|row| noise(row, row_bytes)));
        let names = StringArray::from_iter_values((0..100).map(|row| format!("{row}.ogg")));
        let audio = StructArray::try_new(
            vec![
                Field::new("bytes", DataType::Binary, true),
                Field::new("path", DataType::Utf8, true),
            ]
            .into(),
            vec![Arc::new(bytes), Arc::new(names)],
            None,
        );
        let labels = Int64Array::from_iter_values(0..100);
        let columns: [(&str, ArrayRef); 2] =
            [("audio", Arc::new(audio.unwrap())), ("label", Arc::new(labels))];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shard.arrow");
        let schema: &Schema = &batch.schema();
        let mut out = StreamWriter::try_new(std::fs::File::create(&path).unwrap(), schema).unwrap();
        for _ in 0..n_batches {
            out.write(&batch).unwrap();
        }
        out.finish().unwrap();
        Self { path, store: Arc::default(), _folder: folder }
    }

    /// Reads the headers of all record batches.
    pub(crate) fn open(&self) -> Shard {
        Shard::open(&self.store, &IndexDir::Nowhere, &self.path).unwrap()
    }
}

/// A shard of audio with 50 record batches, and room for a batch of its rows.
pub(crate) struct Reading {
    shard: Shard,
    projection: Projection,
    rows: Vec<Vec<u8>>,
    _written: Written,
}

impl Reading {
    pub(crate) fn new() -> Self {
        let written = Written::audio(50, ROW_BYTES);
        let shard = written.open();
        assert_eq!(shard.n_rows(), 5_000);
        let projection = Projection::new(shard.schema(), None, &["audio".to_owned()]).unwrap();
        let rows = vec![vec![0; ROW_BYTES]; BATCH];
        let mut reading = Self { shard, projection, rows, _written: written };
        assert_eq!(reading.read(), BATCH * ROW_BYTES);
        let wanted = (0..BATCH as u64).map(|k| noise(place(k).1, ROW_BYTES));
        assert!(reading.rows.iter().cloned().eq(wanted));
        reading
    }

    /// Reads a batch of rows from as many record batches: the table of each, and the row's bytes.
    pub(crate) fn read(&mut self) -> usize {
        let mut n_bytes = 0;
        for (k, row) in self.rows.iter_mut().enumerate() {
            let (batch, place) = place(k as u64);
            let table = self.shard.load_table(batch as usize, &self.projection).unwrap();
            let Some(Blob::Range(range)) = table.blob(0, place as usize) else {
                panic!("a row has bytes in the file")
            };
            self.shard.read_blob(&range, row).unwrap();
            n_bytes += row.len();
        }
        n_bytes
    }
}

/// The record batch, and the place in it, of the `k`-th row that is read.
fn place(k: u64) -> (u64, u64) {
    (mix64(k) % 50, mix64(k + 1000) % 100)
}

fn noise(seed: u64, n_bytes: usize) -> Vec<u8> {
    let words = (0..n_bytes.div_ceil(8) as u64).flat_map(|i| mix64(mix64(seed) + i).to_le_bytes());
    words.take(n_bytes).collect()
}

/// A column, of which the rows of a batch are to be joined.
pub(crate) struct Assembly {
    rows: Vec<(ArrayRef, usize)>,
    style: Style,
}

impl Assembly {
    fn new(column: &ArrayRef, style: Style) -> Self {
        let n_rows = column.len() as u64;
        let rows = (0..BATCH as u64)
            .map(|k| (Arc::clone(column), (mix64(k) % n_rows) as usize))
            .collect::<Vec<_>>();
        let assembly = Self { rows, style };
        assert_eq!(assembly.join(), BATCH);
        assembly
    }

    pub(crate) fn numbers() -> Self {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
        Self::new(&numbers, Style::default())
    }

    pub(crate) fn strings() -> Self {
        let names = (0..1000).map(|i| format!("a recording with the number {i}"));
        let strings: ArrayRef = Arc::new(StringArray::from_iter_values(names));
        Self::new(&strings, Style::default())
    }

    /// Lists of 2,048 tokens as one array.
    pub(crate) fn tokens() -> Self {
        let lists = (0..100).map(|i| Some((0..2048).map(move |k| Some(i * k))));
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists));
        Self::new(&lists, Style { ragged: Ragged::Error, fill: None })
    }

    /// Rows of the column that comes out.
    pub(crate) fn join(&self) -> usize {
        let columns = batch_of("column", &self.rows, self.style, &SizeLimit::new(1 << 30)).unwrap();
        let (Column::Values { shape, .. } | Column::Objects { shape, .. }) =
            &columns.first().unwrap().1
        else {
            panic!("neither numbers nor objects")
        };
        *shape.first().unwrap()
    }
}

/// Rows that go through the queue.
pub(crate) const QUEUED: u64 = 64 * 50;

/// All events of the rows at the queue and its lock, on one thread.
pub(crate) fn queue() -> Vec<u64> {
    gristmill_core::bench::pass_rows(QUEUED, 64).unwrap()
}
