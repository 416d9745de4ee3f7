//! Recordings whose container lists their packets: MP4, Matroska, ADTS.
//!
//! A container's parser fills a [`List`](crate::stream::List); what follows, the window and its decoding, is
//! the same for all.

mod recording;
mod table;

pub(crate) use recording::{Listed, TrackLayout};
pub(crate) use table::{Framing, KIND, read_table};
