//! Joining finished rows into a batch.

use std::sync::Arc;

use arrow_array::{ArrayRef, cast::AsArray};
use arrow_schema::FieldRef;

use super::{
    AddedColumn, Batch, Column, MultiHot, Reservation, SizeLimit, Styles, Value,
    copy_plan::{CopyPlan, CopySource},
    gather::{Gather, Values},
    gathered_column::ColumnError,
    object_bytes::object_bytes,
    row::{BlobValue, Row, RowOutcome},
    samples, value,
};
use crate::{
    error::{Error, Result},
    memory::{Buffer, Lease},
    shard::Shard,
};
use gristmill_audio::SampleType;

/// The columns of elements, in schema order.
#[derive(Debug)]
pub(crate) struct ElementLayout {
    pub(crate) columns: Vec<(String, ColumnSource)>,
    /// The columns of our own, behind those of the shards.
    pub(crate) added: Vec<(String, AddedColumn)>,
    pub(crate) styles: Styles,
    /// Columns that become arrays of 0 and 1.
    pub(crate) multi_hot: Vec<(String, MultiHot)>,
    /// The numbers of the data sets' first shards.
    pub(crate) first_shards: Vec<u32>,
}

/// What a column of elements is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ColumnSource {
    /// The k-th column of the tables.
    Table(usize),
    /// The k-th blob, decoded.
    Audio(usize),
    /// The k-th blob as bytes; the other fields of its struct are that column of the tables.
    Blob { blob: usize, fields: Option<usize> },
}

/// The shape, type and buffer of the decoded rows of one column.
#[derive(Debug)]
pub(crate) struct AudioSlots<'a> {
    /// The index of its blob.
    pub(crate) blob: usize,
    /// The shape of each row, where rows have slots.
    pub(crate) shape: &'a [usize],
    pub(crate) sample_type: SampleType,
    /// The buffer that the slots were split from.
    pub(crate) lease: Lease,
}

/// Joins `rows` into a batch, or a `single` one into an element without a batch axis. Each column,
/// except audio, may take up to `limit_bytes`.
///
/// # Errors
///
/// [`crate::ErrorKind::Schema`] where rows do not form arrays, because of unequal shapes or nulls;
/// the first such row is named. [`crate::ErrorKind::Limit`], [`crate::ErrorKind::OutOfMemory`].
pub(crate) fn assemble(
    mut rows: Vec<Row>,
    layout: &ElementLayout,
    shards: &[Shard],
    audio: Vec<AudioSlots<'_>>,
    reservation: &Reservation,
    (single, limit_bytes): (bool, usize),
) -> Result<Batch> {
    let n_rows = rows.iter().filter(|row| row.outcome != RowOutcome::Padding).count();
    let bad = rows.iter_mut().flat_map(|row| std::mem::take(&mut row.bad)).collect();
    let mut joined: Vec<JoinedAudio<'_>> = audio
        .into_iter()
        .map(|AudioSlots { blob, shape, sample_type, lease }| {
            let buf = samples::join(&mut rows, blob, lease);
            JoinedAudio { blob, shape, sample_type, buf }
        })
        .collect();
    rows.retain(|row| row.outcome != RowOutcome::Skipped);
    if rows.is_empty() {
        let (columns, damaged) = (Vec::new(), Vec::new());
        return Ok(Batch { n_rows, n_delivered: 0, columns, damaged, bad, objects: None });
    }
    let assembly = Assembly { layout, shards, reservation, single, limit_bytes };
    let mut columns = Vec::with_capacity(layout.columns.len() + layout.added.len());
    for (name, source) in &layout.columns {
        let column = match *source {
            ColumnSource::Table(k) => {
                columns.extend(table_columns(&rows, name, k, &assembly)?);
                continue;
            }
            ColumnSource::Audio(blob) => {
                let of_column = joined.iter_mut().find(|column| column.blob == blob);
                let Some(JoinedAudio { shape, sample_type, buf, .. }) = of_column else {
                    return Err(Error::internal("a column is not decoded"));
                };
                let (sample_type, shape) = (*sample_type, *shape);
                let (buf, shape) = match buf.take() {
                    Some(buf) => (buf, shape.to_vec()),
                    None => {
                        samples::stack(&mut rows, (name, blob), reservation).map_err(|error| {
                            let (error, at) = error.into_error();
                            in_row(error, at.and_then(|at| rows.get(at)), shards)
                        })?
                    }
                };
                let shape = if single { shape } else { [&[rows.len()], &*shape].concat() };
                Column::Samples { buf, sample_type, shape }
            }
            ColumnSource::Blob { blob, fields } => {
                blob_column(&mut rows, name, blob, fields, &assembly)?
            }
        };
        columns.push((name.clone(), column));
    }
    for (name, added) in &layout.added {
        let column = added.column(&rows, &layout.first_shards, reservation)?;
        let column = if single { column.into_one() } else { column };
        columns.push((name.clone(), column));
    }
    let extras = rows.iter_mut().filter_map(|row| row.extras.take());
    let damaged = extras.flat_map(|extras| extras.damage).collect();
    let objects = Some(reservation.permit(object_bytes(&columns)));
    Ok(Batch { n_rows, n_delivered: rows.len(), columns, damaged, bad, objects })
}

