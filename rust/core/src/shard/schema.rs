//! Whether two schemas are the same, and the types in them.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, Schema};

use super::extension::meaning;

/// The first difference of two schemas: the dotted path of its column, and what differs.
///
/// Names, types and nullability count, at every depth. Metadata does not: `datasets` writes
/// fingerprints there that differ from shard to shard. Nor do the names of lists' items and maps'
/// entries: Parquet has others than Arrow.
pub(super) fn first_difference(a: &Fields, b: &Fields) -> Option<(String, String)> {
    for (left, right) in a.iter().zip(b.iter()) {
        if left.name() != right.name() {
            let what = format!(
                "a column is called '{}' in one, '{}' in the other",
                left.name(),
                right.name()
            );
            return Some((left.name().clone(), what));
        }
        if let (DataType::Struct(l), DataType::Struct(r)) = (left.data_type(), right.data_type())
            && let Some((child, what)) = first_difference(l, r)
        {
            return Some((format!("{}.{child}", left.name()), what));
        }
        let (l, r) = (plain_type(left.data_type()), plain_type(right.data_type()));
        if l != r {
            return Some((left.name().clone(), format!("type {l} in one, {r} in the other")));
        }
        if left.is_nullable() != right.is_nullable() {
            let what = "may be null in one, may not in the other".to_owned();
            return Some((left.name().clone(), what));
        }
    }
    let (longer, shorter) = if a.len() > b.len() { (a, b) } else { (b, a) };
    longer
        .get(shorter.len())
        .map(|extra| (extra.name().clone(), "only one of them has it".to_owned()))
}

/// Whether two schemas are the same, as [`first_difference`] compares them.
pub(super) fn is_same_schema(a: &Fields, b: &Fields) -> bool {
    first_difference(a, b).is_none()
}

/// The columns without what does not count: those of two schemas are equal where these are the same.
pub(super) fn plain_fields(fields: &Fields) -> Vec<Field> {
    fields.iter().map(|field| plain_field(field)).collect()
}

fn plain_field(field: &Field) -> Field {
    let meaning = meaning(field);
    let data_type = plain_type(meaning.as_ref().unwrap_or(field.data_type()));
    Field::new(field.name(), data_type, field.is_nullable())
}

/// Whether two columns have the same type, as [`first_difference`] compares them.
pub(crate) fn is_same_type(a: &DataType, b: &DataType) -> bool {
    plain_type(a) == plain_type(b)
}

/// The type of a column, or of a field of a struct by all names that lead to it.
pub(super) fn type_at<'a>(schema: &'a Schema, names: &[String]) -> Option<&'a DataType> {
    let (column, fields) = names.split_first()?;
    let mut data_type = schema.column_with_name(column)?.1.data_type();
    for field in fields {
        let DataType::Struct(children) = data_type else { return None };
        data_type = children.find(field)?.1.data_type();
    }
    Some(data_type)
}

/// The items of a list, whose name is the format's or the writer's: `item`, `element` or `array`.
fn items(field: &Field) -> FieldRef {
    Arc::new(plain_field(field).with_name("item"))
}

/// The entries of a map, whose names differ as those of items do.
fn entries(field: &Field) -> FieldRef {
    let plain = match field.data_type() {
        DataType::Struct(pair) => DataType::Struct(pair.iter().map(|field| items(field)).collect()),
        other => plain_type(other),
    };
    Arc::new(Field::new("entries", plain, false))
}

/// The type without the metadata of nested fields, and without names that no user sees.
fn plain_type(data_type: &DataType) -> DataType {
    use DataType as T;
    match data_type {
        T::List(f) => T::List(items(f)),
        T::LargeList(f) => T::LargeList(items(f)),
        T::ListView(f) => T::ListView(items(f)),
        T::LargeListView(f) => T::LargeListView(items(f)),
        T::FixedSizeList(f, n) => T::FixedSizeList(items(f), *n),
        T::Map(f, sorted) => T::Map(entries(f), *sorted),
        T::Struct(fields) => T::Struct(fields.iter().map(|f| plain_field(f)).collect()),
        T::Dictionary(keys, values) => T::Dictionary(keys.clone(), Box::new(plain_type(values))),
        T::RunEndEncoded(ends, values) => {
            T::RunEndEncoded(plain_field(ends).into(), plain_field(values).into())
        }
        T::Union(fields, mode) => {
            let plain = fields.iter().map(|(id, f)| (id, plain_field(f).into())).collect();
            T::Union(plain, *mode)
        }
        other => other.clone(),
    }
}
