//! MPEG-1/2/2.5 audio as a container: frames one after another. Own header scan, own timeline; frames of
//! layers I and II are fed to Symphonia's decoder.

mod ahead;
mod decode;
pub(crate) mod index;
mod recording;
pub(crate) mod scan;
mod table;
mod tag;
mod walk;

pub(crate) use recording::Mpeg;
pub(crate) use scan::refusal;
pub(crate) use table::{KIND, read_table};
