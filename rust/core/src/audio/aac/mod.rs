//! AAC-LC: what its headers say, ADTS, and telling it from its relatives, which are refused.

mod adts;
mod config;
mod raw;
mod sbr;

pub(super) use adts::{is_adts, open as open_adts};
pub(super) use config::Config;
pub(super) use raw::{FRAME_LEN, check_block};
pub(super) use sbr::refuse_sbr;
