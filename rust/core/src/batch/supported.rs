//! Which Arrow types and columns are supported.

use std::collections::HashSet;

use arrow_schema::{DataType, Fields, Schema};

use super::{
    column_spec::column_specs,
    dtype::Dtype,
    encoded::plain_type,
    lists::list_item,
    style::{Binary, Style, Styles},
};
use crate::error::{Error, Result};

/// Refuses columns of unsupported types, and columns that would get the same name.
///
/// # Errors
///
/// [`crate::ErrorKind::Schema`] naming the first such column.
pub fn check_supported(schema: &Schema, styles: &Styles) -> Result<()> {
    for field in schema.fields() {
        if let Some(unsupported) = first_unsupported(field.data_type()) {
            let name = match unsupported {
                DataType::Union(..) => "union",
                DataType::Interval(..) => "interval",
                _ => "type",
            };
            return Err(Error::schema(
                field.name(),
                format!(
                    "Arrow {name} {unsupported} is not supported: it has no one NumPy dtype; \
                     leave the column out with columns=[...]"
                ),
            ));
        }
    }
    let style = |name: &str| styles.of(name);
    check_names("", schema.fields(), &style)
}

fn first_unsupported(data_type: &DataType) -> Option<&DataType> {
    use DataType as T;
    match plain_type(data_type) {
        T::FixedSizeList(item, _) => first_unsupported(item.data_type()),
        T::Struct(fields) => fields.iter().find_map(|field| first_unsupported(field.data_type())),
        T::Map(entries, _) => first_unsupported(entries.data_type()),
        T::Null | T::FixedSizeBinary(_) => None,
        plain if is_text(plain) || plain.is_binary() || plain.is_decimal() => None,
        other => match list_item(other) {
            Some(item) => first_unsupported(item.data_type()),
            None => Dtype::of(other).is_none().then_some(other),
        },
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Refuses columns or fields that would have the same name in one dictionary.
fn check_names(path: &str, fields: &Fields, style: &dyn Fn(&str) -> Style) -> Result<()> {
    let mut seen = HashSet::new();
    for field in fields {
        let style_here = style(field.name());
        let (style, binary) = (Some(style_here), Binary::default());
        for (name, _) in column_specs(field.name(), field.data_type(), style, binary) {
            if !seen.insert(name.clone()) {
                return Err(Error::schema(
                    format!("{path}{name}"),
                    "two columns would have this name; rename one of them where the shards are \
                     written, or leave it out with columns=[...]",
                ));
            }
        }
        let within = format!("{path}{}.", field.name());
        each_struct(field.data_type(), &mut |fields| {
            check_names(&within, fields, &|_| style_here)
        })?;
    }
    Ok(())
}

/// Calls `visit` with the fields of the outermost structs of this type.
fn each_struct(data_type: &DataType, visit: &mut dyn FnMut(&Fields) -> Result<()>) -> Result<()> {
    use DataType as T;
    match plain_type(data_type) {
        T::Struct(fields) => visit(fields),
        T::FixedSizeList(item, _) => each_struct(item.data_type(), visit),
        T::Map(entries, _) => match entries.data_type() {
            // Entries become pairs, not dictionaries, so that their names do not matter.
            T::Struct(pair) => {
                pair.iter().try_for_each(|field| each_struct(field.data_type(), visit))
            }
            _ => Ok(()),
        },
        other => match list_item(other) {
            Some(item) => each_struct(item.data_type(), visit),
            None => Ok(()),
        },
    }
}
