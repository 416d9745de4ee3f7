//! From one rate to another.

pub(crate) mod run;
pub(crate) mod table;

mod design;

pub use design::Resampler;
