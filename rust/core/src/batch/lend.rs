//! Rows that the consumer has in the memory they were read into.

use std::{
    fmt, process,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use super::{Batch, Column, PooledBuf, Value};

/// Bytes that the consumer has, until he drops them.
pub(crate) struct Loans {
    bytes: AtomicUsize,
    pid: u32,
    on_return: Box<dyn Fn() + Send + Sync>,
}

impl Loans {
    /// With nothing lent; calls `on_return` whenever something has come back.
    pub(crate) fn new(on_return: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        let on_return = Box::new(on_return);
        Arc::new(Self { bytes: AtomicUsize::new(0), pid: process::id(), on_return })
    }

    /// Bytes that are lent out.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }
}

impl fmt::Debug for Loans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loans").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

/// What a buffer counts for among the loans, until this is dropped.
#[derive(Debug)]
pub(super) struct Lent {
    n_bytes: usize,
    loans: Arc<Loans>,
}

impl Drop for Lent {
    fn drop(&mut self) {
        // A forked child has copies of the parent's arrays, and touches none of its locks.
        if self.loans.pid == process::id() {
            self.loans.bytes.fetch_sub(self.n_bytes, Relaxed);
            (self.loans.on_return)();
        }
    }
}

impl Batch {
    /// Enters its encoded rows as lent; how many bytes they have.
    pub(crate) fn lend(&mut self, loans: &Arc<Loans>) -> usize {
        self.columns.iter_mut().map(|(_, column)| column.lend(loans)).sum()
    }
}

impl Column {
    fn lend(&mut self, loans: &Arc<Loans>) -> usize {
        match self {
            Self::Objects { cells, .. } => cells.iter_mut().map(|cell| cell.lend(loans)).sum(),
            Self::One(value) => value.lend(loans),
            Self::Struct(fields) => fields.iter_mut().map(|(_, field)| field.lend(loans)).sum(),
            Self::Samples { .. } | Self::Values { .. } | Self::Ragged { .. } => 0,
        }
    }
}

impl Value {
    /// Encoded rows are values of a column or of its struct, never deeper.
    fn lend(&mut self, loans: &Arc<Loans>) -> usize {
        match self {
            Self::Blob(bytes) => bytes.lend(loans),
            _ => 0,
        }
    }
}

impl PooledBuf {
    fn lend(&mut self, loans: &Arc<Loans>) -> usize {
        let n_bytes = self.buf().capacity();
        loans.bytes.fetch_add(n_bytes, Relaxed);
        self.set_lent(Lent { n_bytes, loans: Arc::clone(loans) });
        self.buf().as_bytes().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{AlignedBuf, Recycler};

    #[test]
    fn rows_count_until_each_of_them_dies() {
        let returns = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&returns);
        let loans = Loans::new(move || {
            counter.fetch_add(1, Relaxed);
        });
        let pool = Recycler::new(usize::MAX);
        let blob = |n: usize| Value::Blob(pool.take(n));
        let objects = Column::Objects { cells: vec![blob(9_000), Value::None], shape: vec![2] };
        let bytes = Column::Struct(vec![("bytes".to_owned(), objects)]);
        let text = Column::One(Value::Text("x".repeat(100)));
        let small = Column::One(Value::Blob(PooledBuf::free_standing(AlignedBuf::zeroed(10))));
        let columns = [bytes, text, small].map(|column| (String::new(), column)).into();
        let (damaged, bad) = (Vec::new(), Vec::new());
        let mut batch = Batch { n_rows: 2, n_delivered: 2, columns, damaged, bad };
        assert_eq!(batch.lend(&loans), 9_010);
        assert!((9_010..10_000).contains(&loans.bytes()), "{}", loans.bytes());
        batch.columns.pop();
        assert!((9_000..9_900).contains(&loans.bytes()));
        assert_eq!(pool.idle_bytes(), 0);
        drop(batch);
        assert_eq!((loans.bytes(), returns.load(Relaxed)), (0, 2));
        assert!(pool.idle_bytes() >= 9_000, "it is used again");
    }
}
