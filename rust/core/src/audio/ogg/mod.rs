//! Vorbis and FLAC in Ogg: own page walk and own timeline, packets fed to Symphonia's decoders.

mod crc;
mod decode;
mod flac;
mod page;
mod setup;
mod stream;

pub(super) use decode::{Entry, VorbisCache, decode};
pub(super) use flac::{FlacLayout, decode_flac, find_flac, open_flac};
pub(super) use page::PageRef;
pub(super) use stream::{Layout, open};
