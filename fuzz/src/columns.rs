//! Columns of every kind: single rows, and batches of them.

use std::ops::Range;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::Schema;
use gristmill_core::{
    ErrorKind,
    batch::{
        Column, FillValue, Ragged, SizeLimit, Style, Styles, Value, batch_of, check_supported,
        value,
    },
};

use crate::{ensure, shard::is_typed};

/// Rows of a record batch that are checked.
const N_ROWS: usize = 8;

/// The size limit of each.
const LIMIT: usize = 1 << 20;

/// Rows of every supported column are converted, or refused with an error that bytes can cause;
/// batches have the same values.
pub(crate) fn check(columns: &RecordBatch) -> Result<(), String> {
    for (field, array) in columns.schema().fields().iter().zip(columns.columns()) {
        let alone = Schema::new(vec![field.clone()]);
        if let Err(error) = check_supported(&alone, &Styles::default()) {
            is_typed(&error)?;
            continue;
        }
        check_column(field.name(), array)?;
    }
    Ok(())
}

fn check_column(name: &str, array: &ArrayRef) -> Result<(), String> {
    let rows: Vec<_> = (0..array.len().min(N_ROWS)).map(|at| (array.clone(), at)).collect();
    let mut singles = Vec::with_capacity(rows.len());
    for (array, at) in &rows {
        match value(array, *at, &SizeLimit::new(LIMIT)) {
            Ok(value) => singles.push(value),
            Err(error) => return is_typed(&error),
        }
    }
    for (_, ragged) in Ragged::ALL {
        for fill in [None, Some(FillValue::Int(1))] {
            let style = Style { ragged, fill };
            let columns = match batch_of(name, &rows, style, &SizeLimit::new(LIMIT)) {
                Ok(columns) => columns,
                Err(error) => {
                    is_typed(&error)?;
                    // Schema errors are about nulls, shapes and fill values of one row.
                    let is_schema = matches!(error.kind(), ErrorKind::Schema { .. });
                    ensure!(!is_schema || error.at().row.is_some(), "no row: {error:?}");
                    continue;
                }
            };
            let is_as_rows = style == Style::default();
            let Some((_, column)) = columns.first().filter(|_| is_as_rows) else { continue };
            for (at, single) in singles.iter().enumerate() {
                agree(name, single, column, at)?;
            }
        }
    }
    Ok(())
}

/// A row's value must be that of the batch.
fn agree(name: &str, single: &Value, column: &Column, at: usize) -> Result<(), String> {
    match (single, column) {
        // In a batch a null struct or list of fixed size has null values.
        (Value::None, _) => Ok(()),
        (Value::Struct(values), Column::Struct(columns)) => {
            ensure!(values.len() == columns.len(), "{name} has {} fields", columns.len());
            values
                .iter()
                .zip(columns)
                .try_for_each(|((name, single), (_, column))| agree(name, single, column, at))
        }
        _ => {
            let (alone, batched) = (value_text(single), cell_text(column, at));
            ensure!(alone == batched, "{name}, row {at}: {alone} is {batched} in a batch");
            Ok(())
        }
    }
}

/// A value as text that is equal for equal bits.
fn value_text(value: &Value) -> String {
    match value {
        Value::Array(column) => {
            listed(0..shape(column).first().copied().unwrap_or(0), |at| cell_text(column, at))
        }
        Value::Struct(fields) => {
            let field =
                |(name, value): &(String, Value)| format!("{name:?}: {}", value_text(value));
            fields.iter().map(field).collect::<Vec<_>>().join("; ")
        }
        Value::Scalar(dtype, bytes) => format!("{:?}", &bytes[..dtype.width]),
        other => format!("{other:?}"),
    }
}

fn listed(range: Range<usize>, text: impl Fn(usize) -> String) -> String {
    format!("[{}]", range.map(text).collect::<Vec<_>>().join(", "))
}

fn shape(column: &Column) -> &[usize] {
    match column {
        Column::Values { shape, .. }
        | Column::Objects { shape, .. }
        | Column::Ragged { shape, .. } => shape,
        _ => &[],
    }
}

/// Element `at` along the first axis.
fn cell_text(column: &Column, at: usize) -> String {
    match column {
        Column::Struct(fields) => {
            let field =
                |(name, field): &(String, Column)| format!("{name:?}: {}", cell_text(field, at));
            fields.iter().map(field).collect::<Vec<_>>().join("; ")
        }
        array => axis_text(array, &shape(array)[1..], at),
    }
}

fn axis_text(column: &Column, inner: &[usize], at: usize) -> String {
    if let Some((width, deeper)) = inner.split_first() {
        return listed(0..*width, |k| axis_text(column, deeper, at * width + k));
    }
    match column {
        Column::Values { buf, dtype, .. } => {
            format!("{:?}", &buf.as_bytes()[at * dtype.width..][..dtype.width])
        }
        Column::Objects { cells, .. } => value_text(&cells[at]),
        Column::Ragged { items, lengths, .. } => match lengths[at] {
            None => "None".to_owned(),
            Some(len) => {
                let start: usize = lengths[..at].iter().flatten().sum();
                listed(start..start + len, |k| cell_text(items, k))
            }
        },
        other => format!("{other:?} is no array"),
    }
}
