//! The ground floor: what containers and codecs share, and what neither need know of the other.
//!
//! A container lists [`Packet`]s in a [`List`] and says how they are coded in a [`Track`]; the track's
//! [`Coding`] makes a decoder, which [`Decode`]s packets into a [`PacketSink`]. Whoever asks for frames
//! sees neither: a [`Recording`] seeks and decodes, and its [`SeekTable`] tells which bytes a crop needs.

mod decode;
mod list;
mod packet;
mod points;
mod recording;
mod scratch;
mod track;
mod wire;

pub(crate) use decode::{Decode, Outcome, PacketSink, Tally};
pub(crate) use list::List;
pub(crate) use packet::Packet;
pub(crate) use points::{Point, Points};
pub(crate) use recording::{About, Part, ReadTable, Recording, SeekTable, seek_target, unexpected};
pub(crate) use scratch::{Kept, Scratch};
pub(crate) use track::{Coding, Counter, DecoderResult, Shape, ToldBy, Track, WarmUp, limited};
pub(crate) use wire::{MAX_NUMBER, Reader, put_number, put_signed};
