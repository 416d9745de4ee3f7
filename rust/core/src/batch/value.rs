//! One value of an Arrow array, for a single row or for a cell of an object array.

use std::ops::Range;

use arrow_array::{
    Array, ArrayRef,
    cast::AsArray,
    types::{
        BinaryViewType, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type,
        StringViewType,
    },
};
use arrow_schema::DataType;

use super::{
    Column,
    copy_plan::CopyPlan,
    dtype::Dtype,
    encoded::{plain_type, referred, referred_values},
    gather::{Gather, Values, is_record},
    gathered_column::ColumnError,
    lists::{items_of, list_item},
    size_limit::SizeLimit,
};
use crate::{
    error::{Error, Result},
    memory::Buffer,
};

/// One value, by its Python type.
#[derive(Debug)]
pub enum Value {
    /// `None`: a null.
    None,
    /// A NumPy scalar: its dtype, and its bytes, of which the first `width` count.
    Scalar(Dtype, [u8; 8]),
    /// A string.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// Bytes in the buffer that they were read into.
    Blob(Buffer),
    /// A `decimal.Decimal`, as text for its constructor.
    Decimal(String),
    /// The items of a list.
    Array(Box<Column>),
    /// A map's keys and values.
    Pairs(Vec<(Value, Value)>),
    /// A struct's fields.
    Struct(Vec<(String, Value)>),
}

/// The value at index `at`. A null is [`Value::None`]. The items of a list of numbers with nulls are
/// an array of objects.
///
/// # Errors
///
/// [`crate::ErrorKind::Limit`] for values beyond `limit`; [`crate::ErrorKind::Corrupt`] for nested
/// columns that are shorter than what refers to them; [`crate::ErrorKind::Schema`] for types that
/// [`super::check_supported`] refuses; [`crate::ErrorKind::OutOfMemory`].
pub fn value(array: &ArrayRef, at: usize, limit: &SizeLimit) -> Result<Value> {
    limit.take(1, size_of::<Value>())?;
    if at >= array.len() {
        return Err(Error::corrupt("a nested column is shorter than what refers to it"));
    }
    if array.is_null(at) || *array.data_type() == DataType::Null {
        return Ok(Value::None);
    }
    let bytes = |bytes: &[u8]| {
        limit.take(bytes.len(), 1)?;
        let mut copy = Vec::new();
        copy.try_reserve_exact(bytes.len()).map_err(|_| Error::out_of_memory(bytes.len()))?;
        copy.extend_from_slice(bytes);
        Ok(Value::Bytes(copy))
    };
    let text = |text: &str| {
        limit.take(text.len(), 1)?;
        let mut copy = String::new();
        copy.try_reserve_exact(text.len()).map_err(|_| Error::out_of_memory(text.len()))?;
        copy.push_str(text);
        Ok(Value::Text(copy))
    };
    let decimal = |unscaled: String, scale: i8| {
        // With an exponent, the value is exact whatever the precision of the decimal context.
        Ok(Value::Decimal(format!("{unscaled}E{}", -i32::from(scale))))
    };
    match array.data_type() {
        DataType::Utf8 => text(array.as_string::<i32>().value(at)),
        DataType::LargeUtf8 => text(array.as_string::<i64>().value(at)),
        DataType::Utf8View => text(array.as_byte_view::<StringViewType>().value(at)),
        DataType::Binary => bytes(array.as_binary::<i32>().value(at)),
        DataType::LargeBinary => bytes(array.as_binary::<i64>().value(at)),
        DataType::BinaryView => bytes(array.as_byte_view::<BinaryViewType>().value(at)),
        DataType::FixedSizeBinary(_) => bytes(array.as_fixed_size_binary().value(at)),
        DataType::Decimal32(_, scale) => {
            decimal(array.as_primitive::<Decimal32Type>().value(at).to_string(), *scale)
        }
        DataType::Decimal64(_, scale) => {
            decimal(array.as_primitive::<Decimal64Type>().value(at).to_string(), *scale)
        }
        DataType::Decimal128(_, scale) => {
            decimal(array.as_primitive::<Decimal128Type>().value(at).to_string(), *scale)
        }
        DataType::Decimal256(_, scale) => {
            decimal(array.as_primitive::<Decimal256Type>().value(at).to_string(), *scale)
        }
        DataType::Dictionary(..) | DataType::RunEndEncoded(..) => {
            value(&referred_values(array)?, referred(array, at)?, limit)
        }
        DataType::Struct(fields) => {
            let children = fields.iter().zip(array.as_struct().columns());
            let child = |(field, child): (&arrow_schema::FieldRef, &ArrayRef)| {
                Ok((field.name().clone(), value(child, at, limit)?))
            };
            children.map(child).collect::<Result<_>>().map(Value::Struct)
        }
        DataType::Map(..) => pairs(array, at, limit),
        list if list_item(list).is_some() || matches!(list, DataType::FixedSizeList(..)) => {
            let (items, start, len) = items_of(array, at)?;
            items_value(&items, start, len, limit)
        }
        plain => scalar(plain, array, at, limit),
    }
}

