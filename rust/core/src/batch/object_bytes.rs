//! The memory of a batch besides its buffers: values that are or become Python objects.

use super::{Batch, Column, Value};
use crate::memory::{Buffer, Permit};

/// Bytes of columns that no buffer's permit counts.
pub(super) fn object_bytes(columns: &[(String, Column)]) -> usize {
    columns.iter().map(|(name, column)| name.capacity() + column.object_bytes()).sum()
}

impl Batch {
    /// The permit for the values that become Python objects, and `with_blobs` for encoded rows, which
    /// are copied then. The end of these objects is not reported.
    pub(crate) fn take_object_permit(&mut self, with_blobs: bool) -> Option<Permit> {
        let mut objects = self.objects.take();
        if with_blobs && let Some(objects) = &mut objects {
            for (_, column) in &mut self.columns {
                column.each_blob(&mut |blob| {
                    blob.permit_mut().take().into_iter().for_each(|permit| objects.merge(permit));
                });
            }
        }
        objects
    }
}

impl Column {
    fn object_bytes(&self) -> usize {
        let own = match self {
            Self::Samples { .. } | Self::Values { .. } => 0,
            Self::Objects { cells, .. } => cells.iter().map(Value::object_bytes).sum(),
            Self::Ragged { items, lengths, .. } => {
                items.object_bytes() + lengths.capacity() * size_of::<Option<usize>>()
            }
            Self::Struct(fields) => fields.iter().map(|(_, field)| field.object_bytes()).sum(),
            Self::One(value) => value.object_bytes(),
        };
        size_of::<Self>() + own
    }

    /// Encoded rows are values of a column or of a struct's field, never deeper.
    fn each_blob(&mut self, change: &mut impl FnMut(&mut Buffer)) {
        match self {
            Self::Objects { cells, .. } => {
                for cell in cells {
                    cell.each_blob(change);
                }
            }
            Self::One(value) => value.each_blob(change),
            Self::Struct(fields) => {
                for (_, field) in fields {
                    field.each_blob(change);
                }
            }
            Self::Samples { .. } | Self::Values { .. } | Self::Ragged { .. } => {}
        }
    }
}

impl Value {
    fn each_blob(&mut self, change: &mut impl FnMut(&mut Buffer)) {
        if let Self::Blob(bytes) = self {
            change(bytes);
        }
    }

    fn object_bytes(&self) -> usize {
        let own = match self {
            // A blob has a permit of its own.
            Self::None | Self::Scalar(..) | Self::Blob(_) => 0,
            Self::Text(text) | Self::Decimal(text) => text.capacity(),
            Self::Bytes(bytes) => bytes.capacity(),
            Self::Array(column) => column.object_bytes(),
            Self::Pairs(pairs) => {
                pairs.iter().map(|(key, value)| key.object_bytes() + value.object_bytes()).sum()
            }
            Self::Struct(fields) => {
                let field = |(name, value): &(String, Self)| name.capacity() + value.object_bytes();
                fields.iter().map(field).sum()
            }
        };
        size_of::<Self>() + own
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryPool;

    fn bytes_of(column: Column) -> usize {
        object_bytes(&[("x".to_owned(), column)])
    }

    #[test]
    fn objects_count_for_what_they_hold() {
        let text = |n: usize| Value::Text("x".repeat(n));
        let objects = |cells| Column::Objects { cells, shape: vec![2] };
        let empty = bytes_of(objects(vec![text(0), Value::None]));
        let nested = Value::Array(Box::new(objects(vec![text(1_000), text(1_000)])));
        assert_eq!(bytes_of(objects(vec![text(10_000), Value::None])), empty + 10_000);
        let of_lists = bytes_of(objects(vec![nested, Value::Bytes(vec![0; 500])]));
        assert!((2_500..3_500).contains(&(of_lists - empty)), "{of_lists} {empty}");
    }

    #[test]
    fn encoded_rows_keep_their_permit_unless_they_are_copied() {
        let account = MemoryPool::default().open(1 << 20);
        let blob = |n: usize| Value::Blob(account.buffer(n, account.take(n)).unwrap());
        let batch = || {
            let cells = vec![blob(9_000), Value::None];
            let bytes = Column::Struct(vec![(
                "bytes".to_owned(),
                Column::Objects { cells, shape: vec![2] },
            )]);
            let columns = [bytes, Column::One(blob(10))].map(|column| (String::new(), column));
            let (damaged, bad) = (Vec::new(), Vec::new());
            let objects = Some(account.take(500));
            Batch { n_rows: 2, n_delivered: 2, columns: columns.into(), damaged, bad, objects }
        };
        let mut lent = batch();
        let permit = lent.take_object_permit(false).unwrap();
        assert_eq!((permit.n_bytes(), account.used()), (500, 9_510));
        drop(permit);
        lent.columns.pop();
        assert_eq!(account.used(), 9_000);
        drop(lent);
        let mut copied = batch();
        let permit = copied.take_object_permit(true);
        drop(copied);
        assert_eq!(account.used(), 9_510);
        drop(permit);
        assert_eq!(account.used(), 0);
    }
}
