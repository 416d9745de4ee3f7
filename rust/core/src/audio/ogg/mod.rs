//! Vorbis in Ogg: own page walk and own timeline, packets fed to Symphonia's decoder.

mod crc;
mod decode;
mod page;
mod setup;
mod stream;

pub(super) use decode::{Entry, VorbisCache, decode};
pub(super) use page::PageRef;
pub(super) use stream::{Layout, open};
