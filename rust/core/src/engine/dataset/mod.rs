//! What was asked for, and the shards that were opened for it.

mod columns;
mod features_rate;
mod files;
mod joined;
mod opened;
mod options;
mod resume;
mod sizes;
mod source;

pub(crate) use self::{
    columns::{decoded_columns, known_audio},
    files::{RecordingFiles, open_root, path_in, shown, without_root},
    opened::{Dataset, joined_order, of_data_set},
    sizes::{KEPT_SHARE, TABLES_SHARE},
    source::{AudioColumn, Source, open_shards},
};
pub use self::{
    options::{
        AudioRequest, EventOptions, MixtureOptions, OnError, Options, OtherAudio, Pick, Remainder,
        SourceOptions, default_requests, max_open_rows, single_rows_of_a_batch,
    },
    resume::Start,
};
