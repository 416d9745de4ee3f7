//! What a batch takes that no pool counts: Python's objects to be, and small columns.

use super::{Batch, Column, PooledBuf, Value};

impl Batch {
    /// Bytes of its columns that are counted nowhere else. Audio and encoded rows are.
    pub(crate) fn held_bytes(&self) -> usize {
        self.columns.iter().map(|(name, column)| name.capacity() + column.held_bytes()).sum()
    }
}

impl PooledBuf {
    fn held_bytes(&self) -> usize {
        if self.is_lent() { 0 } else { self.buf().capacity() + size_of::<Self>() }
    }
}

impl Column {
    fn held_bytes(&self) -> usize {
        let own = match self {
            Self::Samples { .. } => 0,
            Self::Values { buf, .. } => buf.held_bytes(),
            Self::Objects { cells, .. } => cells.iter().map(Value::held_bytes).sum(),
            Self::Ragged { items, lengths, .. } => {
                items.held_bytes() + lengths.capacity() * size_of::<Option<usize>>()
            }
            Self::Struct(fields) => fields.iter().map(|(_, field)| field.held_bytes()).sum(),
            Self::One(value) => value.held_bytes(),
        };
        size_of::<Self>() + own
    }
}

impl Value {
    fn held_bytes(&self) -> usize {
        let own = match self {
            // A blob counts as a row of its own.
            Self::None | Self::Scalar(..) | Self::Blob(_) => 0,
            Self::Text(text) | Self::Decimal(text) => text.capacity(),
            Self::Bytes(bytes) => bytes.capacity(),
            Self::Array(column) => column.held_bytes(),
            Self::Pairs(pairs) => {
                pairs.iter().map(|(key, value)| key.held_bytes() + value.held_bytes()).sum()
            }
            Self::Struct(fields) => {
                let field = |(name, value): &(String, Self)| name.capacity() + value.held_bytes();
                fields.iter().map(field).sum()
            }
        };
        size_of::<Self>() + own
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{AlignedBuf, Dtype, Recycler};

    fn held(column: Column) -> usize {
        let columns = vec![("x".to_owned(), column)];
        let (damaged, bad) = (Vec::new(), Vec::new());
        Batch { n_rows: 1, n_delivered: 1, columns, damaged, bad }.held_bytes()
    }

    #[test]
    fn objects_count_for_what_they_hold() {
        let text = |n: usize| Value::Text("x".repeat(n));
        let objects = |cells| Column::Objects { cells, shape: vec![2] };
        let empty = held(objects(vec![text(0), Value::None]));
        let nested = Value::Array(Box::new(objects(vec![text(1_000), text(1_000)])));
        assert_eq!(held(objects(vec![text(10_000), Value::None])), empty + 10_000);
        let of_lists = held(objects(vec![nested, Value::Bytes(vec![0; 500])]));
        assert!((2_500..3_500).contains(&(of_lists - empty)), "{of_lists} {empty}");
    }

    #[test]
    fn what_a_pool_lent_counts_there() {
        let pool = Recycler::new(0);
        let values = |buf| Column::Values { buf, dtype: Dtype::BOOL, shape: vec![1] };
        let lent = held(values(pool.take(1 << 20)));
        assert!(lent < 1_000, "{lent}");
        let small = held(values(pool.take(3_000)));
        assert!((3_000..5_000).contains(&small), "{small}");
        let own = PooledBuf::free_standing(AlignedBuf::zeroed(1 << 20));
        assert!(held(values(own)) >= 1 << 20);
    }
}
