//! Dictionaries in the Arrow schema that a file holds.
//!
//! In Parquet a dictionary is an encoding of pages, and no type. Where Arrow's schema has one, the
//! crate makes it of the values, and knows how for some types only: it panics on booleans. Users get the
//! values whichever type the column has. So only dictionaries of strings and of bytes stay, which save
//! memory.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};

/// The schema with the values' types in the place of other dictionaries; `None` where it has none.
pub(super) fn without_dictionaries(schema: &SchemaRef) -> Option<SchemaRef> {
    let fields: Vec<FieldRef> = schema.fields().iter().map(plain_field).collect();
    let is_same = fields.iter().eq(schema.fields());
    (!is_same).then(|| Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())))
}

/// The schema's depth was checked.
fn plain_field(field: &FieldRef) -> FieldRef {
    let plain = plain_type(field.data_type());
    if plain == *field.data_type() {
        return Arc::clone(field);
    }
    Arc::new(Field::clone(field).with_data_type(plain))
}

fn plain_type(data_type: &DataType) -> DataType {
    use DataType as T;
    match data_type {
        T::Dictionary(_, values) => match **values {
            T::Utf8 | T::LargeUtf8 | T::Utf8View | T::Binary | T::LargeBinary | T::BinaryView => {
                data_type.clone()
            }
            _ => plain_type(values),
        },
        T::List(item) => T::List(plain_field(item)),
        T::LargeList(item) => T::LargeList(plain_field(item)),
        T::ListView(item) => T::ListView(plain_field(item)),
        T::LargeListView(item) => T::LargeListView(plain_field(item)),
        T::FixedSizeList(item, n) => T::FixedSizeList(plain_field(item), *n),
        T::Map(entries, is_sorted) => T::Map(plain_field(entries), *is_sorted),
        T::Struct(fields) => T::Struct(fields.iter().map(plain_field).collect()),
        other => other.clone(),
    }
}
