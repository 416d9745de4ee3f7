//! Numbers that are not copied into a batch.
//!
//! The rows of a batch in file order are read without the others, each large column into a buffer of its
//! own. Where nearly all of a buffer becomes a column, the column is that buffer.

use arrow_array::Array;
use arrow_data::ArrayData;

use super::{
    copy_plan::{CopyRange, CopySource, array_of},
    dtype::Dtype,
    gather::{Gather, Values},
};
use crate::memory::BufferPart;

impl Gather<'_> {
    /// What was read of these numbers and little else; `None` where they have to be copied.
    pub(super) fn taken_over(self, values: Values<'_>, dtype: Dtype) -> Option<BufferPart> {
        let (reservation, range) = (self.reservation?, values.plan.only()?);
        let CopySource::Array(number) = range.source else { return None };
        let array = array_of(values.arrays, number, range).ok()?;
        if dtype.is_bits() || dtype.stored() != dtype.width || array.null_count() > 0 {
            return None;
        }
        let data = array.to_data();
        let bytes = stored_bytes(&data, range, dtype.width)?;
        BufferPart::of(self.buffers, bytes, |n_bytes| reservation.permit(n_bytes))
    }
}

/// The bytes of these numbers of an array.
pub(super) fn stored_bytes(data: &ArrayData, range: CopyRange, width: usize) -> Option<&[u8]> {
    let first = data.offset() + range.start;
    let buffer = data.buffers().first()?.as_slice();
    buffer.get(first * width..(first + range.len) * width)
}

#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int32Array, ListArray, RecordBatch, types::Int32Type};
    use arrow_ipc::writer::StreamWriter;

    use super::super::{
        Column, FillValue, SizeLimit, Style, assemble::gather_rows, reservation::Reservation,
    };
    use super::*;
    use crate::{
        memory::MemoryPool,
        shard::{IndexDir, Projection, Shard},
    };

    /// Two columns of lists of 2,000 numbers, of which the second has a null among them, and one of numbers.
    fn record_batch() -> RecordBatch {
        let list = |row: i32, null: i32| {
            Some((0..2_000).map(move |k| (row * k != null).then_some(row + k)).collect::<Vec<_>>())
        };
        let lists = |null| {
            let lists = (0..50).map(|row| list(row, null));
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists)) as ArrayRef
        };
        let numbers = Arc::new(Int32Array::from_iter_values(0..50)) as ArrayRef;
        let columns = [("lists", lists(-1)), ("with a null", lists(20 * 7)), ("number", numbers)];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    #[test]
    fn a_column_is_what_was_read_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let (path, batch) = (folder.path().join("shard.arrow"), record_batch());
        let file = std::fs::File::create(&path).unwrap();
        let mut writer = StreamWriter::try_new(file, &batch.schema()).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        let shard = Shard::open(&Arc::default(), &IndexDir::Nowhere, &path).unwrap();
        let projection = Projection::new(shard.schema(), None, &[]).unwrap();
        let account = MemoryPool::default().open(64 << 20);
        let reservation = Reservation::new(account.take(0));
        let limit = SizeLimit::new(64 << 20);

        let table = shard.load_slice(0, &(3..33), &projection, usize::MAX).unwrap().unwrap();
        let gather = Gather {
            reservation: Some(&reservation),
            buffers: &table.buffers,
            style: Style { fill: Some(FillValue::Int(9)), ..Style::default() },
            ..Gather::plain(&limit)
        };
        let column = |k: usize, rows: &[usize]| {
            let array = table.columns.column(k);
            let rows: Vec<_> = rows.iter().map(|row| (array, *row)).collect();
            let (_, column) = gather_rows("column", &rows, gather).unwrap().remove(0);
            let Column::Ragged { items, .. } = column else { panic!("{column:?}") };
            let Column::Values { buf, .. } = *items else { panic!("{items:?}") };
            buf
        };
        let is_read = |buf: &BufferPart| {
            let start = buf.as_bytes().as_ptr();
            table.buffers.iter().any(|buffer| buffer.as_bytes().as_ptr() == start)
        };
        let all: Vec<_> = (0..30).collect();
        let expected: Vec<i32> = (3..33).flat_map(|row| (0..2_000).map(move |k| row + k)).collect();
        let whole = column(0, &all);
        assert!(is_read(&whole));
        assert_eq!(bytemuck::cast_slice::<u8, i32>(whole.as_bytes()), expected);
        let copied = column(1, &all);
        assert!(!is_read(&copied));
        let with_fill = bytemuck::cast_slice::<u8, i32>(copied.as_bytes());
        assert_eq!((with_fill[4 * 2_000 + 20], with_fill[4 * 2_000 + 21]), (9, 7 + 21));
        assert!(!is_read(&column(0, &all[..20])), "a third of the buffer is not wanted");
        let some = [&all[1..], &[0]].concat();
        assert!(!is_read(&column(0, &some)), "in another order");

        drop(table);
        let (own, range) = whole.into_buffer().unwrap();
        assert_eq!(bytemuck::cast_slice::<u8, i32>(&own.as_bytes()[range]), expected);
    }
}
