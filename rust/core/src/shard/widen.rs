//! Columns of one shard as the type that all shards have in common.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, DictionaryArray, FixedSizeListArray, GenericListArray,
    Int64Array, LargeBinaryArray, LargeStringArray, OffsetSizeTrait, RecordBatch,
    RecordBatchOptions, StructArray,
    cast::AsArray,
    new_null_array,
    types::{
        ArrowDictionaryKeyType, BinaryViewType, Float16Type, Float32Type, Float64Type, Int8Type,
        Int16Type, Int32Type, Int64Type, StringViewType, UInt8Type, UInt16Type, UInt32Type,
        UInt64Type,
    },
};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, Schema};
use arrow_select::take::{TakeOptions, take};

use super::{
    Table,
    common_type::{is_binary, is_text},
    guard,
    schema::is_same_type,
    widened_size::widened_bytes,
};
use crate::{Error, Result};

/// The most bytes that widening adds to a table.
const MAX_ADDED: u64 = 1 << 30;

/// The table with its columns as those of `schema`, which are as many. Refuses to take more than
/// `limit` bytes, before it takes them. Calls `on_size` with the number of bytes before.
///
/// # Errors
///
/// `Limit`; `Corrupt` where the columns are not what their types say.
pub(super) fn widen_table(
    mut table: Table,
    schema: &Schema,
    limit: usize,
    on_size: &dyn Fn(usize),
) -> Result<Table> {
    let columns = table.columns.columns();
    let to = |k: usize| schema.fields().get(k).map(|field| field.data_type());
    let added = columns.iter().enumerate().map(|(k, column)| match to(k) {
        Some(to) if !is_same_type(column.data_type(), to) => Some(widened_bytes(column, to)),
        _ => None,
    });
    let added: Vec<Option<u64>> = added.collect();
    if added.iter().all(Option::is_none) {
        return Ok(table);
    }
    let n_added = added.iter().flatten().fold(0, |sum: u64, n| sum.saturating_add(*n));
    let n_bytes = n_added.saturating_add(table.n_bytes as u64);
    if n_added > MAX_ADDED || n_bytes > limit as u64 {
        return Err(Error::limit(format!(
            "the columns of one record batch take {n_bytes} bytes as the types that all shards have \
             in common, and {limit} are the most (the memory budget), or 1 GiB more than as they are \
             stored; raise memory_budget, ask for fewer columns, or write the shards with one schema"
        )));
    }
    on_size(n_bytes as usize);
    let (mut fields, mut arrays) = (Vec::new(), Vec::new());
    for ((column, field), (k, added)) in
        columns.iter().zip(table.columns.schema().fields()).zip(added.iter().enumerate())
    {
        let (field, column) = match (added, schema.fields().get(k)) {
            (Some(_), Some(to)) => {
                let widen = || widened(column, to.data_type()).map_err(|e| corrupt(&e));
                let column = guard::contain("a column", widen)?;
                (of_type(to, &column), column)
            }
            _ => (Arc::clone(field), Arc::clone(column)),
        };
        fields.push(field);
        arrays.push(column);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(table.n_rows()));
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new_with_options(schema, arrays, &options);
    table.columns = batch.map_err(|e| corrupt(&e))?;
    table.n_bytes = n_bytes as usize;
    Ok(table)
}

fn corrupt(error: &ArrowError) -> Error {
    Error::corrupt(format!("a column does not become the type that all shards share: {error}"))
}

/// The field with the array's own type, which may have other names inside.
fn of_type(field: &Field, array: &ArrayRef) -> FieldRef {
    Arc::new(field.clone().with_data_type(array.data_type().clone()))
}

