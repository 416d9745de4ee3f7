//! Finished rows become one batch.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int32Array, Int64Array, cast::AsArray, make_array};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use arrow_select::interleave::interleave;

use super::{AlignedBuf, Batch, BufferPool, Column, PooledBuf, kind::first_null};
use crate::{
    audio::SampleType,
    error::{Error, Result},
    order::RowId,
    shard::{Shard, Table},
};

/// Where each output column comes from, in schema order.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) columns: Vec<(String, Source)>,
    pub(crate) with_row_id: bool,
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

/// A row whose blobs are read and decoded.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) id: RowId,
    pub(crate) table: Arc<Table>,
    /// The row's index in the table.
    pub(crate) place: usize,
    pub(crate) blobs: Vec<BlobValue>,
}

/// What became of one blob of a row.
#[derive(Debug)]
pub(crate) enum BlobValue {
    /// Null.
    Null,
    /// Bytes as they are.
    Bytes(Vec<u8>),
    /// Audio in its slot of the batch's buffer.
    Slot(AlignedBuf),
    /// Audio in a buffer of its own, of this shape.
    Own(AlignedBuf, Vec<usize>),
}

/// What decoded rows look like, and where their memory goes back to.
#[derive(Debug)]
pub(crate) struct Slots<'a> {
    /// The shape of each row, where rows have slots.
    pub(crate) shape: &'a [usize],
    pub(crate) sample_type: SampleType,
    pub(crate) pool: &'a Arc<BufferPool>,
}

/// Joins `rows` into a batch, or a single one into an element without a batch axis.
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
) -> Result<Batch> {
    let mut columns = Vec::with_capacity(layout.columns.len() + 2);
    for (name, source) in &layout.columns {
        let column = match *source {
            Source::Table(k) => table_column(&rows, name, k, shards, single)?,
            Source::Audio(blob) => audio_column(&mut rows, name, blob, shards, slots, single)?,
            Source::Blob { blob, fields } => {
                let bytes =
                    Column::Bytes(rows.iter_mut().map(|row| take_bytes(row, blob)).collect());
                match fields {
                    None => bytes,
                    Some(k) => {
                        let fields = fields_of(&table_array(&rows, k)?)?;
                        for (field, child) in fields.iter().filter(|_| !single) {
                            refuse_null(&rows, &format!("{name}.{field}"), child, shards)?;
                        }
                        with_fields(bytes, fields)
                    }
                }
            }
        };
        columns.push((name.clone(), column));
    }
    if layout.with_row_id {
        let shard: Int32Array = rows.iter().map(|row| row.id.shard as i32).collect();
        let row: Int64Array = rows.iter().map(|row| row.id.row as i64).collect();
        columns.push(("shard".to_owned(), Column::Arrow(Arc::new(shard))));
        columns.push(("row".to_owned(), Column::Arrow(Arc::new(row))));
    }
    Ok(Batch { n_rows: rows.len(), columns })
}

fn in_row(error: Error, row: Option<&Row>, shards: &[Shard]) -> Error {
    let Some(id) = row.map(|row| row.id) else { return error };
    match shards.get(id.shard as usize) {
        Some(shard) => error.in_shard(shard.name()).in_row(id.row),
        None => error.in_row(id.row),
    }
}

fn table_column(
    rows: &[Row],
    name: &str,
    k: usize,
    shards: &[Shard],
    single: bool,
) -> Result<Column> {
    let array = table_array(rows, k)?;
    if !single {
        refuse_null(rows, name, &array, shards)?;
    }
    Ok(Column::Arrow(array))
}

fn refuse_null(rows: &[Row], name: &str, array: &ArrayRef, shards: &[Shard]) -> Result<()> {
    let Some((column, row)) = first_null(name, array) else { return Ok(()) };
    let reason = "a null cannot stand in a batch; leave the column out, exclude the row, or take \
                  single rows (batch_size=None)";
    Err(in_row(Error::schema(column, reason), rows.get(row), shards))
}

/// The rows' values of the tables' k-th column, as one array.
fn table_array(rows: &[Row], k: usize) -> Result<ArrayRef> {
    let column = |table: &Arc<Table>| {
        table.columns.columns().get(k).cloned().ok_or_else(|| Error::corrupt("a column is missing"))
    };
    if let [row] = rows {
        return Ok(column(&row.table)?.slice(row.place, 1));
    }
    let mut tables: Vec<&Arc<Table>> = Vec::new();
    let mut arrays: Vec<ArrayRef> = Vec::new();
    let mut indices = Vec::with_capacity(rows.len());
    for row in rows {
        let known = tables.iter().rposition(|table| Arc::ptr_eq(table, &row.table));
        let table = if let Some(table) = known {
            table
        } else {
            tables.push(&row.table);
            arrays.push(column(&row.table)?);
            tables.len() - 1
        };
        indices.push((table, row.place));
    }
    let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
    interleave(&arrays, &indices).map_err(|e| Error::corrupt(e.to_string()))
}

fn take_bytes(row: &mut Row, blob: usize) -> Option<Vec<u8>> {
    match row.blobs.get_mut(blob).map(|value| std::mem::replace(value, BlobValue::Null)) {
        Some(BlobValue::Bytes(bytes)) => Some(bytes),
        _ => None,
    }
}

/// A struct's fields, null where the struct is: Arrow leaves anything under a null struct.
fn fields_of(array: &ArrayRef) -> Result<Vec<(String, ArrayRef)>> {
    let Some(parent) = array.as_struct_opt() else { return Ok(Vec::new()) };
    let masked = |child: &ArrayRef| {
        if parent.null_count() == 0 || *child.data_type() == DataType::Null {
            return Ok(Arc::clone(child));
        }
        let nulls = NullBuffer::union(parent.nulls(), child.nulls());
        let data = child.to_data().into_builder().nulls(nulls).build();
        data.map(make_array).map_err(|e| Error::corrupt(e.to_string()))
    };
    let fields = parent.fields().iter().zip(parent.columns());
    fields.map(|(field, child)| Ok((field.name().clone(), masked(child)?))).collect()
}

fn with_fields(bytes: Column, fields: Vec<(String, ArrayRef)>) -> Column {
    let mut all = vec![("bytes".to_owned(), bytes)];
    all.extend(fields.into_iter().map(|(name, child)| (name, Column::Arrow(child))));
    Column::Struct(all)
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
    let shape = owned.first().map(|(_, shape)| shape.clone()).unwrap_or_default();
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
