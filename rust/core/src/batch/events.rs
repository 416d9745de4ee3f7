//! Events of rows: starts and ends in seconds, out of columns of numbers.

use arrow_array::{
    Array, ArrayRef, RecordBatch,
    cast::AsArray,
    types::{
        Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
        UInt8Type, UInt16Type, UInt32Type, UInt64Type,
    },
};
use arrow_schema::{DataType, Schema};

use super::{
    encoded::{is_encoded, plain_type, referred, referred_values},
    lists::{items_of, list_item},
};
use crate::error::{Error, Result};

/// The columns that hold the events of rows, in seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventColumns {
    /// One of starts and one of ends: numbers, or lists of them.
    Times {
        /// The column of starts.
        start: String,
        /// The column of ends.
        end: String,
    },
    /// One of lists of `[start, end]`.
    Pairs(String),
}

impl EventColumns {
    /// The names of the columns.
    pub(crate) fn names(&self) -> Vec<&String> {
        match self {
            Self::Times { start, end } => vec![start, end],
            Self::Pairs(pairs) => vec![pairs],
        }
    }
}

/// An event as `(start, end)` in seconds.
pub(crate) type Event = (f64, f64);

/// Reads the events of rows.
#[derive(Clone, Debug)]
pub(crate) struct EventReader {
    columns: EventColumns,
    /// The columns' indices in the tables.
    indices: Vec<usize>,
}

impl EventReader {
    /// A reader of these columns of tables with this schema.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Schema`] for a column that is missing or holds no times.
    pub(crate) fn new(schema: &Schema, columns: &EventColumns) -> Result<Self> {
        let mut indices = Vec::new();
        let mut are_lists = Vec::new();
        for name in columns.names() {
            let index = schema.index_of(name).map_err(|_| {
                Error::schema(name, "EventCrop names this column, which the shards do not have")
            })?;
            let data_type = schema.field(index).data_type();
            let item = item_of(data_type);
            let fits = match columns {
                EventColumns::Times { .. } => is_number(item.unwrap_or(data_type)),
                EventColumns::Pairs(_) => item.and_then(item_of).is_some_and(is_number),
            };
            if !fits {
                let wanted = match columns {
                    EventColumns::Times { .. } => "numbers, or lists of them",
                    EventColumns::Pairs(_) => "lists of [start, end]",
                };
                return Err(Error::schema(
                    name,
                    format!(
                        "EventCrop takes seconds from this column, as {wanted}, and its type is \
                         {data_type}; name another one"
                    ),
                ));
            }
            indices.push(index);
            are_lists.push(item.is_some());
        }
        if let [false, true] | [true, false] = are_lists.as_slice() {
            let names = columns.names();
            return Err(Error::schema(
                names.first().map_or("", |name| name.as_str()),
                "EventCrop takes numbers from both of its columns, or lists from both, and here \
                 one of them has lists",
            ));
        }
        Ok(Self { columns: columns.clone(), indices })
    }

    /// The events of a row.
    ///
    /// # Errors
    ///
    /// Why the row is a bad one: a null, or numbers that are no event.
    pub(crate) fn read(&self, table: &RecordBatch, row: usize) -> Result<Vec<Event>, String> {
        let column = |k: usize| {
            let index = self.indices.get(k).copied().unwrap_or(usize::MAX);
            table.columns().get(index).ok_or_else(|| "an event column is missing".to_owned())
        };
        let events = match &self.columns {
            EventColumns::Times { start, end } => {
                let (starts, ends) = (times(start, column(0)?, row)?, times(end, column(1)?, row)?);
                if starts.len() != ends.len() {
                    return Err(format!(
                        "{start:?} has {} times and {end:?} has {}",
                        starts.len(),
                        ends.len()
                    ));
                }
                starts.into_iter().zip(ends).collect()
            }
            EventColumns::Pairs(name) => pairs(name, column(0)?, row)?,
        };
        let is_one = |(start, end): &Event| *start >= 0.0 && start <= end && end.is_finite();
        match events.iter().position(|event| !is_one(event)) {
            None => Ok(events),
            Some(at) => {
                let (start, end) = events.get(at).copied().unwrap_or_default();
                Err(format!(
                    "event {at} begins at {start} s and ends at {end} s: a start is 0 or later, and \
                     not after its end"
                ))
            }
        }
    }
}

