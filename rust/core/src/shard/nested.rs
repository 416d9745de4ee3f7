//! Fields of structs as columns of their own, by their dotted paths: also of lists of structs, whose
//! fields become lists.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, GenericListArray, GenericListViewArray, OffsetSizeTrait,
    StructArray, cast::AsArray, make_array,
};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, Schema};

use crate::{Error, Result};

/// The column of this name, else the column that a dotted path begins with, and the index of the field
/// in each struct from there on.
///
/// # Errors
///
/// `Schema` where there is none.
pub(super) fn find(schema: &Schema, name: &str) -> Result<(usize, Vec<usize>)> {
    locate(schema, name).ok_or_else(|| {
        let names: Vec<_> = schema.fields().iter().map(|f| f.name().as_str()).collect();
        Error::schema(name, format!("there is no such column; there are: {}", names.join(", ")))
    })
}

/// As [`find`].
pub(super) fn locate(schema: &Schema, name: &str) -> Option<(usize, Vec<usize>)> {
    if let Some((column, _)) = schema.column_with_name(name) {
        return Some((column, Vec::new()));
    }
    // Names may have dots in them, so the column is any prefix.
    schema.fields().iter().enumerate().find_map(|(column, field)| {
        let rest = name.strip_prefix(field.name().as_str())?.strip_prefix('.')?;
        Some((column, path_in(field.data_type(), rest)?))
    })
}

/// The indices of the fields that this path names. The schema's depth was checked.
fn path_in(data_type: &DataType, path: &str) -> Option<Vec<usize>> {
    let fields = record_fields(data_type)?;
    if let Some((at, _)) = fields.find(path) {
        return Some(vec![at]);
    }
    fields.iter().enumerate().find_map(|(at, field)| {
        let rest = path.strip_prefix(field.name().as_str())?.strip_prefix('.')?;
        let mut found = path_in(field.data_type(), rest)?;
        found.insert(0, at);
        Some(found)
    })
}

/// The fields of a struct, or of the structs in a list.
fn record_fields(data_type: &DataType) -> Option<&Fields> {
    match data_type {
        DataType::Struct(fields) => Some(fields),
        other => record_fields(item_of(other)?.data_type()),
    }
}

fn item_of(data_type: &DataType) -> Option<&FieldRef> {
    match data_type {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _) => Some(item),
        _ => None,
    }
}

/// The column of this name, or the field at a dotted path, as the column that it becomes.
pub(crate) fn field_at(schema: &Schema, name: &str) -> Option<Field> {
    let (column, path) = locate(schema, name)?;
    let field = schema.fields().get(column)?;
    if path.is_empty() { Some(Field::clone(field)) } else { column_at(field, name, &path) }
}

/// The number of the column that a field is in; `None` where this is no dotted path of one.
pub(crate) fn column_of_part(schema: &Schema, name: &str) -> Option<usize> {
    let (column, path) = locate(schema, name)?;
    (!path.is_empty()).then_some(column)
}

/// The field at this path of a column, as a column of this name.
pub(super) fn column_at(column: &Field, name: &str, path: &[usize]) -> Option<Field> {
    Some(Field::new(name, type_at(column.data_type(), path)?, true))
}

/// The type that the field at a path has as a column.
pub(super) fn type_at(data_type: &DataType, path: &[usize]) -> Option<DataType> {
    use DataType as T;
    let Some((at, rest)) = path.split_first() else { return Some(data_type.clone()) };
    let item = |item: &Field| {
        let data_type = type_at(item.data_type(), path)?;
        Some(Arc::new(Field::new(item.name(), data_type, true)))
    };
    Some(match data_type {
        T::Struct(fields) => type_at(fields.get(*at)?.data_type(), rest)?,
        T::List(of) => T::List(item(of)?),
        T::LargeList(of) => T::LargeList(item(of)?),
        T::ListView(of) => T::ListView(item(of)?),
        T::LargeListView(of) => T::LargeListView(item(of)?),
        T::FixedSizeList(of, n) => T::FixedSizeList(item(of)?, *n),
        _ => return None,
    })
}

/// The field at a path of a column, with the nulls of the structs around it. Values are shared.
pub(super) fn values_at(array: &ArrayRef, path: &[usize]) -> Result<ArrayRef, ArrowError> {
    use DataType as T;
    let Some((at, rest)) = path.split_first() else { return Ok(Arc::clone(array)) };
    match array.data_type() {
        T::Struct(_) => values_at(&child_of(array.as_struct(), *at)?, rest),
        T::List(_) => of_lists(array.as_list::<i32>(), path),
        T::LargeList(_) => of_lists(array.as_list::<i64>(), path),
        T::ListView(_) => of_list_views(array.as_list_view::<i32>(), path),
        T::LargeListView(_) => of_list_views(array.as_list_view::<i64>(), path),
        T::FixedSizeList(_, n) => {
            let lists = array.as_fixed_size_list();
            let values = values_at(lists.values(), path)?;
            let (item, nulls) = (item_like(lists.data_type(), &values), lists.nulls().cloned());
            let len = lists.len();
            Ok(Arc::new(FixedSizeListArray::try_new_with_length(item, *n, values, nulls, len)?))
        }
        other => Err(ArrowError::SchemaError(format!("{other} has no fields"))),
    }
}

fn child_of(of: &StructArray, at: usize) -> Result<ArrayRef, ArrowError> {
    let child = of.columns().get(at);
    let child = child.ok_or_else(|| ArrowError::SchemaError("a field is missing".to_owned()))?;
    if of.null_count() == 0 {
        return Ok(Arc::clone(child));
    }
    // These have no validity of their own.
    if matches!(child.data_type(), DataType::Null) {
        return Ok(Arc::clone(child));
    }
    if matches!(child.data_type(), DataType::RunEndEncoded(..) | DataType::Union(..)) {
        let what = format!("a null struct around a field of type {}", child.data_type());
        return Err(ArrowError::SchemaError(what));
    }
    let nulls = NullBuffer::union(child.nulls(), of.nulls());
    Ok(make_array(child.to_data().into_builder().nulls(nulls).build()?))
}

fn item_like(lists: &DataType, values: &ArrayRef) -> FieldRef {
    let name = item_of(lists).map_or("item", |item| item.name());
    Arc::new(Field::new(name, values.data_type().clone(), true))
}

fn of_lists<O: OffsetSizeTrait>(
    lists: &GenericListArray<O>,
    path: &[usize],
) -> Result<ArrayRef, ArrowError> {
    let values = values_at(lists.values(), path)?;
    let (item, nulls) = (item_like(lists.data_type(), &values), lists.nulls().cloned());
    Ok(Arc::new(GenericListArray::try_new(item, lists.offsets().clone(), values, nulls)?))
}

fn of_list_views<O: OffsetSizeTrait>(
    lists: &GenericListViewArray<O>,
    path: &[usize],
) -> Result<ArrayRef, ArrowError> {
    let values = values_at(lists.values(), path)?;
    let (item, nulls) = (item_like(lists.data_type(), &values), lists.nulls().cloned());
    let (offsets, sizes) = (lists.offsets().clone(), lists.sizes().clone());
    Ok(Arc::new(GenericListViewArray::try_new(item, offsets, sizes, values, nulls)?))
}
