//! Extension types of Arrow that say more than their storage type does: Booleans in bytes, and tensors.
//!
//! They are read as they are stored, and become what they stand for behind that. All others stay their
//! storage type.
//! See <https://arrow.apache.org/docs/format/CanonicalExtensions.html>.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, FixedSizeListArray, GenericListArray, OffsetSizeTrait,
    StructArray, cast::AsArray, types::Int8Type,
};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields};
use serde_json::Value;

const NAME: &str = "ARROW:extension:name";
const METADATA: &str = "ARROW:extension:metadata";

/// The most dimensions of an array in NumPy, one of which is that of the rows.
const MAX_DIMENSIONS: usize = 63;

/// The type that a field stands for; `None` where it is that of its storage.
pub(crate) fn meaning(field: &Field) -> Option<DataType> {
    use DataType as T;
    match (field.metadata().get(NAME).map(String::as_str), field.data_type()) {
        (Some("arrow.bool8"), T::Int8) => Some(T::Boolean),
        (Some("arrow.fixed_shape_tensor"), T::FixedSizeList(item, _)) => {
            let shape = shape(field)?;
            let (first, inner) = shape.split_first()?;
            Some(T::FixedSizeList(list_of(item, inner), *first))
        }
        (_, T::Struct(fields)) => of_fields(fields).map(T::Struct),
        (_, T::List(item)) => meant(item).map(T::List),
        (_, T::LargeList(item)) => meant(item).map(T::LargeList),
        (_, T::FixedSizeList(item, n)) => meant(item).map(|item| T::FixedSizeList(item, *n)),
        _ => None,
    }
}

/// The field with the type that it stands for; `None` where that is its own.
fn meant(field: &FieldRef) -> Option<FieldRef> {
    let data_type = meaning(field)?;
    Some(Arc::new(Field::new(field.name(), data_type, field.is_nullable())))
}

fn of_fields(fields: &Fields) -> Option<Fields> {
    let meant: Vec<Option<FieldRef>> = fields.iter().map(meant).collect();
    let is_any = meant.iter().any(Option::is_some);
    let of_each = meant.into_iter().zip(fields);
    is_any.then(|| of_each.map(|(new, own)| new.unwrap_or_else(|| Arc::clone(own))).collect())
}

/// The dimensions of a tensor, at least two; `None` where its storage has another number of values, or
/// they are stored in another order than that of the dimensions.
fn shape(field: &Field) -> Option<Vec<i32>> {
    let DataType::FixedSizeList(_, n) = field.data_type() else { return None };
    let metadata: Value = serde_json::from_str(field.metadata().get(METADATA)?).ok()?;
    let shape = metadata.get("shape")?.as_array()?.iter();
    let shape = shape.map(|n| i32::try_from(n.as_i64()?).ok()).collect::<Option<Vec<i32>>>()?;
    let order = metadata.get("permutation").filter(|order| !order.is_null());
    let is_in_order = order.is_none_or(|order| {
        let order = order.as_array().into_iter().flatten();
        order.map(Value::as_u64).eq((0..shape.len() as u64).map(Some))
    });
    let n_values = shape.iter().try_fold(1_i32, |n, size| n.checked_mul(*size))?;
    let fits = n_values == *n && n_values > 0 && shape.iter().all(|size| *size > 0);
    let has_dimensions = (2..=MAX_DIMENSIONS).contains(&shape.len());
    (is_in_order && fits && has_dimensions).then_some(shape)
}

/// Lists of these sizes, one in another, as the item of a list.
fn list_of(item: &FieldRef, sizes: &[i32]) -> FieldRef {
    sizes.iter().rev().fold(Arc::clone(item), |item, size| {
        Arc::new(Field::new("item", DataType::FixedSizeList(item, *size), false))
    })
}

/// The values as what their field stands for; `None` where that is what is stored.
pub(super) fn values(array: &ArrayRef, field: &Field) -> Result<Option<ArrayRef>, ArrowError> {
    use DataType as T;
    let Some(data_type) = meaning(field) else { return Ok(None) };
    let wrong = || ArrowError::SchemaError(format!("no values of type {data_type}"));
    Ok(Some(match (&data_type, field.data_type()) {
        (T::Boolean, _) => {
            let stored = array.as_primitive_opt::<Int8Type>().ok_or_else(wrong)?;
            let is_true = |at: usize| stored.values().get(at).is_some_and(|value| *value != 0);
            let bits = BooleanBuffer::collect_bool(stored.len(), is_true);
            Arc::new(BooleanArray::new(bits, stored.nulls().cloned()))
        }
        (T::Struct(fields), T::Struct(own)) => {
            let parent = array.as_struct_opt().ok_or_else(wrong)?;
            let children = parent.columns().iter().zip(own);
            let children = children.map(|(child, field)| values_or_same(child, field));
            let children = children.collect::<Result<_, _>>()?;
            let (nulls, len) = (parent.nulls().cloned(), parent.len());
            Arc::new(StructArray::try_new_with_length(fields.clone(), children, nulls, len)?)
        }
        (T::List(item), T::List(own)) => {
            of_lists(array.as_list_opt::<i32>().ok_or_else(wrong)?, item, own)?
        }
        (T::LargeList(item), T::LargeList(own)) => {
            of_lists(array.as_list_opt::<i64>().ok_or_else(wrong)?, item, own)?
        }
        (T::FixedSizeList(..), T::FixedSizeList(own, _)) => {
            let lists = array.as_fixed_size_list_opt().ok_or_else(wrong)?;
            let inner = values_or_same(lists.values(), own)?;
            nested(&data_type, inner, lists)?
        }
        _ => return Err(wrong()),
    }))
}

fn values_or_same(array: &ArrayRef, field: &Field) -> Result<ArrayRef, ArrowError> {
    Ok(values(array, field)?.unwrap_or_else(|| Arc::clone(array)))
}

fn of_lists<O: OffsetSizeTrait>(
    lists: &GenericListArray<O>,
    item: &FieldRef,
    own: &Field,
) -> Result<ArrayRef, ArrowError> {
    let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
    let values = values_or_same(lists.values(), own)?;
    Ok(Arc::new(GenericListArray::<O>::try_new(Arc::clone(item), offsets, values, nulls)?))
}

/// These values as lists of lists of this type, the outermost of which are null where `outer` is.
fn nested(
    data_type: &DataType,
    innermost: ArrayRef,
    outer: &FixedSizeListArray,
) -> Result<ArrayRef, ArrowError> {
    let mut levels = Vec::new();
    let mut of = data_type;
    while let DataType::FixedSizeList(item, size) = of
        && of != innermost.data_type()
    {
        levels.push((Arc::clone(item), *size));
        of = item.data_type();
    }
    let mut array = innermost;
    let mut n_lists = outer.len();
    let mut lens = Vec::new();
    for (_, size) in &levels {
        lens.push(n_lists);
        n_lists = n_lists.saturating_mul(usize::try_from(*size).unwrap_or(0));
    }
    for (depth, ((item, size), len)) in levels.into_iter().zip(lens).enumerate().rev() {
        let nulls = if depth == 0 { outer.nulls().cloned() } else { None };
        array = Arc::new(FixedSizeListArray::try_new_with_length(item, size, array, nulls, len)?);
    }
    Ok(array)
}
