//! The shapes and types of columns, from their Arrow types.

use arrow_schema::DataType;

use super::{
    dtype::Dtype,
    encoded::plain_type,
    gather::is_record,
    gathered_column::lengths_name,
    lists::list_item,
    style::{Binary, Ragged, Style},
};
use gristmill_audio::SampleType;

/// The specification of a column. Shapes are those of one row, with `None` where rows differ.
#[derive(Clone, Debug, PartialEq)]
pub enum ColumnSpec {
    /// Decoded audio.
    Samples(Vec<Option<usize>>, SampleType),
    /// Values of this dtype; objects without one.
    Array(Vec<Option<usize>>, Option<Dtype>),
    /// A struct's fields.
    Struct(Vec<(String, ColumnSpec)>),
}

/// An array's shape and dtype, and the shapes of the lengths of its padded lists.
struct ArraySpec {
    shape: Vec<Option<usize>>,
    dtype: Option<Dtype>,
    lengths: Vec<Vec<Option<usize>>>,
}

impl ArraySpec {
    fn objects() -> Self {
        Self { shape: Vec::new(), dtype: None, lengths: Vec::new() }
    }

    fn within(mut self, width: Option<usize>) -> Self {
        self.shape.insert(0, width);
        self.lengths.iter_mut().for_each(|shape| shape.insert(0, width));
        self
    }
}

/// The specifications of a column of this type, and of the lengths of its padded lists: in a batch of
/// `style`; without a style in single rows, where binary values may be arrays.
pub fn column_specs(
    name: &str,
    data_type: &DataType,
    style: Option<Style>,
    binary: Binary,
) -> Vec<(String, ColumnSpec)> {
    let data_type = plain_type(data_type);
    if let DataType::Struct(fields) = data_type {
        let fields = fields.iter();
        let fields = fields.flat_map(|f| column_specs(f.name(), f.data_type(), style, binary));
        return vec![(name.to_owned(), ColumnSpec::Struct(fields.collect()))];
    }
    let shaped = match (style, list_item(data_type), data_type) {
        (None, None, DataType::FixedSizeBinary(width)) if binary == Binary::Numpy => {
            bytes(usize::try_from(*width).ok())
        }
        (None, None, other) if other.is_binary() && binary == Binary::Numpy => bytes(None),
        (None, Some(item), _) => items(item.data_type(), None),
        (None, None, DataType::FixedSizeList(item, width)) => {
            items(item.data_type(), usize::try_from(*width).ok())
        }
        _ => array(data_type, style.unwrap_or_default().ragged),
    };
    let own = (name.to_owned(), ColumnSpec::Array(shaped.shape, shaped.dtype));
    let lengths = shaped.lengths.into_iter().enumerate().map(|(depth, shape)| {
        (lengths_name(name, depth), ColumnSpec::Array(shape, Some(Dtype::I32)))
    });
    std::iter::once(own).chain(lengths).collect()
}

/// A binary value as an array.
fn bytes(width: Option<usize>) -> ArraySpec {
    ArraySpec { dtype: Some(Dtype::U8), ..ArraySpec::objects() }.within(width)
}

/// A list of a single row.
fn items(item: &DataType, width: Option<usize>) -> ArraySpec {
    if is_record(item) {
        return ArraySpec::objects().within(width);
    }
    array(item, Ragged::Object).within(width)
}

/// One row of a column that is an array.
fn array(data_type: &DataType, ragged: Ragged) -> ArraySpec {
    match plain_type(data_type) {
        DataType::FixedSizeList(item, width) if !is_record(item.data_type()) => {
            array(item.data_type(), ragged).within(usize::try_from(*width).ok())
        }
        other => match list_item(other).map(|item| item.data_type()) {
            None => ArraySpec { dtype: Dtype::of(other), ..ArraySpec::objects() },
            Some(item) if is_record(item) || ragged == Ragged::Object => ArraySpec::objects(),
            Some(item) => {
                let width = match ragged {
                    Ragged::Width(width) => Some(width),
                    _ => None,
                };
                let mut shaped = array(item, ragged.within()).within(width);
                if matches!(ragged, Ragged::Pad | Ragged::Width(_)) {
                    shaped.lengths.insert(0, Vec::new());
                }
                shaped
            }
        },
    }
}
