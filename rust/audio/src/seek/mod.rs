//! Seek tables: a crop out of a few of a recording's bytes, without the others.
//!
//! An [`Entry`] is what a walk over one whole recording found: what its headers say, and where in its
//! bytes its frames lie, every two seconds or so. [`Decoder::plan_and_learn`] makes one on the way;
//! [`Decoder::plan_part`] tells which bytes a crop needs, and [`Decoder::render_part`] gives the same
//! samples and the same report out of them as the whole recording would.
//!
//! An entry is not trusted. A part is decoded as strictly as a recording: frames must begin at its first
//! byte, follow each other without a gap and end at its last, and nothing in it may be damaged. Whatever
//! else is there, the answer is to read the whole recording, which then has the last word.
//!
//! [`Decoder::plan_and_learn`]: crate::Decoder::plan_and_learn
//! [`Decoder::plan_part`]: crate::Decoder::plan_part
//! [`Decoder::render_part`]: crate::Decoder::render_part

mod entry;
mod plan;
mod points;
mod table;
mod wire;

pub use entry::Entry;
pub use plan::PartPlan;

pub(crate) use points::{Point, Points};
pub(crate) use table::{About, Part, SeekTable, unexpected};
pub(crate) use wire::{Reader, put_number, put_signed};
