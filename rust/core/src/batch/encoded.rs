//! Values that are encoded: as keys of a dictionary, or as runs of equal ones.

use arrow_array::{
    Array, ArrayRef, RunArray,
    cast::AsArray,
    types::{
        Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
    },
};
use arrow_schema::DataType;

use crate::error::{Error, Result};

/// Whether a type is that of a dictionary or of runs.
pub(super) fn is_encoded(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Dictionary(..) | DataType::RunEndEncoded(..))
}

/// The type of the values that an encoded type stands for; of any other type, itself.
pub(super) fn plain_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => plain_type(values),
        DataType::RunEndEncoded(_, values) => plain_type(values.data_type()),
        plain => plain,
    }
}

/// The index of value `at` in the value array of a dictionary or run-end encoded array.
pub(super) fn referred(array: &ArrayRef, at: usize) -> Result<usize> {
    macro_rules! key {
        ($keys:expr, $type:ty) => {
            $keys
                .as_primitive_opt::<$type>()
                .and_then(|keys| keys.values().get(at).copied())
                .and_then(|key| usize::try_from(key).ok())
        };
    }
    let found = match array.data_type() {
        DataType::Dictionary(key, _) => {
            let keys = array.as_any_dictionary().keys();
            match **key {
                DataType::Int8 => key!(keys, Int8Type),
                DataType::Int16 => key!(keys, Int16Type),
                DataType::Int32 => key!(keys, Int32Type),
                DataType::Int64 => key!(keys, Int64Type),
                DataType::UInt8 => key!(keys, UInt8Type),
                DataType::UInt16 => key!(keys, UInt16Type),
                DataType::UInt32 => key!(keys, UInt32Type),
                _ => key!(keys, UInt64Type),
            }
        }
        DataType::RunEndEncoded(..) if at < array.len() => {
            if let Some(runs) = array.as_run_opt::<Int16Type>() {
                Some(runs.get_physical_index(at))
            } else if let Some(runs) = array.as_run_opt::<Int32Type>() {
                Some(runs.get_physical_index(at))
            } else {
                array.as_run_opt::<Int64Type>().map(|runs| runs.get_physical_index(at))
            }
        }
        _ => None,
    };
    found.ok_or_else(|| Error::corrupt("a key of a dictionary lies outside it"))
}

/// The value array of a dictionary or run-end encoded array.
pub(super) fn referred_values(array: &ArrayRef) -> Result<ArrayRef> {
    let found = if let Some(dictionary) = array.as_any_dictionary_opt() {
        Some(dictionary.values())
    } else if let Some(runs) = array.as_run_opt::<Int16Type>() {
        Some(runs.values())
    } else if let Some(runs) = array.as_run_opt::<Int32Type>() {
        Some(runs.values())
    } else {
        array.as_run_opt::<Int64Type>().map(RunArray::values)
    };
    found.cloned().ok_or_else(|| Error::corrupt("an encoded column without values"))
}
