//! The schema of a shard, and whether two shards have the same one.

use arrow_ipc::{Endianness, Message, convert::try_fb_to_schema};
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema};

use super::guard;
use crate::{Error, Result};

/// The schema in the first message of a stream.
pub(super) fn read(message: &Message<'_>) -> Result<Schema> {
    let schema = message.header_as_schema().ok_or_else(|| {
        let kind = message.header_type().variant_name().unwrap_or("unknown");
        Error::corrupt(format!("the first message is a {kind}, where the schema belongs"))
    })?;
    convert(schema)
}

/// The schema in a message or in a file's footer.
pub(super) fn convert(schema: arrow_ipc::Schema<'_>) -> Result<Schema> {
    if schema.endianness() != Endianness::Little {
        return Err(Error::schema(
            "",
            "big-endian data is not read; write the shard on a little-endian machine",
        ));
    }
    guard::contain("the schema", || {
        try_fb_to_schema(schema).map_err(|e| match e {
            ArrowError::NotYetImplemented(reason) => Error::schema("", reason),
            e => Error::corrupt(format!("the schema does not parse: {e}")),
        })
    })
}

/// What first differs between two schemas, with the dotted path of the column that it is in.
///
/// Names, types and nullability count, at every depth. Metadata does not: `datasets` writes
/// fingerprints there that differ from shard to shard.
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

fn plain_field(field: &Field) -> Field {
    Field::new(field.name(), plain_type(field.data_type()), field.is_nullable())
}

/// The type without the metadata of nested fields.
fn plain_type(data_type: &DataType) -> DataType {
    use DataType as T;
    match data_type {
        T::List(f) => T::List(plain_field(f).into()),
        T::LargeList(f) => T::LargeList(plain_field(f).into()),
        T::ListView(f) => T::ListView(plain_field(f).into()),
        T::LargeListView(f) => T::LargeListView(plain_field(f).into()),
        T::FixedSizeList(f, n) => T::FixedSizeList(plain_field(f).into(), *n),
        T::Map(f, sorted) => T::Map(plain_field(f).into(), *sorted),
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

/// The ids of the dictionaries that a value of this type needs, this field's own first.
pub(super) fn dictionary_ids(field: &Field, ids: &mut Vec<i64>) {
    if let DataType::Dictionary(..) = field.data_type()
        && let Some(id) = dictionary_id(field)
        && !ids.contains(&id)
    {
        ids.push(id);
    }
    each_child(field.data_type(), &mut |child| dictionary_ids(child, ids));
}

/// A dictionary-encoded field's dictionary.
#[expect(deprecated, reason = "arrow-ipc finds the dictionaries to decode by this id itself")]
pub(super) fn dictionary_id(field: &Field) -> Option<i64> {
    field.dict_id()
}

/// The type of the values of dictionary `id`, as the first field that uses it has it.
pub(super) fn dictionary_values(fields: &Fields, id: i64) -> Option<DataType> {
    fn find(field: &Field, id: i64) -> Option<DataType> {
        if let DataType::Dictionary(_, values) = field.data_type()
            && dictionary_id(field) == Some(id)
        {
            return Some(values.as_ref().clone());
        }
        let mut found = None;
        each_child(field.data_type(), &mut |child| {
            if found.is_none() {
                found = find(child, id);
            }
        });
        found
    }
    fields.iter().find_map(|field| find(field, id))
}

/// Calls `visit` on the fields directly below this type, those of a dictionary's values included.
fn each_child(data_type: &DataType, visit: &mut dyn FnMut(&Field)) {
    use DataType as T;
    match data_type {
        T::List(f)
        | T::LargeList(f)
        | T::ListView(f)
        | T::LargeListView(f)
        | T::FixedSizeList(f, _)
        | T::Map(f, _) => visit(f),
        T::Struct(fields) => fields.iter().for_each(|f| visit(f)),
        T::Union(fields, _) => fields.iter().for_each(|(_, f)| visit(f)),
        T::RunEndEncoded(ends, values) => {
            visit(ends);
            visit(values);
        }
        T::Dictionary(_, values) => each_child(values, visit),
        _ => {}
    }
}
