//! Vorbis, Opus and FLAC in Ogg: own page walk and own timeline; only packets go to the decoders.

mod chain;
mod crc;
mod decode;
mod flac;
mod opus;
mod packets;
mod page;
mod salvage;
mod setup;
mod stream;
#[cfg(test)]
mod tests;
mod walk;

pub(super) use chain::{Entry, Layout, codec, decode, open};
pub(super) use flac::{FlacLayout, decode_flac, find_flac, open_flac};
pub(super) use page::{PageRef, n_broken_pages};
pub(super) use setup::{Ident, Modes};