/// The array as a type that [`common_type`](super::common_type::common_type) gave for it.
fn widened(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    use DataType as T;
    if is_same_type(array.data_type(), to) {
        return Ok(Arc::clone(array));
    }
    Ok(match (array.data_type(), to) {
        (T::Null, _) => new_null_array(to, array.len()),
        (T::Dictionary(..), T::Dictionary(key, values)) => dictionary(array, key, values)?,
        (T::Dictionary(..), _) => {
            let (keys, values) = (keys(array)?, array.as_any_dictionary().values());
            widened(&take(values, &keys, Some(TakeOptions { check_bounds: true }))?, to)?
        }
        (T::Struct(_), T::Struct(fields)) => record(array.as_struct(), fields)?,
        (T::List(_), T::List(item)) => list(array.as_list::<i32>(), item)?,
        (T::LargeList(_), T::LargeList(item)) => list(array.as_list::<i64>(), item)?,
        (T::List(_), T::LargeList(item)) => {
            let (field, offsets, values, nulls) = array.as_list::<i32>().clone().into_parts();
            let large = GenericListArray::try_new(field, wide(&offsets), values, nulls)?;
            list::<i64>(&large, item)?
        }
        (T::FixedSizeList(..), T::FixedSizeList(item, width)) => {
            let lists = array.as_fixed_size_list();
            let values = widened(lists.values(), item.data_type())?;
            let (item, nulls) = (of_type(item, &values), lists.nulls().cloned());
            let len = array.len();
            Arc::new(FixedSizeListArray::try_new_with_length(item, *width, values, nulls, len)?)
        }
        (from, T::LargeUtf8) if is_text(from) => text(array)?,
        (from, T::LargeBinary) if is_binary(from) => binary(array)?,
        (from, to) => number(array, to)
            .ok_or_else(|| ArrowError::CastError(format!("{from} does not become {to}")))?,
    })
}

fn dictionary(array: &ArrayRef, key: &DataType, to: &DataType) -> Result<ArrayRef, ArrowError> {
    fn of<K: ArrowDictionaryKeyType>(
        keys: &Int64Array,
        values: ArrayRef,
    ) -> Result<ArrayRef, ArrowError>
    where
        K::Native: TryFrom<i64>,
    {
        let outside = |_| ArrowError::DictionaryKeyOverflowError;
        let keys = keys.try_unary::<_, K, _>(|key| K::Native::try_from(key).map_err(outside))?;
        Ok(Arc::new(DictionaryArray::<K>::try_new(keys, values)?))
    }
    let (keys, values) = (keys(array)?, widened(array.as_any_dictionary().values(), to)?);
    match key {
        DataType::Int8 => of::<Int8Type>(&keys, values),
        DataType::Int16 => of::<Int16Type>(&keys, values),
        DataType::Int32 => of::<Int32Type>(&keys, values),
        DataType::UInt8 => of::<UInt8Type>(&keys, values),
        DataType::UInt16 => of::<UInt16Type>(&keys, values),
        DataType::UInt32 => of::<UInt32Type>(&keys, values),
        DataType::UInt64 => of::<UInt64Type>(&keys, values),
        _ => of::<Int64Type>(&keys, values),
    }
}

/// A dictionary's keys. Those of its nulls are null.
pub(super) fn keys(array: &ArrayRef) -> Result<Int64Array, ArrowError> {
    fn of<K: ArrowPrimitiveType>(keys: &dyn Array) -> Result<Int64Array, ArrowError>
    where
        i64: TryFrom<K::Native>,
    {
        let outside = |_| ArrowError::DictionaryKeyOverflowError;
        keys.as_primitive::<K>().try_unary(|key| i64::try_from(key).map_err(outside))
    }
    let keys: &dyn Array = array.as_any_dictionary().keys();
    match keys.data_type() {
        DataType::Int8 => of::<Int8Type>(keys),
        DataType::Int16 => of::<Int16Type>(keys),
        DataType::Int32 => of::<Int32Type>(keys),
        DataType::UInt8 => of::<UInt8Type>(keys),
        DataType::UInt16 => of::<UInt16Type>(keys),
        DataType::UInt32 => of::<UInt32Type>(keys),
        DataType::UInt64 => of::<UInt64Type>(keys),
        _ => of::<Int64Type>(keys),
    }
}

