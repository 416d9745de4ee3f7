//! The shapes and types of elements, from the shards' metadata.

use std::sync::{Arc, atomic::AtomicBool};

use arrow_schema::DataType;

use super::{
    dataset::{AudioColumn, Dataset, Options},
    opening::open,
    runtime::Runtime,
};
use crate::{
    batch::{Binary, ColumnSource, ColumnSpec, Dtype, column_specs},
    error::Result,
    select::RowSpec,
};
use gristmill_audio::Channels;

/// The output columns, from the metadata of the shards: a column has the type that holds the values of
/// all of them.
///
/// # Errors
///
/// Those of opening a pipeline.
pub fn element_spec(
    options: &Options,
    runtime: &Runtime,
    cancel: &Arc<AtomicBool>,
) -> Result<Vec<(String, ColumnSpec)>> {
    options.check()?;
    let mut all_rows = options.clone();
    for source in &mut all_rows.sources {
        source.exclude.clear();
        source.expected_rows.clear();
        // What elements look like does not depend on which rows there are.
        (source.rows, source.weights, source.order.draws) = (RowSpec::default(), None, None);
    }
    let store = all_rows.store(runtime.descriptors()).with_cancel(Arc::clone(cancel));
    let store = Arc::new(store);
    let dataset = open(&all_rows, &store, None)?;
    let small = dataset.first_source().projection.small_schema();
    let style = |name: &str| options.batch_size.map(|_| options.styles.of(name));
    let single = options.batch_size.is_none();
    let bytes = || match options.binary {
        Binary::Numpy if single => ColumnSpec::Array(vec![None], Some(Dtype::U8)),
        _ => ColumnSpec::Array(Vec::new(), None),
    };
    let columns = |column: &str, name: &str, data_type: &DataType| {
        column_specs(name, data_type, style(column), options.binary)
    };
    let mut specs: Vec<(String, ColumnSpec)> = Vec::new();
    for (name, source) in &dataset.layout.columns {
        let data_type = |k: usize| small.fields().get(k).map(|field| field.data_type());
        match *source {
            ColumnSource::Table(k) => {
                if let Some(n) = n_classes(&dataset, name) {
                    let spec = ColumnSpec::Array(vec![Some(n)], Some(Dtype::F32));
                    specs.push((name.clone(), spec));
                    continue;
                }
                let columns = data_type(k).map(|t| columns(name, name, t));
                specs.extend(columns.unwrap_or_default());
            }
            ColumnSource::Audio(blob) => {
                let audio = dataset.first_source().column_of(blob).map(|(_, column)| column);
                let samples = audio
                    .map(|audio| ColumnSpec::Samples(samples_shape(audio), audio.spec.sample_type));
                specs.extend(samples.map(|samples| (name.clone(), samples)));
            }
            ColumnSource::Blob { fields: None, .. } => specs.push((name.clone(), bytes())),
            ColumnSource::Blob { fields: Some(k), .. } => {
                let mut fields = vec![("bytes".to_owned(), bytes())];
                if let Some(DataType::Struct(others)) = data_type(k) {
                    let others = others.iter();
                    fields.extend(
                        others.flat_map(|field| columns(name, field.name(), field.data_type())),
                    );
                }
                specs.push((name.clone(), ColumnSpec::Struct(fields)));
            }
        }
    }
    for (name, added) in &dataset.layout.added {
        let spec = ColumnSpec::Array(Vec::new(), Some(added.dtype()));
        specs.push((name.clone(), spec));
    }
    Ok(specs)
}

/// The number of classes of a column that becomes an array of 0 and 1.
fn n_classes(dataset: &Dataset, name: &str) -> Option<usize> {
    let columns = dataset.layout.multi_hot.iter();
    columns.filter(|(column, _)| column == name).map(|(_, multi_hot)| multi_hot.n_classes()).next()
}

fn samples_shape(audio: &AudioColumn) -> Vec<Option<usize>> {
    if let Some(shape) = &audio.shape {
        return shape.iter().copied().map(Some).collect();
    }
    match audio.spec.channels {
        Channels::Mono => vec![None],
        Channels::Keep => vec![None, None],
        Channels::Exact(n) => vec![Some(usize::from(n)), None],
        Channels::Picked(picked) => vec![Some(picked.places().len()), None],
    }
}
