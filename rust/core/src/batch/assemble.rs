//! Finished rows become one batch.

use std::sync::Arc;

use arrow_array::{ArrayRef, cast::AsArray};
use arrow_schema::FieldRef;

use super::{
    AlignedBuf, Batch, BufferPool, Column, Dtype, Limit, PooledBuf, Recycler, Styles, Value,
    gather::Gather,
    gathered::Fault,
    row::{BlobValue, Fate, Row},
    runs::{Origin, Runs},
    value,
};
use crate::{
    audio::SampleType,
    error::{Error, Result},
    shard::Shard,
};

/// The column that tells which rows are valid.
pub(crate) const VALID: &str = "valid";

/// Where each output column comes from, in schema order.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) columns: Vec<(String, Source)>,
    pub(crate) with_row_id: bool,
    /// Whether elements tell which rows are valid.
    pub(crate) with_valid: bool,
    pub(crate) styles: Styles,
}

/// Where one output column comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    /// The k-th column of the tables.
    Table(usize),
    /// The k-th blob, decoded.
    Audio(usize),
    /// The k-th blob as bytes; the other fields of its struct are that column of the tables.
    Blob { blob: usize, fields: Option<usize> },
}

/// What decoded rows look like, and where their memory goes back to.
#[derive(Debug)]
pub(crate) struct Slots<'a> {
    /// The shape of each row, where rows have slots.
    pub(crate) shape: &'a [usize],
    pub(crate) sample_type: SampleType,
    pub(crate) pool: &'a Arc<BufferPool>,
    /// Memory of the other columns.
    pub(crate) buffers: &'a Arc<Recycler>,
}

/// Joins `rows` into a batch, or a single one into an element without a batch axis, whose columns
/// take no more than `limit_bytes` each, audio aside.
///
/// # Errors
///
/// [`crate::ErrorKind::Schema`] where audio of unequal shapes or nulls keep the rows from forming
/// arrays; the first such row is named.
pub(crate) fn assemble(
    mut rows: Vec<Row>,
    layout: &Layout,
    shards: &[Shard],
    slots: &Slots<'_>,
    single: bool,
    limit_bytes: usize,
) -> Result<Batch> {
    let n_rows = rows.len();
    let bad = rows.iter_mut().flat_map(|row| std::mem::take(&mut row.bad)).collect();
    if rows.iter().any(|row| row.fate == Fate::Skipped) {
        rows = without_skipped(rows, slots);
        if rows.is_empty() {
            let (columns, damaged) = (Vec::new(), Vec::new());
            return Ok(Batch { n_rows, n_delivered: 0, columns, damaged, bad });
        }
    }
    let made = Made { layout, shards, buffers: slots.buffers, single, limit_bytes };
    let mut columns = Vec::with_capacity(layout.columns.len() + 2);
    for (name, source) in &layout.columns {
        let column = match *source {
            Source::Table(k) => {
                columns.extend(table_columns(&rows, name, k, &made)?);
                continue;
            }
            Source::Audio(blob) => audio_column(&mut rows, name, blob, shards, slots, single)?,
            Source::Blob { blob, fields } => blob_column(&mut rows, name, blob, fields, &made)?,
        };
        columns.push((name.clone(), column));
    }
    if layout.with_row_id {
        columns.extend(row_id_columns(&rows, single));
    }
    if layout.with_valid {
        columns.push(valid_column(&rows, single));
    }
    let damaged = rows.iter_mut().filter_map(|row| row.damage.take()).map(|row| *row).collect();
    Ok(Batch { n_rows, n_delivered: rows.len(), columns, damaged, bad })
}

/// The rows that are delivered, their slots moved together at the front of the batch's buffer.
fn without_skipped(mut rows: Vec<Row>, slots: &Slots<'_>) -> Vec<Row> {
    let blobs = rows.first().map_or(0, |row| row.blobs.len());
    for blob in 0..blobs {
        let taken = rows.iter_mut().filter_map(|row| match row.blobs.get_mut(blob) {
            Some(value @ BlobValue::Slot(_)) => Some(std::mem::replace(value, BlobValue::Null)),
            _ => None,
        });
        let parts: Vec<AlignedBuf> = taken.filter_map(BlobValue::into_slot).collect();
        let slot_bytes = parts.first().map_or(0, |slot| slot.as_bytes().len());
        if parts.len() != rows.len() || slot_bytes == 0 {
            continue;
        }
        let mut whole = AlignedBuf::join(parts);
        let kept = |row: &Row| row.fate != Fate::Skipped;
        let from = rows.iter().enumerate().filter(|(_, row)| kept(row)).map(|(place, _)| place);
        let mut n_kept = 0;
        for place in from {
            let start = place * slot_bytes;
            let bytes = whole.as_bytes_mut();
            if n_kept < place && start + slot_bytes <= bytes.len() {
                bytes.copy_within(start..start + slot_bytes, n_kept * slot_bytes);
            }
            n_kept += 1;
        }
        if n_kept == 0 {
            drop(PooledBuf::new(whole, slots.pool));
            continue;
        }
        let moved = whole.split(n_kept, slot_bytes);
        for (row, slot) in rows.iter_mut().filter(|row| kept(row)).zip(moved) {
            if let Some(value) = row.blobs.get_mut(blob) {
                *value = BlobValue::Slot(slot);
            }
        }
    }
    rows.retain(|row| row.fate != Fate::Skipped);
    rows
}

