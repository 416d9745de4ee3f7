//! Which work is done next, and by how many threads. It knows nothing of rows, but that there are some.

#[cfg(any(test, feature = "bench"))]
#[cfg_attr(not(feature = "bench"), allow(dead_code, unreachable_pub))] // then only for its test
mod drive;
mod pool;
mod queue;
mod reader_count;
mod row_loop;
mod shared_queue;

#[cfg(feature = "bench")]
pub use self::drive::pass_rows;
pub use self::queue::Next;
pub(crate) use self::{
    pool::{Client, ClientTimes, Floor, Pool, Work},
    queue::{ByRequest, CompleteBatch, Grant, Items, Limits, Queue, QueueDepths},
    reader_count::ReaderCount,
    row_loop::RowLoop,
    shared_queue::SharedQueue,
};
