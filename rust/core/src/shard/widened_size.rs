//! How many bytes widening takes, worked out before it takes them.
//!
//! A dictionary has a value once, and the rows that refer to it would each have a copy. An array of
//! nulls takes no memory, until it is one of wide lists.

use arrow_array::{Array, ArrayRef, cast::AsArray};
use arrow_schema::DataType;

use super::{schema::is_same_type, widen::keys};

/// An offset, or the largest number.
const WORD: u64 = 8;

/// The most bytes that an array takes as this type, beside those that it has.
pub(super) fn widened_bytes(array: &ArrayRef, to: &DataType) -> u64 {
    use DataType as T;
    if is_same_type(array.data_type(), to) {
        return 0;
    }
    let words = (array.len() as u64).saturating_add(1).saturating_mul(WORD);
    let within = match (array.data_type(), to) {
        (T::Null, _) => return null_bytes(to, array.len() as u64),
        (T::Dictionary(..), T::Dictionary(_, values)) => {
            // The keys twice: as they become, and in between.
            words.saturating_add(widened_bytes(array.as_any_dictionary().values(), values))
        }
        (T::Dictionary(..), _) => words.saturating_mul(2).saturating_add(referred_bytes(array)),
        (T::Struct(_), T::Struct(fields)) => {
            let children = array.as_struct();
            let child = |field: &arrow_schema::FieldRef| {
                let column = children.column_by_name(field.name())?;
                Some(widened_bytes(column, field.data_type()))
            };
            return fields.iter().filter_map(child).fold(0, u64::saturating_add);
        }
        (T::List(_), T::List(item) | T::LargeList(item)) => {
            widened_bytes(array.as_list::<i32>().values(), item.data_type())
        }
        (T::LargeList(_), T::LargeList(item)) => {
            widened_bytes(array.as_list::<i64>().values(), item.data_type())
        }
        (T::FixedSizeList(..), T::FixedSizeList(item, _)) => {
            return widened_bytes(array.as_fixed_size_list().values(), item.data_type());
        }
        (T::Utf8View, _) => view_bytes(array.as_string_view().lengths()),
        (T::BinaryView, _) => view_bytes(array.as_binary_view().lengths()),
        _ => 0,
    };
    words.saturating_add(within)
}

fn view_bytes(lengths: impl Iterator<Item = u32>) -> u64 {
    lengths.map(u64::from).fold(0, u64::saturating_add)
}

/// A view begins with its length, in 32 bits.
fn view_len(views: &[u128], at: usize) -> u64 {
    views.get(at).map_or(0, |view| u64::from(*view as u32))
}

/// Bytes of the values that a dictionary's keys refer to, each as often as it is referred to.
fn referred_bytes(array: &ArrayRef) -> u64 {
    let Ok(keys) = keys(array) else { return 0 }; // refused when it is widened
    let values = array.as_any_dictionary().values();
    let len_of = |at: usize| match values.data_type() {
        DataType::Utf8 => values.as_string::<i32>().value_length(at) as u64,
        DataType::LargeUtf8 => values.as_string::<i64>().value_length(at) as u64,
        DataType::Binary => values.as_binary::<i32>().value_length(at) as u64,
        DataType::LargeBinary => values.as_binary::<i64>().value_length(at) as u64,
        DataType::Utf8View => view_len(values.as_string_view().views(), at),
        DataType::BinaryView => view_len(values.as_binary_view().views(), at),
        fixed => fixed.primitive_width().unwrap_or(0) as u64,
    };
    let known = keys.iter().flatten().filter_map(|key| usize::try_from(key).ok());
    known.filter(|key| *key < values.len()).map(len_of).fold(0, u64::saturating_add)
}

/// Bytes of an array of so many nulls.
fn null_bytes(of: &DataType, len: u64) -> u64 {
    use DataType as T;
    let own = len.saturating_add(1).saturating_mul(match of {
        T::FixedSizeBinary(width) => (*width).max(1) as u64,
        other => other.primitive_width().map_or(2 * WORD, |width| width as u64 + 1),
    });
    let within = match of {
        T::FixedSizeList(item, n) => {
            null_bytes(item.data_type(), len.saturating_mul((*n).max(0) as u64))
        }
        T::Struct(fields) => {
            let child = |field: &arrow_schema::FieldRef| null_bytes(field.data_type(), len);
            fields.iter().map(child).fold(0, u64::saturating_add)
        }
        _ => 0,
    };
    own.saturating_add(within)
}