/// What holds for all columns of an element.
struct Made<'a> {
    layout: &'a Layout,
    shards: &'a [Shard],
    buffers: &'a Arc<Recycler>,
    single: bool,
    limit_bytes: usize,
}

fn in_row(error: Error, row: Option<&Row>, shards: &[Shard]) -> Error {
    let Some(id) = row.map(|row| row.id) else { return error };
    match shards.get(id.shard as usize) {
        Some(shard) => error.in_shard(shard.name()).in_row(id.row),
        None => error.in_row(id.row),
    }
}

/// Columns, or an error and the row that it is about.
type Gathered<T> = std::result::Result<T, (Error, Option<usize>)>;

/// The column of these rows, each an array and an index in it, and what comes beside it.
pub(super) fn gather_rows(
    name: &str,
    rows: &[(&ArrayRef, usize)],
    gather: Gather<'_>,
) -> Gathered<Vec<(String, Column)>> {
    let Some((first, _)) = rows.first() else { return Ok(Vec::new()) };
    let mut parts = Vec::<ArrayRef>::new();
    let mut runs = Runs::default();
    for (array, place) in rows {
        // The last one is the likely one: rows in file order share their record batch.
        let known = parts.iter().rposition(|part| Arc::ptr_eq(part, array));
        let part = known.unwrap_or_else(|| {
            parts.push(Arc::clone(array));
            parts.len() - 1
        });
        runs.push(Origin::Part(part), *place, 1);
    }
    let gathered = gather.column(name, first.data_type(), &parts, &runs);
    let gathered = gathered.map_err(|fault| match fault {
        Fault::At { path, at, reason } => (Error::schema(path, reason), Some(at)),
        Fault::Whole(error) => (error, None),
    })?;
    let mut columns = Vec::new();
    gathered.add_to(&mut columns, name);
    Ok(columns)
}

/// The rows' places in the tables' k-th column.
fn places(rows: &[Row], k: usize) -> Result<Vec<(&ArrayRef, usize)>> {
    rows.iter()
        .map(|row| {
            let column = row.table.columns.columns().get(k);
            Ok((column.ok_or_else(|| Error::corrupt("a column is missing"))?, row.place))
        })
        .collect()
}

fn table_columns(
    rows: &[Row],
    name: &str,
    k: usize,
    made: &Made<'_>,
) -> Result<Vec<(String, Column)>> {
    let places = places(rows, k)?;
    let limit = Limit::new(made.limit_bytes);
    match places.as_slice() {
        [(array, place)] if made.single => {
            let value = value(array, *place, &limit);
            let value = value.map_err(|e| in_row(e, rows.first(), made.shards))?;
            Ok(vec![(name.to_owned(), Column::One(value))])
        }
        places => {
            let style = made.layout.styles.of(name);
            let gather = Gather { style, buffers: Some(made.buffers), ..Gather::plain(&limit) };
            gather_rows(name, places, gather)
                .map_err(|(error, at)| in_row(error, at.and_then(|at| rows.get(at)), made.shards))
        }
    }
}

/// Bytes beside the other fields of their struct.
fn blob_column(
    rows: &mut [Row],
    name: &str,
    blob: usize,
    fields: Option<usize>,
    made: &Made<'_>,
) -> Result<Column> {
    let cells: Vec<Value> = rows.iter_mut().map(|row| take_bytes(row, blob)).collect();
    let fields = match fields {
        None => None,
        Some(k) => table_columns(rows, name, k, made)?.pop().map(|(_, column)| (k, column)),
    };
    if !made.single {
        let bytes = Column::Objects { shape: vec![cells.len()], cells };
        return Ok(match fields {
            Some((_, Column::Struct(others))) => with_bytes(bytes, others),
            _ => bytes,
        });
    }
    let bytes = Column::One(cells.into_iter().next().unwrap_or(Value::None));
    Ok(match fields {
        None => bytes,
        Some((_, Column::One(Value::Struct(others)))) => {
            let one = |(name, value)| (name, Column::One(value));
            with_bytes(bytes, others.into_iter().map(one).collect())
        }
        // Of a null struct every field is null.
        Some((k, _)) => {
            let places = places(rows, k)?;
            let parent = places.first().and_then(|(array, _)| array.as_struct_opt());
            let names = parent.map(|parent| parent.fields().clone()).unwrap_or_default();
            let null = |field: &FieldRef| (field.name().clone(), Column::One(Value::None));
            with_bytes(bytes, names.iter().map(null).collect())
        }
    })
}