/// A struct with these fields, by name.
fn record(array: &StructArray, to: &Fields) -> Result<ArrayRef, ArrowError> {
    let (mut fields, mut columns) = (Vec::new(), Vec::new());
    for field in to {
        let column = array.column_by_name(field.name()).ok_or_else(|| {
            ArrowError::SchemaError(format!("a struct lacks the field {}", field.name()))
        })?;
        let column = widened(column, field.data_type())?;
        fields.push(of_type(field, &column));
        columns.push(column);
    }
    let nulls = array.nulls().cloned();
    Ok(Arc::new(StructArray::try_new_with_length(fields.into(), columns, nulls, array.len())?))
}

fn list<O: OffsetSizeTrait>(
    lists: &GenericListArray<O>,
    item: &FieldRef,
) -> Result<ArrayRef, ArrowError> {
    let (_, offsets, values, nulls) = lists.clone().into_parts();
    let values = widened(&values, item.data_type())?;
    Ok(Arc::new(GenericListArray::<O>::try_new(of_type(item, &values), offsets, values, nulls)?))
}

fn wide(offsets: &OffsetBuffer<i32>) -> OffsetBuffer<i64> {
    let wide: Vec<i64> = offsets.iter().map(|offset| i64::from(*offset)).collect();
    OffsetBuffer::new(ScalarBuffer::from(wide))
}

type Parts = (OffsetBuffer<i64>, Buffer, Option<NullBuffer>);

fn text(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let (offsets, bytes, nulls): Parts = if let Some(array) = array.as_string_opt::<i32>() {
        let (offsets, bytes, nulls) = array.clone().into_parts();
        (wide(&offsets), bytes, nulls)
    } else {
        let views = array.as_byte_view::<StringViewType>();
        let owned: LargeStringArray = views.iter().collect();
        owned.into_parts()
    };
    Ok(Arc::new(LargeStringArray::try_new(offsets, bytes, nulls)?))
}

fn binary(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let (offsets, bytes, nulls): Parts = if let Some(array) = array.as_binary_opt::<i32>() {
        let (offsets, bytes, nulls) = array.clone().into_parts();
        (wide(&offsets), bytes, nulls)
    } else {
        let views = array.as_byte_view::<BinaryViewType>();
        let owned: LargeBinaryArray = views.iter().collect();
        owned.into_parts()
    };
    Ok(Arc::new(LargeBinaryArray::try_new(offsets, bytes, nulls)?))
}

/// A number as a wider one of its family; `None` for other types.
fn number(array: &ArrayRef, to: &DataType) -> Option<ArrayRef> {
    fn of<A: ArrowPrimitiveType, B: ArrowPrimitiveType>(array: &ArrayRef) -> Option<ArrayRef>
    where
        B::Native: From<A::Native>,
    {
        Some(Arc::new(array.as_primitive_opt::<A>()?.unary::<_, B>(B::Native::from)))
    }
    use DataType as T;
    match (array.data_type(), to) {
        (T::Int8, T::Int16) => of::<Int8Type, Int16Type>(array),
        (T::Int8, T::Int32) => of::<Int8Type, Int32Type>(array),
        (T::Int8, T::Int64) => of::<Int8Type, Int64Type>(array),
        (T::Int16, T::Int32) => of::<Int16Type, Int32Type>(array),
        (T::Int16, T::Int64) => of::<Int16Type, Int64Type>(array),
        (T::Int32, T::Int64) => of::<Int32Type, Int64Type>(array),
        (T::UInt8, T::UInt16) => of::<UInt8Type, UInt16Type>(array),
        (T::UInt8, T::UInt32) => of::<UInt8Type, UInt32Type>(array),
        (T::UInt8, T::UInt64) => of::<UInt8Type, UInt64Type>(array),
        (T::UInt16, T::UInt32) => of::<UInt16Type, UInt32Type>(array),
        (T::UInt16, T::UInt64) => of::<UInt16Type, UInt64Type>(array),
        (T::UInt32, T::UInt64) => of::<UInt32Type, UInt64Type>(array),
        (T::Float16, T::Float32) => of::<Float16Type, Float32Type>(array),
        (T::Float16, T::Float64) => of::<Float16Type, Float64Type>(array),
        (T::Float32, T::Float64) => of::<Float32Type, Float64Type>(array),
        _ => None,
    }
}
