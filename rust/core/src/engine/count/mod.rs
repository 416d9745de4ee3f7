//! How many windows and events recordings have, and how long they are.

mod durations;
mod parts;

pub use self::parts::Progress;
pub(crate) use self::{durations::RecordingDurations, parts::part_counts};
