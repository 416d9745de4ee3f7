//! What the elements will look like, from the first shard's header.

use std::sync::Arc;

use arrow_schema::DataType;

use super::{dataset::Dataset, options::Options};
use crate::{
    audio::{Channels, SampleType},
    batch::Source,
    error::Result,
    shard::Files,
};

/// The kind of one output column.
#[derive(Clone, Debug, PartialEq)]
pub enum Described {
    /// Decoded audio: the shape of one row, `None` where it depends on the recording.
    Samples(Vec<Option<usize>>, SampleType),
    /// A column that Arrow decodes.
    Arrow(DataType),
    /// Binary values.
    Bytes,
    /// A struct's fields.
    Struct(Vec<(String, Described)>),
}

/// Describes the output columns, reading the header of the first shard only.
///
/// # Errors
///
/// As from opening a pipeline.
pub fn describe(options: &Options) -> Result<Vec<(String, Described)>> {
    options.check()?;
    let mut first = options.clone();
    first.paths.truncate(1);
    first.exclude.clear();
    let dataset = Dataset::open(&first, &Arc::new(Files::default()))?;
    let small = dataset.projection.small_schema();
    let arrow = |k: usize| small.fields().get(k).map(|field| field.data_type().clone());
    let describe = |source: &Source| match *source {
        Source::Table(k) => arrow(k).map(Described::Arrow),
        Source::Audio(_) => {
            Some(Described::Samples(samples_shape(&dataset), dataset.sample_type()))
        }
        Source::Blob { fields: None, .. } => Some(Described::Bytes),
        Source::Blob { fields: Some(k), .. } => {
            let mut fields = vec![("bytes".to_owned(), Described::Bytes)];
            if let Some(DataType::Struct(others)) = arrow(k) {
                fields.extend(others.iter().map(|field| {
                    (field.name().clone(), Described::Arrow(field.data_type().clone()))
                }));
            }
            Some(Described::Struct(fields))
        }
    };
    let columns = dataset.layout.columns.iter();
    let mut described: Vec<(String, Described)> =
        columns.filter_map(|(name, source)| Some((name.clone(), describe(source)?))).collect();
    if options.with_row_id {
        described.push(("shard".to_owned(), Described::Arrow(DataType::Int32)));
        described.push(("row".to_owned(), Described::Arrow(DataType::Int64)));
    }
    Ok(described)
}

fn samples_shape(dataset: &Dataset) -> Vec<Option<usize>> {
    if let Some(shape) = &dataset.slot_shape {
        return shape.iter().copied().map(Some).collect();
    }
    match dataset.audio.as_ref().map(|(_, spec)| spec.channels) {
        Some(Channels::Mono) | None => vec![None],
        Some(Channels::Keep) => vec![None, None],
        Some(Channels::Exact(n)) => vec![Some(usize::from(n)), None],
    }
}
