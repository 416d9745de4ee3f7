//! AAC-LC: what its headers say, ADTS, and telling it from its relatives, which are refused.

mod adts;
mod config;
mod packets;
mod raw;
mod sbr;

pub(super) use adts::Adts;
#[cfg(test)]
pub(super) use packets::Coded;
pub(super) use packets::InPackets;
