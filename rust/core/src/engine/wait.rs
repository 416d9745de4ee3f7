//! What a row may have to wait for, and who is told that a wait may be over.

use std::fmt;

/// What a row that cannot go on waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitFor {
    /// Bytes of the budget, those of its reserve included or not.
    Bytes { n_bytes: usize, from_reserve: bool },
    /// The end of a load by another reader, after this number of loads have ended.
    Load { after: u64 },
    /// A free reader.
    Reader,
}

/// Who is told what happens while rows are read: rows may wait for it.
pub(crate) trait ReadEvents: fmt::Debug + Send + Sync {
    /// The number of loads of tables and blocks that have ended, well or not.
    fn n_loads(&self) -> u64;

    /// One more has ended.
    fn load_ended(&self);

    /// The requests of an urgent row were sent.
    fn requested(&self, index: u64);
}
