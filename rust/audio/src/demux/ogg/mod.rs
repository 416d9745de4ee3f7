//! Vorbis, Opus and FLAC in Ogg: own page walk and own timeline; only packets go to the decoders.

mod chain;
mod count;
mod decode;
mod flac;
mod link_sink;
mod opus;
mod opus_table;
mod packets;
mod page;
mod recording;
mod salvage;
mod stream;
#[cfg(test)]
mod tests;
mod vorbis_table;
mod walk;

pub(crate) use opus_table::{KIND as OPUS_KIND, read_table as read_opus_table};
pub(crate) use recording::{Ogg, OggFlac};
pub(crate) use vorbis_table::{KIND as VORBIS_KIND, read_table as read_vorbis_table};
