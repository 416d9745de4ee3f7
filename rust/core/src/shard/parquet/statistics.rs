//! Statistics of row groups.
//!
//! They are what the writer says, as all else in the file. Those whose order is not known are left out:
//! the old fields `min` and `max`, of which nobody can tell how strings and unsigned numbers were
//! compared, and types without an order. A bound that is shortened (`is_max_value_exact` is false) is
//! still a bound, but no value of the column.
//!
//! See <https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift>.

use std::sync::Arc;

use ::parquet::{
    basic::{ColumnOrder, SortOrder, Type},
    file::{
        metadata::{
            ParquetMetaData, ParquetMetaDataOptions, ParquetMetaDataReader,
            ParquetStatisticsPolicy::{self, SkipAll},
            RowGroupMetaData,
        },
        statistics::Statistics as Written,
    },
    schema::types::SchemaDescriptor,
};
use arrow_array::{ArrayRef, BinaryArray, BooleanArray, make_array};
use arrow_buffer::Buffer;
use arrow_data::ArrayDataBuilder;
use arrow_schema::DataType;

use super::{
    super::{guard, statistics::Statistics},
    footer::{Footer, refused},
};

/// Those of a column of this type, or of a field of a struct by all names that lead to it, for each row
/// group; `None` where there are none to use.
pub(super) fn of_column(
    footer: &Footer,
    names: &[String],
    data_type: &DataType,
) -> Option<Vec<Statistics>> {
    let leaf = leaf(footer.arrow.parquet_schema(), names)?;
    let data_type = match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    };
    let metadata = parse(&footer.source, leaf)?;
    let order = match metadata.file_metadata().column_orders()?.get(leaf)? {
        order @ (ColumnOrder::TYPE_DEFINED_ORDER(_) | ColumnOrder::IEEE_754_TOTAL_ORDER) => {
            order.sort_order()
        }
        _ => SortOrder::UNDEFINED,
    };
    let groups = metadata.row_groups().iter();
    Some(groups.map(|group| of_group(group, leaf, order, data_type).unwrap_or_default()).collect())
}

/// The leaf at this path, if it is in no list.
fn leaf(schema: &SchemaDescriptor, names: &[String]) -> Option<usize> {
    let is_it = |leaf: &usize| schema.column(*leaf).path().parts() == names;
    let mut found = (0..schema.num_columns()).filter(is_it);
    let leaf = found.next().filter(|leaf| schema.column(*leaf).max_rep_level() == 0)?;
    found.next().is_none().then_some(leaf)
}

/// The footer with the statistics of one leaf, which are not kept: of all leaves they may be most of it.
fn parse(footer: &[u8], leaf: usize) -> Option<ParquetMetaData> {
    let options = ParquetMetaDataOptions::new()
        .with_column_stats_policy(ParquetStatisticsPolicy::skip_except(&[leaf]))
        .with_encoding_stats_policy(SkipAll)
        .with_size_stats_policy(SkipAll);
    let parsed = guard::contain("the statistics", || {
        ParquetMetaDataReader::decode_metadata_with_options(footer, Some(&options))
            .map_err(|e| refused(&e, "the statistics do not decode"))
    });
    parsed.ok()
}

fn of_group(
    group: &RowGroupMetaData,
    leaf: usize,
    order: SortOrder,
    data_type: &DataType,
) -> Option<Statistics> {
    let written = group.columns().get(leaf)?.statistics()?;
    let n_rows = u64::try_from(group.num_rows()).ok()?;
    let n_nulls = written.null_count_opt().filter(|n| *n <= n_rows);
    // Where a struct is null, so are its fields. pyarrow does not count these in a dictionary.
    let is_field = group.schema_descr().column(leaf).path().parts().len() > 1;
    Some(Statistics {
        bounds: bounds(written, order, data_type),
        may_have_nulls: is_field || n_nulls != Some(0),
        may_have_values: n_nulls != Some(n_rows),
    })
}

fn bounds(
    written: &Written,
    order: SortOrder,
    data_type: &DataType,
) -> Option<(ArrayRef, ArrayRef)> {
    if written.is_min_max_deprecated() {
        return None;
    }
    let physical = written.physical_type();
    let value = |bytes| value(bytes, physical, order, data_type);
    value(written.min_bytes_opt()?).zip(value(written.max_bytes_opt()?))
}