/// Items as an array of their dtype, or of objects where some are null.
fn items_value(items: &ArrayRef, start: usize, len: usize, limit: &SizeLimit) -> Result<Value> {
    if !is_record(items.data_type()) && !has_null_list(items, start..start + len)? {
        match column(items, start, len, limit) {
            Ok(column) => return Ok(Value::Array(Box::new(column))),
            Err(ColumnError::Whole(error)) => return Err(error),
            Err(ColumnError::At { .. }) => {}
        }
    }
    limit.take(len, size_of::<Value>())?;
    let cells = (start..start + len).map(|k| value(items, k, limit)).collect::<Result<_>>()?;
    Ok(Value::Array(Box::new(Column::Objects { cells, shape: vec![len] })))
}

/// Whether lists of fixed size are what this type refers to, or are in its lists.
fn has_lists_of_fixed_size(data_type: &DataType) -> bool {
    match plain_type(data_type) {
        DataType::FixedSizeList(..) => true,
        other => list_item(other).is_some_and(|item| has_lists_of_fixed_size(item.data_type())),
    }
}

/// Whether one of the items is a null list of fixed size, or has one in it. In an array it would look
/// like a list of nulls.
fn has_null_list(items: &ArrayRef, mut range: Range<usize>) -> Result<bool> {
    if !has_lists_of_fixed_size(items.data_type()) {
        return Ok(false);
    }
    if !range.is_empty() && range.end > items.len() {
        return Err(Error::corrupt("a nested column is shorter than what refers to it"));
    }
    if list_item(items.data_type()).is_some() {
        return range.try_fold(false, |found, k| {
            if found || items.is_null(k) {
                return Ok(found);
            }
            let (items, start, len) = items_of(items, k)?;
            has_null_list(&items, start..start + len)
        });
    }
    if matches!(items.data_type(), DataType::FixedSizeList(..)) {
        let lists = items.as_fixed_size_list();
        let width = lists.value_length().unsigned_abs() as usize;
        return Ok(range.clone().any(|k| lists.is_null(k))
            || has_null_list(lists.values(), range.start * width..range.end * width)?);
    }
    let values = referred_values(items)?;
    range.try_fold(false, |found, k| {
        if found || items.is_null(k) {
            return Ok(true);
        }
        let at = referred(items, k)?;
        has_null_list(&values, at..at.saturating_add(1))
    })
}

fn pairs(array: &ArrayRef, at: usize, limit: &SizeLimit) -> Result<Value> {
    let (entries, start, len) = items_of(array, at)?;
    let entries = entries.as_struct();
    let [keys, values] = entries.columns() else {
        return Err(Error::corrupt("the entries of a map are not keys and values"));
    };
    limit.take(len, size_of::<(Value, Value)>())?;
    let pair = |k| Ok((value(keys, k, limit)?, value(values, k, limit)?));
    (start..start + len).map(pair).collect::<Result<_>>().map(Value::Pairs)
}

fn scalar(data_type: &DataType, array: &ArrayRef, at: usize, limit: &SizeLimit) -> Result<Value> {
    if Dtype::of(data_type).is_none() {
        return Err(Error::schema("", format!("Arrow type {data_type} is not supported")));
    }
    match column(array, at, 1, limit) {
        Ok(column) => Ok(column.into_value()),
        Err(ColumnError::Whole(error)) => Err(error),
        Err(ColumnError::At { .. }) => Ok(Value::None),
    }
}

/// The column of some values of an array.
fn column(
    array: &ArrayRef,
    start: usize,
    len: usize,
    limit: &SizeLimit,
) -> Result<Column, ColumnError> {
    let plan = CopyPlan::of(start, len);
    let arrays = std::slice::from_ref(array);
    let values = Values { path: "", data_type: array.data_type(), arrays, plan: &plan };
    Ok(Gather::plain(limit).column(values)?.column)
}

impl Column {
    /// The first value, or `None` without values.
    fn into_value(self) -> Value {
        match self {
            Self::Values { buf, dtype, .. } => {
                let mut bytes = [0; 8];
                bytes.iter_mut().zip(buf.as_bytes()).for_each(|(to, from)| *to = *from);
                Value::Scalar(dtype, bytes)
            }
            Self::One(value) => value,
            _ => Value::None,
        }
    }

    /// A column of one number as that number.
    pub(super) fn into_one(self) -> Self {
        Self::One(self.into_value())
    }
}
