//! Reading shards: against arrow-ipc's own readers, against damaged bytes, and counted.

mod bytes_read;
mod common;
mod golden;
mod hostile;
mod many;
mod property;