fn with_bytes(bytes: Column, others: Vec<(String, Column)>) -> Column {
    Column::Struct(std::iter::once(("bytes".to_owned(), bytes)).chain(others).collect())
}

fn take_bytes(row: &mut Row, blob: usize) -> Value {
    match row.blobs.get_mut(blob).map(|value| std::mem::replace(value, BlobValue::Null)) {
        Some(BlobValue::Bytes(bytes)) => Value::Blob(bytes),
        _ => Value::None,
    }
}

fn row_id_columns(rows: &[Row], single: bool) -> [(String, Column); 2] {
    let (mut shard, mut row) =
        (AlignedBuf::with_capacity(4 * rows.len()), AlignedBuf::with_capacity(8 * rows.len()));
    for Row { id, .. } in rows {
        shard.append(&(id.shard as i32).to_ne_bytes());
        row.append(&(id.row as i64).to_ne_bytes());
    }
    [("shard", shard, Dtype::I32), ("row", row, Dtype::I64)].map(|(name, buf, dtype)| {
        let buf = PooledBuf::free_standing(buf);
        let column = Column::Values { buf, dtype, shape: vec![rows.len()] };
        (name.to_owned(), if single { column.into_one() } else { column })
    })
}

fn valid_column(rows: &[Row], single: bool) -> (String, Column) {
    let mut buf = AlignedBuf::with_capacity(rows.len());
    for row in rows {
        buf.append(&[u8::from(row.fate == Fate::Valid)]);
    }
    let column = Column::Values {
        buf: PooledBuf::free_standing(buf),
        dtype: Dtype::BOOL,
        shape: vec![rows.len()],
    };
    (VALID.to_owned(), if single { column.into_one() } else { column })
}

fn audio_column(
    rows: &mut [Row],
    name: &str,
    blob: usize,
    shards: &[Shard],
    slots: &Slots<'_>,
    single: bool,
) -> Result<Column> {
    let sample_type = slots.sample_type;
    let values: Vec<BlobValue> = rows
        .iter_mut()
        .filter_map(|row| row.blobs.get_mut(blob))
        .map(|value| std::mem::replace(value, BlobValue::Null))
        .collect();
    if values.iter().all(|value| matches!(value, BlobValue::Slot(_))) {
        let parts = values.into_iter().filter_map(|value| match value {
            BlobValue::Slot(slot) => Some(slot),
            _ => None,
        });
        let buf = PooledBuf::new(AlignedBuf::join(parts), slots.pool);
        let shape = batched(rows.len(), slots.shape, single);
        return Ok(Column::Samples { buf, sample_type, shape });
    }
    let mut owned = Vec::with_capacity(values.len());
    for (value, row) in values.into_iter().zip(rows.iter()) {
        match value {
            BlobValue::Own(buf, shape) => owned.push((buf, shape)),
            _ => return Err(in_row(Error::schema(name, "has no audio"), Some(row), shards)),
        }
    }
    // A masked row has no shape of its own: in a batch it takes that of the others.
    let valid = rows.iter().position(|row| row.fate == Fate::Valid).unwrap_or(0);
    let shape = owned.get(valid).map(|(_, shape)| shape.clone()).unwrap_or_default();
    let n_bytes = owned.get(valid).map_or(0, |(buf, _)| buf.as_bytes().len());
    for ((buf, own), row) in owned.iter_mut().zip(rows.iter()) {
        if row.fate == Fate::Masked && *own != shape {
            (*buf, *own) = (AlignedBuf::zeroed(n_bytes), shape.clone());
        }
    }
    if let Some(odd) = owned.iter().position(|(_, other)| *other != shape) {
        let other = owned.get(odd).map(|(_, shape)| shape.clone()).unwrap_or_default();
        let reason = format!(
            "has shape {other:?} where the batch's first row has {shape:?}; give Audio a crop= \
             with pad=, a sample_rate= and channels=, or take single rows (batch_size=None)"
        );
        return Err(in_row(Error::schema(name, reason), rows.get(odd), shards));
    }
    let buf = match owned.len() {
        1 => owned.pop().map(|(buf, _)| buf).unwrap_or_default(),
        _ => stack(&owned),
    };
    let shape = batched(rows.len(), &shape, single);
    Ok(Column::Samples { buf: PooledBuf::free_standing(buf), sample_type, shape })
}

fn stack(parts: &[(AlignedBuf, Vec<usize>)]) -> AlignedBuf {
    let n_bytes = parts.iter().map(|(buf, _)| buf.as_bytes().len()).sum();
    let mut whole = AlignedBuf::zeroed(n_bytes);
    let mut start = 0;
    for (part, _) in parts {
        let bytes = part.as_bytes();
        if let Some(place) = whole.as_bytes_mut().get_mut(start..start + bytes.len()) {
            place.copy_from_slice(bytes);
        }
        start += bytes.len();
    }
    whole
}

fn batched(n_rows: usize, shape: &[usize], single: bool) -> Vec<usize> {
    if single { shape.to_vec() } else { [&[n_rows], shape].concat() }
}
