//! Columns of every kind: single rows, and batches of them.

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::Schema;
use gristmill_core::{
    ErrorKind,
    batch::{
        Column, FillValue, Limit, Ragged, Style, Styles, Value, batch_of, check_supported, value,
    },
};

use crate::{ensure, shard::is_blamable};

/// Rows of a record batch that are looked at.
const N_ROWS: usize = 8;

/// What one of them may grow to.
const LIMIT: usize = 1 << 20;

/// Rows of every column that is not refused convert, or end in an error of the bytes; and batches
/// hold the same values.
pub(crate) fn check(columns: &RecordBatch) -> Result<(), String> {
    for (field, array) in columns.schema().fields().iter().zip(columns.columns()) {
        let alone = Schema::new(vec![field.clone()]);
        if let Err(error) = check_supported(&alone, &Styles::default()) {
            is_blamable(&error)?;
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
        match value(array, *at, &Limit::new(LIMIT)) {
            Ok(value) => singles.push(value),
            Err(error) => return is_blamable(&error),
        }
    }
    for (_, ragged) in Ragged::ALL {
        for fill in [None, Some(FillValue::Int(1))] {
            let style = Style { ragged, fill };
            let columns = match batch_of(name, &rows, style, &Limit::new(LIMIT)) {
                Ok(columns) => columns,
                Err(error) => {
                    is_blamable(&error)?;
                    // Only nulls, shapes and fill values are a reason.
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

/// A row's value is that of the batch.
fn agree(name: &str, single: &Value, column: &Column, at: usize) -> Result<(), String> {
    match (single, column) {
        // In a batch a null struct or list of fixed size is one of nulls.
        (Value::None, _) => Ok(()),
        (Value::Struct(values), Column::Struct(columns)) => {
            ensure!(values.len() == columns.len(), "{name} has {} fields", columns.len());
            values
                .iter()
                .zip(columns)
                .try_for_each(|((name, single), (_, column))| agree(name, single, column, at))
        }
        _ => {
            let (mut alone, mut batched) = (String::new(), String::new());
            write_value(single, &mut alone);
            write_cell(column, at, &mut batched);
            ensure!(alone == batched, "{name}, row {at}: {alone} is {batched} in a batch");
            Ok(())
        }
    }
}

fn write_value(value: &Value, out: &mut String) {
    match value {
        Value::Array(column) => write_all(column, out),
        Value::Struct(fields) => {
            for (name, value) in fields {
                *out += &format!("{name:?}: ");
                write_value(value, out);
                *out += "; ";
            }
        }
        Value::Scalar(dtype, bytes) => *out += &format!("{:?}", &bytes[..dtype.width]),
        other => *out += &format!("{other:?}"),
    }
}

fn write_all(column: &Column, out: &mut String) {
    *out += "[";
    let n = shape(column).first().copied().unwrap_or(0);
    for at in 0..n {
        write_cell(column, at, out);
        *out += ", ";
    }
    *out += "]";
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
fn write_cell(column: &Column, at: usize, out: &mut String) {
    if let Column::Struct(fields) = column {
        for (name, field) in fields {
            *out += &format!("{name:?}: ");
            write_cell(field, at, out);
            *out += "; ";
        }
        return;
    }
    write_axis(column, &shape(column)[1..], at, out);
}

fn write_axis(column: &Column, inner: &[usize], at: usize, out: &mut String) {
    if let Some((width, deeper)) = inner.split_first() {
        *out += "[";
        for k in 0..*width {
            write_axis(column, deeper, at * width + k, out);
            *out += ", ";
        }
        *out += "]";
        return;
    }
    match column {
        Column::Values { buf, dtype, .. } => {
            let bytes = &buf.as_bytes()[at * dtype.width..][..dtype.width];
            *out += &format!("{bytes:?}");
        }
        Column::Objects { cells, .. } => write_value(&cells[at], out),
        Column::Ragged { items, lengths, .. } => match lengths[at] {
            None => *out += "None",
            Some(len) => {
                let start: usize = lengths[..at].iter().flatten().sum();
                *out += "[";
                for k in start..start + len {
                    write_cell(items, k, out);
                    *out += ", ";
                }
                *out += "]";
            }
        },
        _ => *out += "?",
    }
}
