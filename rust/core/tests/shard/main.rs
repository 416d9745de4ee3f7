//! Reading shards: against arrow-ipc's own readers, against damaged bytes, and counted.

// clippy.toml allows these in test functions, but not in what they call.
#![allow(clippy::indexing_slicing, clippy::unwrap_used)]

mod audio_index;
mod bytes_read;
mod common;
mod golden;
mod hand_made;
mod hostile;
mod many;
mod property;
mod remote;
mod sidecar;
