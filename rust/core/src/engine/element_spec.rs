//! The shapes and types of elements, from the first shard's metadata.

use std::sync::Arc;

use arrow_schema::DataType;

use super::{Runtime, dataset::Dataset, options::Options};
use crate::{
    batch::{Binary, Described, Dtype, Source, VALID, describe_columns},
    error::Result,
};
use gristmill_audio::Channels;

/// The output columns, from the metadata of the first shard.
///
/// # Errors
///
/// Those of opening a pipeline.
pub fn element_spec(options: &Options, runtime: &Runtime) -> Result<Vec<(String, Described)>> {
    options.check()?;
    let mut first = options.clone();
    first.paths.truncate(1);
    first.exclude.clear();
    first.expected_rows.clear();
    let dataset = Dataset::open(&first, &Arc::new(first.store(&runtime.descriptors)))?;
    let small = dataset.projection.small_schema();
    let style = |name: &str| options.batch_size.map(|_| options.styles.of(name));
    let single = options.batch_size.is_none();
    let bytes = || match options.binary {
        Binary::Numpy if single => Described::Array(vec![None], Some(Dtype::U8)),
        _ => Described::Array(Vec::new(), None),
    };
    let columns = |column: &str, name: &str, data_type: &DataType| {
        describe_columns(name, data_type, style(column), options.binary)
    };
    let mut described: Vec<(String, Described)> = Vec::new();
    for (name, source) in &dataset.layout.columns {
        let data_type = |k: usize| small.fields().get(k).map(|field| field.data_type());
        match *source {
            Source::Table(k) => {
                let columns = data_type(k).map(|t| columns(name, name, t));
                described.extend(columns.unwrap_or_default());
            }
            Source::Audio(_) => {
                let samples = Described::Samples(samples_shape(&dataset), dataset.sample_type());
                described.push((name.clone(), samples));
            }
            Source::Blob { fields: None, .. } => described.push((name.clone(), bytes())),
            Source::Blob { fields: Some(k), .. } => {
                let mut fields = vec![("bytes".to_owned(), bytes())];
                if let Some(DataType::Struct(others)) = data_type(k) {
                    let others = others.iter();
                    fields.extend(
                        others.flat_map(|field| columns(name, field.name(), field.data_type())),
                    );
                }
                described.push((name.clone(), Described::Struct(fields)));
            }
        }
    }
    if options.with_row_id {
        for (name, dtype) in [("shard", Dtype::I32), ("row", Dtype::I64)] {
            described.push((name.to_owned(), Described::Array(Vec::new(), Some(dtype))));
        }
    }
    if dataset.layout.with_valid {
        described.push((VALID.to_owned(), Described::Array(Vec::new(), Some(Dtype::BOOL))));
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
