//! Lists of classes as arrays of 0 and 1.

use std::collections::HashMap;

use arrow_array::{
    Array, ArrayRef,
    cast::AsArray,
    types::{
        Int8Type, Int16Type, Int32Type, Int64Type, StringViewType, UInt8Type, UInt16Type,
        UInt32Type, UInt64Type,
    },
};
use arrow_schema::DataType;

use super::{
    Column, Dtype, Reservation, SizeLimit,
    encoded::{is_encoded, plain_type, referred, referred_values},
    gathered_column::ColumnError,
    lists::{items_of, list_item},
    reservation,
};
use crate::error::{Error, Result};

/// The classes of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Classes {
    /// Ids from 0 to below this number.
    Count(usize),
    /// Their names, in the order of the ids.
    Names(Vec<String>),
}

impl Classes {
    /// The number of classes.
    pub fn len(&self) -> usize {
        match self {
            Self::Count(n) => *n,
            Self::Names(names) => names.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// How a column of classes becomes an array.
#[derive(Clone, Debug)]
pub(crate) struct MultiHot {
    n_classes: usize,
    /// By name, where names are known.
    ids: HashMap<String, usize>,
}

impl MultiHot {
    /// That of a column of this type.
    ///
    /// # Errors
    ///
    /// Where the type holds no classes, or names whose ids are not known; a name that occurs twice.
    pub(crate) fn new(name: &str, data_type: &DataType, classes: &Classes) -> Result<Self> {
        let item = item_type(data_type);
        let mut ids = HashMap::new();
        if let Classes::Names(names) = classes {
            for (id, class) in names.iter().enumerate() {
                if ids.insert(class.clone(), id).is_some() {
                    let reason = format!("multi_hot has the class {class:?} twice; name each once");
                    return Err(Error::schema(name, reason));
                }
            }
        }
        let is_text = matches!(item, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
        if !item.is_integer() && !is_text {
            let reason = format!(
                "multi_hot takes lists of class ids or of names, and this column has {data_type}; \
                 name another one"
            );
            return Err(Error::schema(name, reason));
        }
        if is_text && ids.is_empty() {
            let reason = format!(
                "multi_hot needs the classes' names for a column of text; write \
                 multi_hot={{{name:?}: [\"first\", \"second\", ...]}}"
            );
            return Err(Error::schema(name, reason));
        }
        Ok(Self { n_classes: classes.len(), ids })
    }

    /// The number of classes.
    pub(crate) fn n_classes(&self) -> usize {
        self.n_classes
    }

    /// The column `name` of these rows, each an array and an index in it: `(rows, classes)`.
    pub(super) fn column(
        &self,
        name: &str,
        rows: &[(&ArrayRef, usize)],
        limit: &SizeLimit,
        reservation: &Reservation,
    ) -> Result<Column, ColumnError> {
        let width = self.n_classes * size_of::<f32>();
        limit.take(rows.len(), width)?;
        let mut buf = reservation::buffer(Some(reservation), rows.len() * width)?;
        buf.as_bytes_mut().fill(0);
        let mut ids = Vec::new();
        for (at, (array, index)) in rows.iter().enumerate() {
            let error = |reason| ColumnError::At { path: name.to_owned(), at, reason };
            ids.clear();
            self.ids_of(array, *index, &mut ids).map_err(error)?;
            for id in &ids {
                let start = at * width + id * size_of::<f32>();
                let place = buf.as_bytes_mut().get_mut(start..start + size_of::<f32>());
                if let Some(place) = place {
                    place.copy_from_slice(&1f32.to_ne_bytes());
                }
            }
        }
        Ok(Column::Values {
            buf: buf.into(),
            dtype: Dtype::F32,
            shape: vec![rows.len(), self.n_classes],
        })
    }

    /// Adds the ids of a row's classes.
    fn ids_of(&self, array: &ArrayRef, at: usize, ids: &mut Vec<usize>) -> Result<(), String> {
        let text = |e: Error| e.to_string();
        if at >= array.len() || array.is_null(at) {
            return Err("a null is no class; exclude the row, or leave the column out of \
                        multi_hot="
                .to_owned());
        }
        if is_encoded(array.data_type()) {
            let values = referred_values(array).map_err(text)?;
            return self.ids_of(&values, referred(array, at).map_err(text)?, ids);
        }
        if list_item(array.data_type()).is_some()
            || matches!(array.data_type(), DataType::FixedSizeList(..))
        {
            let (items, start, len) = items_of(array, at).map_err(text)?;
            return (start..start + len).try_for_each(|item| self.ids_of(&items, item, ids));
        }
        ids.push(self.id(array, at)?);
        Ok(())
    }

    /// The id of one class.
    fn id(&self, array: &ArrayRef, at: usize) -> Result<usize, String> {
        if let Some(name) = class_name(array, at) {
            return self.ids.get(name).copied().ok_or_else(|| {
                let shown: String = name.chars().take(80).collect();
                format!("{shown:?} is none of the {} classes of multi_hot=", self.n_classes)
            });
        }
        let id = integer(array, at).ok_or("its values are no class ids")?;
        usize::try_from(id).ok().filter(|id| *id < self.n_classes).ok_or_else(|| {
            format!(
                "{id} is no class id: multi_hot= has {} classes, from 0 on; give more classes, or \
                 exclude the row",
                self.n_classes
            )
        })
    }
}

/// The type of the classes themselves.
fn item_type(data_type: &DataType) -> &DataType {
    match plain_type(data_type) {
        DataType::FixedSizeList(item, _) => item_type(item.data_type()),
        other => list_item(other).map_or(other, |item| item_type(item.data_type())),
    }
}

fn class_name(array: &ArrayRef, at: usize) -> Option<&str> {
    match array.data_type() {
        DataType::Utf8 => Some(array.as_string::<i32>().value(at)),
        DataType::LargeUtf8 => Some(array.as_string::<i64>().value(at)),
        DataType::Utf8View => Some(array.as_byte_view::<StringViewType>().value(at)),
        _ => None,
    }
}

fn integer(array: &ArrayRef, at: usize) -> Option<i128> {
    macro_rules! of {
        ($type:ty) => {
            array.as_primitive_opt::<$type>().map(|array| i128::from(array.value(at)))
        };
    }
    match array.data_type() {
        DataType::Int8 => of!(Int8Type),
        DataType::Int16 => of!(Int16Type),
        DataType::Int32 => of!(Int32Type),
        DataType::Int64 => of!(Int64Type),
        DataType::UInt8 => of!(UInt8Type),
        DataType::UInt16 => of!(UInt16Type),
        DataType::UInt32 => of!(UInt32Type),
        DataType::UInt64 => of!(UInt64Type),
        _ => None,
    }
}
