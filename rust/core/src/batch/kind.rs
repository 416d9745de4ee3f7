//! Which Arrow types become NumPy values, and where a null has no value to become.

use arrow_array::{Array, ArrayRef, cast::AsArray};
use arrow_schema::{DataType, Schema};

use crate::error::{Error, Result};

/// Refuses columns of types that have no NumPy value here.
///
/// # Errors
///
/// [`crate::ErrorKind::Schema`] naming the first such column.
pub fn check_supported(schema: &Schema) -> Result<()> {
    for field in schema.fields() {
        if let Some(unsupported) = first_unsupported(field.data_type()) {
            return Err(Error::schema(
                field.name(),
                format!(
                    "Arrow type {unsupported} is not supported; leave it out with columns=[...]"
                ),
            ));
        }
    }
    Ok(())
}

fn first_unsupported(data_type: &DataType) -> Option<&DataType> {
    use DataType as T;
    match data_type {
        T::Null => None,
        plain if is_text(plain) || plain.is_binary() => None,
        T::List(item) | T::LargeList(item) | T::FixedSizeList(item, _) => match item.data_type() {
            plain if is_text(plain) || is_fixed_width(plain) => None,
            other => Some(other),
        },
        T::Struct(fields) => fields.iter().find_map(|field| first_unsupported(field.data_type())),
        T::Dictionary(_, values) => first_unsupported(values),
        other => (!is_fixed_width(other)).then_some(other),
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Types that fill a NumPy array of their own dtype, where a null has no value.
fn is_fixed_width(data_type: &DataType) -> bool {
    use DataType as T;
    matches!(data_type, T::Boolean | T::Date32 | T::Date64 | T::Timestamp(..) | T::Duration(_))
        || (data_type.is_numeric()
            && !matches!(
                data_type,
                T::Decimal32(..) | T::Decimal64(..) | T::Decimal128(..) | T::Decimal256(..)
            ))
}

/// The first row that is null where a batch needs a value, and the dotted path of its column.
pub(super) fn first_null(name: &str, array: &ArrayRef) -> Option<(String, usize)> {
    let here = |row| Some((name.to_owned(), row));
    match array.data_type() {
        DataType::Struct(fields) => {
            let parent = array.as_struct();
            if let Some(row) = (0..parent.len()).find(|&row| parent.is_null(row)) {
                return here(row);
            }
            fields
                .iter()
                .zip(parent.columns())
                .find_map(|(field, child)| first_null(&format!("{name}.{}", field.name()), child))
        }
        DataType::FixedSizeList(item, width) if is_fixed_width(item.data_type()) => {
            let list = array.as_fixed_size_list();
            let width = usize::try_from(*width).unwrap_or(0);
            (0..list.len())
                .find(|&row| list.is_null(row) || (width > 0 && list.value(row).null_count() > 0))
                .and_then(here)
        }
        // A null may be a key, or a value that keys refer to.
        DataType::Dictionary(_, values) if is_fixed_width(values) => {
            let nulls = array.logical_nulls()?;
            (0..nulls.len()).find(|&row| nulls.is_null(row)).and_then(here)
        }
        other if is_fixed_width(other) => (array.null_count() > 0)
            .then(|| (0..array.len()).find(|&row| array.is_null(row)))?
            .and_then(here),
        _ => None,
    }
}