/// One value of a column; `None` where it is of a type whose order is not known, or not in its range.
fn value(bytes: &[u8], physical: Type, order: SortOrder, data_type: &DataType) -> Option<ArrayRef> {
    use DataType as T;
    use SortOrder::{SIGNED, TOTAL_ORDER, UNSIGNED};
    match (physical, data_type, order) {
        (Type::BOOLEAN, T::Boolean, UNSIGNED) => {
            Some(Arc::new(BooleanArray::from(vec![*bytes.first()? != 0])))
        }
        (
            Type::BYTE_ARRAY,
            T::Utf8 | T::LargeUtf8 | T::Utf8View | T::Binary | T::LargeBinary | T::BinaryView,
            UNSIGNED,
        ) => Some(Arc::new(BinaryArray::from_vec(vec![bytes]))),
        (Type::INT32, T::Int8 | T::Int16 | T::Int32 | T::Date32 | T::Time32(_), SIGNED)
        | (Type::INT32, T::UInt8 | T::UInt16 | T::UInt32, UNSIGNED)
        | (Type::INT64, T::Int64 | T::Timestamp(..) | T::Duration(_) | T::Time64(_), SIGNED)
        | (Type::INT64, T::UInt64, UNSIGNED)
        | (Type::FLOAT, T::Float32, SIGNED | TOTAL_ORDER)
        | (Type::DOUBLE, T::Float64, SIGNED | TOTAL_ORDER) => number(bytes, data_type),
        _ => None,
    }
}

fn number(bytes: &[u8], data_type: &DataType) -> Option<ArrayRef> {
    let (value, rest) = bytes.split_at_checked(data_type.primitive_width()?)?;
    // Numbers of fewer bits are stored as 32.
    let is_negative = data_type.is_signed_integer() && value.last()? & 0x80 != 0;
    let extension = if is_negative { 0xff } else { 0 };
    if rest.iter().any(|byte| *byte != extension) {
        return None;
    }
    let array = ArrayDataBuilder::new(data_type.clone()).len(1).add_buffer(Buffer::from(value));
    array.build().ok().map(make_array)
}

#[cfg(test)]
mod tests {
    use ::parquet::{
        arrow::ArrowWriter,
        data_type::ByteArray,
        file::{properties::WriterProperties, statistics::ValueStatistics},
    };
    use arrow_array::{Array, RecordBatch, StringArray, cast::AsArray};

    use super::*;

    #[test]
    fn bounds_of_an_unknown_order_are_left_out() {
        let text = |is_old| {
            let (least, greatest) = (Some(ByteArray::from("a")), Some(ByteArray::from("b")));
            Written::ByteArray(ValueStatistics::new(least, greatest, None, Some(0), is_old))
        };
        assert!(bounds(&text(false), SortOrder::UNSIGNED, &DataType::Utf8).is_some());
        assert!(bounds(&text(true), SortOrder::UNSIGNED, &DataType::Utf8).is_none());
        assert!(bounds(&text(false), SortOrder::SIGNED, &DataType::Utf8).is_none());
        assert!(bounds(&text(false), SortOrder::UNDEFINED, &DataType::Utf8).is_none());
        let unsigned = |order| value(&[1, 0, 0, 0], Type::INT32, order, &DataType::UInt32);
        assert!(unsigned(SortOrder::UNSIGNED).is_some());
        assert!(unsigned(SortOrder::SIGNED).is_none());
        let other_width = value(&[0; 4], Type::INT32, SortOrder::SIGNED, &DataType::Date64);
        assert!(other_width.is_none());
    }

    #[test]
    fn values_outside_their_type_are_left_out() {
        let signed = |number: i32, data_type: DataType| {
            value(&number.to_le_bytes(), Type::INT32, SortOrder::SIGNED, &data_type)
        };
        let unsigned = |number: i32, data_type: DataType| {
            value(&number.to_le_bytes(), Type::INT32, SortOrder::UNSIGNED, &data_type)
        };
        assert!(signed(-128, DataType::Int8).is_some_and(|one| one.len() == 1));
        assert!(signed(128, DataType::Int8).is_none());
        assert!(signed(-32_769, DataType::Int16).is_none());
        assert!(unsigned(255, DataType::UInt8).is_some());
        assert!(unsigned(256, DataType::UInt8).is_none());
        assert!(unsigned(-1, DataType::UInt16).is_none());
        assert!(value(&[1, 2], Type::INT32, SortOrder::SIGNED, &DataType::Int32).is_none());
    }

    #[test]
    fn a_shortened_bound_is_a_bound() {
        let names = StringArray::from(vec!["abcdef", "abzz", "acaaaa"]);
        let batch = RecordBatch::try_from_iter([("name", Arc::new(names) as ArrayRef)]).unwrap();
        let properties = WriterProperties::builder().set_statistics_truncate_length(Some(2));
        let mut file = Vec::new();
        let mut writer =
            ArrowWriter::try_new(&mut file, batch.schema(), Some(properties.build())).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let (rest, tail) = file.split_last_chunk::<8>().unwrap();
        let n_bytes = u32::from_le_bytes(*tail.first_chunk().unwrap()) as usize;
        let metadata = parse(&rest[rest.len() - n_bytes..], 0).unwrap();
        let group = metadata.row_group(0);
        let found = of_group(group, 0, SortOrder::UNSIGNED, &DataType::Utf8).unwrap();
        assert_eq!((found.may_have_nulls, found.may_have_values), (false, true));
        let (least, greatest) = found.bounds.unwrap();
        assert_eq!(least.as_binary::<i32>().value(0), b"ab");
        assert_eq!(greatest.as_binary::<i32>().value(0), b"ad");
    }
}