/// The item type of a list of any kind, under dictionaries too.
fn item_of(data_type: &DataType) -> Option<&DataType> {
    match plain_type(data_type) {
        DataType::FixedSizeList(item, _) => Some(item.data_type()),
        other => list_item(other).map(|item| item.data_type()),
    }
}

fn is_number(data_type: &DataType) -> bool {
    let plain = plain_type(data_type);
    plain.is_integer() || plain.is_floating()
}

/// The times of a row: one number, or the items of a list.
fn times(name: &str, array: &ArrayRef, row: usize) -> Result<Vec<f64>, String> {
    if let Some((values, at)) = encoded(name, array, row)? {
        return times(name, &values, at);
    }
    if item_of(array.data_type()).is_none() {
        return Ok(vec![number(name, array, row)?]);
    }
    let (items, start, len) = items_of(array, row).map_err(|e| e.to_string())?;
    (start..start + len).map(|at| time(name, &items, at)).collect()
}

/// One number.
fn time(name: &str, array: &ArrayRef, at: usize) -> Result<f64, String> {
    match encoded(name, array, at)? {
        Some((values, at)) => time(name, &values, at),
        None => number(name, array, at),
    }
}

/// The pairs of a row.
fn pairs(name: &str, array: &ArrayRef, row: usize) -> Result<Vec<Event>, String> {
    if let Some((values, at)) = encoded(name, array, row)? {
        return pairs(name, &values, at);
    }
    let (items, start, len) = items_of(array, row).map_err(|e| e.to_string())?;
    let pair = |at| match times(name, &items, at)?.as_slice() {
        [start, end] => Ok((*start, *end)),
        other => Err(format!("an event in {name:?} has {} numbers and not two", other.len())),
    };
    (start..start + len).map(pair).collect()
}

/// The array and the place that value `at` of an encoded array refers to; an error where it is null.
fn encoded(name: &str, array: &ArrayRef, at: usize) -> Result<Option<(ArrayRef, usize)>, String> {
    if at >= array.len() || array.is_null(at) {
        return Err(format!("{name:?} is null"));
    }
    if !is_encoded(array.data_type()) {
        return Ok(None);
    }
    let values = referred_values(array).map_err(|e| e.to_string())?;
    Ok(Some((values, referred(array, at).map_err(|e| e.to_string())?)))
}

