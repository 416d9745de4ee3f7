//! MPEG-1/2/2.5, layers I to III: own header scan, own timeline, packets fed to Symphonia's decoder.

mod decode;
mod header;
mod scan;
mod tag;

pub(super) use decode::{Entry, decode};
pub(super) use scan::{Frame, Layout, codec, find_first, open, refusal};