/// The decoded rows of one column, once their slots are one buffer.
struct JoinedAudio<'a> {
    blob: usize,
    shape: &'a [usize],
    sample_type: SampleType,
    /// `None` where rows have buffers of their own.
    buf: Option<Buffer>,
}

/// What all columns of an element refer to.
struct Assembly<'a> {
    layout: &'a ElementLayout,
    shards: &'a [Shard],
    reservation: &'a Reservation,
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

/// An error, and the index of the row that it is about.
type RowError = (Error, Option<usize>);

/// The column of these rows, each an array and an index in it, and the lengths of its padded lists.
pub(super) fn gather_rows(
    name: &str,
    rows: &[(&ArrayRef, usize)],
    gather: Gather<'_>,
) -> Result<Vec<(String, Column)>, RowError> {
    let Some((first, _)) = rows.first() else { return Ok(Vec::new()) };
    let mut arrays = Vec::<ArrayRef>::new();
    let mut plan = CopyPlan::default();
    for (array, index) in rows {
        // From the end, since rows in file order share their record batch.
        let known = arrays.iter().rposition(|known| Arc::ptr_eq(known, array));
        let number = known.unwrap_or_else(|| {
            arrays.push(Arc::clone(array));
            arrays.len() - 1
        });
        plan.push(CopySource::Array(number), *index, 1);
    }
    let (arrays, plan) = (&arrays, &plan);
    let values = Values { path: name, data_type: first.data_type(), arrays, plan };
    let gathered = gather.column(values);
    let gathered = gathered.map_err(ColumnError::into_error)?;
    let mut columns = Vec::new();
    gathered.add_to(&mut columns, name);
    Ok(columns)
}

/// The rows' arrays of the k-th column, and the rows' indices in them.
fn table_rows(rows: &[Row], k: usize) -> Result<Vec<(&ArrayRef, usize)>> {
    rows.iter()
        .map(|row| {
            let column = row.table.columns.columns().get(k);
            Ok((column.ok_or_else(|| Error::corrupt("a column is missing"))?, row.index))
        })
        .collect()
}

fn table_columns(
    rows: &[Row],
    name: &str,
    k: usize,
    assembly: &Assembly<'_>,
) -> Result<Vec<(String, Column)>> {
    let table_rows = table_rows(rows, k)?;
    let limit = SizeLimit::new(assembly.limit_bytes);
    let error_in =
        |(error, at): RowError| in_row(error, at.and_then(|at| rows.get(at)), assembly.shards);
    let multi_hot = assembly.layout.multi_hot.iter().find(|(column, _)| column == name);
    if let Some((_, multi_hot)) = multi_hot {
        let column = multi_hot.column(name, &table_rows, &limit, assembly.reservation);
        let mut column = column.map_err(|error| error_in(error.into_error()))?;
        if let (true, Column::Values { shape, .. }) = (assembly.single, &mut column) {
            shape.remove(0);
        }
        return Ok(vec![(name.to_owned(), column)]);
    }
    match table_rows.as_slice() {
        [(array, index)] if assembly.single => {
            let value = value(array, *index, &limit);
            let value = value.map_err(|e| in_row(e, rows.first(), assembly.shards))?;
            Ok(vec![(name.to_owned(), Column::One(value))])
        }
        table_rows => {
            let style = assembly.layout.styles.of(name);
            let reservation = Some(assembly.reservation);
            // Values that are one range of one array are of the first row's table.
            let buffers = rows.first().map_or(&[][..], |row| &row.table.buffers);
            let gather = Gather { style, reservation, buffers, ..Gather::plain(&limit) };
            gather_rows(name, table_rows, gather).map_err(error_in)
        }
    }
}

/// The encoded bytes of a blob column, with the other fields of its struct.
fn blob_column(
    rows: &mut [Row],
    name: &str,
    blob: usize,
    fields: Option<usize>,
    assembly: &Assembly<'_>,
) -> Result<Column> {
    let cells: Vec<Value> = rows.iter_mut().map(|row| take_bytes(row, blob)).collect();
    let fields = match fields {
        None => None,
        Some(k) => table_columns(rows, name, k, assembly)?.pop().map(|(_, column)| (k, column)),
    };
    if !assembly.single {
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
        // Every field of a null struct is null.
        Some((k, _)) => {
            let table_rows = table_rows(rows, k)?;
            let parent = table_rows.first().and_then(|(array, _)| array.as_struct_opt());
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
