//! AAC-LC: what its headers say, and telling it from its relatives, which are refused.

pub(crate) mod config;
pub(crate) mod packets;
pub(crate) mod raw;
mod sbr;

pub(crate) use packets::{Coded, track};
