//! The schema in a message, and the ids of its dictionaries.

use arrow_ipc::{Endianness, Message, convert::try_fb_to_schema};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, Schema};

use super::super::guard;
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

/// The ids of the dictionaries that these fields need, at any depth.
pub(super) fn dictionary_ids(fields: &Fields) -> Vec<i64> {
    let mut ids = Vec::new();
    fields.iter().for_each(|field| add_dictionary_ids(field, &mut ids));
    ids
}

/// This field's own first.
fn add_dictionary_ids(field: &Field, ids: &mut Vec<i64>) {
    if let DataType::Dictionary(..) = field.data_type()
        && let Some(id) = dictionary_id(field)
        && !ids.contains(&id)
    {
        ids.push(id);
    }
    for child in children(field.data_type()) {
        add_dictionary_ids(child, ids);
    }
}

/// The id of a dictionary-encoded field's dictionary.
#[expect(deprecated, reason = "arrow-ipc finds the dictionaries to decode by this id itself")]
pub(super) fn dictionary_id(field: &Field) -> Option<i64> {
    field.dict_id()
}

/// The type of the values of dictionary `id`, by the first field that uses it.
pub(super) fn dictionary_values(fields: &Fields, id: i64) -> Option<DataType> {
    fn find(field: &Field, id: i64) -> Option<DataType> {
        if let DataType::Dictionary(_, values) = field.data_type()
            && dictionary_id(field) == Some(id)
        {
            return Some(values.as_ref().clone());
        }
        children(field.data_type()).into_iter().find_map(|child| find(child, id))
    }
    fields.iter().find_map(|field| find(field, id))
}

/// The fields directly below this type, or below that of a dictionary's values.
pub(super) fn children(data_type: &DataType) -> Vec<&FieldRef> {
    use DataType as T;
    match data_type {
        T::List(f)
        | T::LargeList(f)
        | T::ListView(f)
        | T::LargeListView(f)
        | T::FixedSizeList(f, _)
        | T::Map(f, _) => vec![f],
        T::Struct(fields) => fields.iter().collect(),
        T::Union(fields, _) => fields.iter().map(|(_, f)| f).collect(),
        T::RunEndEncoded(ends, values) => vec![ends, values],
        T::Dictionary(_, values) => children(values),
        _ => Vec::new(),
    }
}