/// A number of any type, as `f64`.
fn number(name: &str, array: &ArrayRef, at: usize) -> Result<f64, String> {
    macro_rules! of {
        ($type:ty) => {
            array.as_primitive_opt::<$type>().map(|array| f64::from(array.value(at)))
        };
    }
    let found = match array.data_type() {
        DataType::Float64 => of!(Float64Type),
        DataType::Float32 => of!(Float32Type),
        DataType::Float16 => array.as_primitive_opt::<Float16Type>().map(|a| a.value(at).to_f64()),
        DataType::Int64 => array.as_primitive_opt::<Int64Type>().map(|a| a.value(at) as f64),
        DataType::Int32 => of!(Int32Type),
        DataType::Int16 => of!(Int16Type),
        DataType::Int8 => of!(Int8Type),
        DataType::UInt64 => array.as_primitive_opt::<UInt64Type>().map(|a| a.value(at) as f64),
        DataType::UInt32 => of!(UInt32Type),
        DataType::UInt16 => of!(UInt16Type),
        DataType::UInt8 => of!(UInt8Type),
        _ => None,
    };
    found.ok_or_else(|| format!("{name:?} holds no number"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{FixedSizeListArray, Float32Array, Float64Array, Int32Array, ListArray};
    use arrow_schema::Field;

    use super::*;

    fn table(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true)))
            .unwrap()
    }

    fn times_of(start: &str, end: &str) -> EventColumns {
        EventColumns::Times { start: start.to_owned(), end: end.to_owned() }
    }

    fn read(table: &RecordBatch, columns: &EventColumns, row: usize) -> Result<Vec<Event>, String> {
        EventReader::new(&table.schema(), columns).unwrap().read(table, row)
    }

    #[test]
    fn scalars_are_one_event() {
        let starts = Float64Array::from(vec![Some(1.5), None, Some(-1.0), Some(f64::NAN)]);
        let ends = Int32Array::from(vec![2, 3, 3, 3]);
        let table = table(vec![("a", Arc::new(starts)), ("b", Arc::new(ends))]);
        let columns = times_of("a", "b");
        assert_eq!(read(&table, &columns, 0), Ok(vec![(1.5, 2.0)]));
        assert!(read(&table, &columns, 1).unwrap_err().contains("\"a\" is null"));
        assert!(read(&table, &columns, 2).unwrap_err().contains("begins at -1 s"));
        assert!(read(&table, &columns, 3).unwrap_err().contains("NaN"));
        assert!(read(&table, &columns, 4).is_err());
    }

    #[test]
    fn lists_are_events_in_order() {
        type F = Float32Type;
        let some = |values: &[f32]| Some(values.iter().copied().map(Some).collect::<Vec<_>>());
        let starts = vec![some(&[1.0, 0.5]), some(&[]), some(&[1.0]), Some(vec![None])];
        let ends = vec![some(&[2.0, 0.5]), some(&[]), some(&[2.0, 3.0]), some(&[1.0])];
        let table = table(vec![
            ("a", Arc::new(ListArray::from_iter_primitive::<F, _, _>(starts))),
            ("b", Arc::new(ListArray::from_iter_primitive::<F, _, _>(ends))),
        ]);
        let columns = times_of("a", "b");
        assert_eq!(read(&table, &columns, 0), Ok(vec![(1.0, 2.0), (0.5, 0.5)]));
        assert_eq!(read(&table, &columns, 1), Ok(vec![]));
        assert!(read(&table, &columns, 2).unwrap_err().contains("has 1 times"));
        assert!(read(&table, &columns, 3).unwrap_err().contains("is null"));
    }

    #[test]
    fn pairs_have_two_numbers() {
        let field = Arc::new(Field::new_list_field(DataType::Float32, true));
        let numbers = Arc::new(Float32Array::from(vec![0.0, 1.0, 2.0, 1.0]));
        let fixed: ArrayRef = Arc::new(FixedSizeListArray::new(field, 2, numbers, None));
        let offsets = arrow_buffer::OffsetBuffer::from_lengths([1, 0, 1]);
        let item = Arc::new(Field::new_list_field(fixed.data_type().clone(), true));
        let lists = ListArray::new(item, offsets, fixed, None);
        let table = table(vec![("p", Arc::new(lists) as ArrayRef)]);
        let columns = EventColumns::Pairs("p".to_owned());
        assert_eq!(read(&table, &columns, 0), Ok(vec![(0.0, 1.0)]));
        assert_eq!(read(&table, &columns, 1), Ok(vec![]));
        assert!(read(&table, &columns, 2).unwrap_err().contains("event 0 begins at 2 s"));
    }

    #[test]
    fn columns_must_hold_times() {
        let text: ArrayRef = Arc::new(arrow_array::StringArray::from(vec!["1"]));
        let one: ArrayRef = Arc::new(Int32Array::from(vec![1]));
        let lists = vec![Some(vec![Some(1)])];
        let list: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists));
        let schema = table(vec![("text", text), ("one", one), ("list", list)]).schema();
        let refused =
            |columns: EventColumns| EventReader::new(&schema, &columns).unwrap_err().to_string();
        assert!(refused(times_of("gone", "one")).contains("do not have"));
        assert!(refused(times_of("one", "text")).contains("its type is Utf8"));
        assert!(refused(times_of("one", "list")).contains("one of them has lists"));
        assert!(refused(EventColumns::Pairs("list".to_owned())).contains("[start, end]"));
    }
}
