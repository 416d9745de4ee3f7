//! The threads between the shards and the consumer.
//!
//! The path of a row: a reading thread (`stream/readers.rs`) opens the shards, claims the row, and reads it
//! by its table ([`row`]). A decoding thread (`stream/decoders.rs`) decodes it into its slot. The thread that
//! finishes the last row of a batch joins them ([`join`]). The consumer takes batches in order
//! ([`Pipeline::next`]). Rows by their index ([`random_access`]) are read and decoded by the same code.
//!
//! | room | what it knows |
//! |---|---|
//! | [`dataset`] | what was asked for, and the shards that were opened for it |
//! | [`work`] | queue, pools, numbers of threads: nothing of rows |
//! | [`cache`] | tables, blocks and audio indexes |
//! | [`count`] | the windows, events and lengths of recordings |
//! | [`row`] | how one row is read and decoded |
//!
//! Threads are those of a pool, which all iterators of a process share. None ever touches Python.

mod cache;
mod count;
mod dataset;
mod element_spec;
mod join;
mod opening;
mod random_access;
mod row;
mod runtime;
mod stream;
mod wait;
mod work;

pub use cache::audio_coverage;
pub use count::Progress;
pub use dataset::{
    AudioRequest, EventOptions, MixtureOptions, OnError, Options, OtherAudio, Pick, Remainder,
    SourceOptions, Start, default_requests, max_open_rows, single_rows_of_a_batch,
};
pub use element_spec::element_spec;
pub use opening::open_order;
pub use random_access::{RandomAccess, Request};
pub use row::Recordings;
pub use runtime::Runtime;
pub use stream::{Opened, Pipeline};
pub use work::Next;
#[cfg(feature = "bench")]
pub use work::pass_rows;

pub use crate::threads::{cannot_start, parallel_for_each, usable_cpus};
