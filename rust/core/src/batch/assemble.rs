//! Finished rows become one batch.

use std::sync::Arc;

use arrow_array::{ArrayRef, cast::AsArray};
use arrow_schema::FieldRef;

use super::{
    Batch, Column, Dtype, Limit, Space, Styles, Value,
    gather::Gather,
    gathered::Fault,
    held::held_bytes,
    row::{BlobValue, Row, RowOutcome},
    runs::{Origin, Runs},
    samples, space, value,
};
use crate::{
    error::{Error, Result},
    memory::Lease,
    shard::Shard,
};
use gristmill_audio::SampleType;

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

/// What decoded rows look like, and where they are.
#[derive(Debug)]
pub(crate) struct Audio<'a> {
    /// The shape of each row, where rows have slots.
    pub(crate) shape: &'a [usize],
    pub(crate) sample_type: SampleType,
    /// The buffer that the slots were split from.
    pub(crate) lease: Lease,
}

/// Joins `rows` into a batch, or a single one into an element without a batch axis, whose columns
/// take no more than `limit_bytes` each, audio aside, and their memory from `space`.
///
/// # Errors
///
/// [`crate::ErrorKind::Schema`] where audio of unequal shapes or nulls keep the rows from forming
/// arrays; the first such row is named. [`crate::ErrorKind::OutOfMemory`].
pub(crate) fn assemble(
    mut rows: Vec<Row>,
    layout: &Layout,
    shards: &[Shard],
    audio: Audio<'_>,
    space: &Space,
    (single, limit_bytes): (bool, usize),
) -> Result<Batch> {
    let n_rows = rows.len();
    let bad = rows.iter_mut().flat_map(|row| std::mem::take(&mut row.bad)).collect();
    let sources = || layout.columns.iter().map(|(_, source)| *source);
    let blob = sources().find_map(|source| match source {
        Source::Audio(blob) => Some(blob),
        _ => None,
    });
    let mut joined = blob.and_then(|blob| samples::join(&mut rows, blob, audio.lease));
    rows.retain(|row| row.outcome != RowOutcome::Skipped);
    if rows.is_empty() {
        let (columns, damaged) = (Vec::new(), Vec::new());
        return Ok(Batch { n_rows, n_delivered: 0, columns, damaged, bad, held: None });
    }
    let made = Made { layout, shards, space, single, limit_bytes };
    let mut columns = Vec::with_capacity(layout.columns.len() + 2);
    for (name, source) in &layout.columns {
        let column = match *source {
            Source::Table(k) => {
                columns.extend(table_columns(&rows, name, k, &made)?);
                continue;
            }
            Source::Audio(blob) => {
                let sample_type = audio.sample_type;
                let (buf, shape) = match joined.take() {
                    Some(buf) => (buf, audio.shape.to_vec()),
                    None => samples::stack(&mut rows, (name, blob), space).map_err(|fault| {
                        let (error, at) = fault.into_error();
                        in_row(error, at.and_then(|at| rows.get(at)), shards)
                    })?,
                };
                let shape = if single { shape } else { [&[rows.len()], &*shape].concat() };
                Column::Samples { buf, sample_type, shape }
            }
            Source::Blob { blob, fields } => blob_column(&mut rows, name, blob, fields, &made)?,
        };
        columns.push((name.clone(), column));
    }
    if layout.with_row_id {
        columns.extend(row_id_columns(&rows, &made)?);
    }
    if layout.with_valid {
        columns.push(valid_column(&rows, &made)?);
    }
    let damaged = rows.iter_mut().filter_map(|row| row.damage.take()).map(|row| *row).collect();
    let held = Some(space.permit(held_bytes(&columns)));
    Ok(Batch { n_rows, n_delivered: rows.len(), columns, damaged, bad, held })
}

/// What holds for all columns of an element.
struct Made<'a> {
    layout: &'a Layout,
    shards: &'a [Shard],
    space: &'a Space,
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
    let gathered = gathered.map_err(Fault::into_error)?;
    let mut columns = Vec::new();
    gathered.add_to(&mut columns, name);
    Ok(columns)
}

/// The rows' places in the tables' k-th column.
fn places(rows: &[Row], k: usize) -> Result<Vec<(&ArrayRef, usize)>> {
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
            let gather = Gather { style, space: Some(made.space), ..Gather::plain(&limit) };
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

fn row_id_columns(rows: &[Row], made: &Made<'_>) -> Result<[(String, Column); 2]> {
    let space = Some(made.space);
    let shard = space::filled(space, rows.iter().map(|row| (row.id.shard as i32).to_ne_bytes()))?;
    let row = space::filled(space, rows.iter().map(|row| (row.id.row as i64).to_ne_bytes()))?;
    Ok([("shard", shard, Dtype::I32), ("row", row, Dtype::I64)].map(|(name, buf, dtype)| {
        let column = Column::Values { buf, dtype, shape: vec![rows.len()] };
        (name.to_owned(), if made.single { column.into_one() } else { column })
    }))
}

fn valid_column(rows: &[Row], made: &Made<'_>) -> Result<(String, Column)> {
    let valid = rows.iter().map(|row| [u8::from(row.outcome == RowOutcome::Valid)]);
    let buf = space::filled(Some(made.space), valid)?;
    let column = Column::Values { buf, dtype: Dtype::BOOL, shape: vec![rows.len()] };
    Ok((VALID.to_owned(), if made.single { column.into_one() } else { column }))
}
