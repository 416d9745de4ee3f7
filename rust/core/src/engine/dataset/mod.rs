//! What was asked for, and the shards that were opened for it.

mod columns;
mod features_rate;
mod joined;
mod opened;
mod options;
mod resume;
mod source;

pub(crate) use self::{opened::Dataset, source::Source};
pub use self::{
    opened::open_order,
    options::{
        AudioRequest, EventOptions, MixtureOptions, OnError, Options, Pick, Remainder,
        SourceOptions, default_requests, max_open_rows, single_rows_of_a_batch,
    },
    resume::Start,
};
