//! Vorbis, Opus and FLAC in Ogg: own page walk and own timeline; only packets go to the decoders.

mod chain;
mod decode;
mod flac;
mod opus;
mod packets;
mod page;
mod recording;
mod salvage;
mod stream;
#[cfg(test)]
mod tests;
mod walk;

pub(crate) use page::PageRef;
pub(crate) use recording::{Ogg, OggFlac};
