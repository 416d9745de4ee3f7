//! What is kept of shards in memory, within the budget.

mod audio_index;
mod blocks;
mod index_room;
mod load;
mod tables;

pub use self::audio_index::audio_coverage;
pub(crate) use self::{
    audio_index::{AudioIndexes, Known, entry, load as load_audio_index},
    blocks::{BlockCache, Recording, RowInBlock, RowLookup},
    load::{LoadCache, Lookup},
    tables::{BatchId, TableCache},
};
