//! Opening data sets: the shards, and then the order of their rows, which may take a pass over all of them.

use std::sync::{Arc, atomic::AtomicBool};

use super::{
    count::{Progress, RecordingDurations, part_counts},
    dataset::{
        Dataset, Options, SourceOptions, decoded_columns, joined_order, known_audio, of_data_set,
        open_shards,
    },
    runtime::Runtime,
};
use crate::{
    error::{Error, Result},
    order::{Draws, Order, Sampling},
    select::{DURATION, Selector},
    shard::Shard,
    store::Store,
};
use gristmill_audio::AudioSpec;

/// Opens the shards of a data set, or of all data sets of a mixture.
///
/// Where elements are parts of rows, it counts them, which may take a pass over all rows; without
/// `progress` it leaves that out, and elements are rows.
pub(super) fn open(
    options: &Options,
    store: &Arc<Store>,
    progress: Option<&Progress>,
) -> Result<Dataset> {
    Dataset::open(options, store, |opened, source| {
        order_of(&opened.shards, (options, source), opened.audio.first(), progress)
    })
}

/// The order of a data set, or of a mixture, from the metadata of the shards. Where elements are parts of rows, it
/// counts them, as opening a pipeline does; `cancel` ends that.
///
/// # Errors
///
/// Those of opening a pipeline, except those about columns and audio.
pub fn open_order(
    options: &Options,
    runtime: &Runtime,
    progress: &Progress,
    cancel: &Arc<AtomicBool>,
) -> Result<Order> {
    options.check()?;
    let store = options.store(runtime.descriptors()).with_cancel(Arc::clone(cancel));
    let store = Arc::new(store);
    let order = |source: &SourceOptions| {
        let shards = open_shards(options, source, &store)?;
        let audio = match shards.first() {
            Some(first) if source.has_parts() || source.rows.names(DURATION) => {
                let known = known_audio(source, first)?;
                let audio = decoded_columns(options, source, &shards, &known);
                audio.map_err(|e| e.in_shard(first.name()))?
            }
            _ => Vec::new(),
        };
        order_of(&shards, (options, source), audio.first(), Some(progress))
    };
    let orders = options.sources.iter().enumerate();
    let orders = orders.map(|(k, source)| order(source).map_err(|e| of_data_set(options, k, e)));
    joined_order(options, orders.collect::<Result<_>>()?)
}

/// The order of one data set's rows.
///
/// Where elements are parts of rows, it counts them, which may take a pass over all rows; without
/// `progress` it leaves that out, and elements are rows.
fn order_of(
    shards: &[Shard],
    (options, source): (&Options, &SourceOptions),
    audio: Option<&(String, AudioSpec)>,
    progress: Option<&Progress>,
) -> Result<Order> {
    for &(number, expected) in &source.expected_rows {
        let shard = shards.get(number as usize).filter(|shard| shard.n_rows() != expected);
        if let Some(shard) = shard {
            return Err(Error::config(format!(
                "the quarantine file belongs to other data: it was written when {} had {expected} \
                 rows, and now it has {}; scan the data again, or name the rows as (shard, row) \
                 pairs",
                shard.name(),
                shard.n_rows()
            )));
        }
    }
    let unseen = Progress::default();
    let durations = audio.map(|(column, spec)| {
        let progress = progress.unwrap_or(&unseen);
        RecordingDurations::new(shards, (options, source), (column.as_str(), spec), progress)
    });
    let selector = Selector {
        shards,
        index_dir: &options.index_dir,
        n_threads: options.n_openers(),
        limit: options.memory_budget,
        durations: durations.as_ref().map(|durations| durations as _),
    };
    let selected = selector.rows(&source.rows, &source.exclude)?;
    let parts = match progress {
        Some(progress) => part_counts(shards, &selected.rows, (options, source), audio, progress)?,
        None => None,
    };
    match (&source.weights, source.order.draws) {
        // Without rows there is nothing to draw from, and the stream ends at once.
        (Some(weights), Some(draws)) if !selected.rows.is_empty() => {
            let weights = selector.weights(weights, &selected)?;
            let (weights, per_epoch) = match &parts {
                Some(parts) => (parts.drawable(weights), Some(parts.len())),
                None => (weights, None),
            };
            let draws = Draws { per_epoch: draws.per_epoch.or(per_epoch), ..draws };
            let sampling = Sampling::new(draws, weights)?;
            Order::sampled(selected.rows, parts, &source.order, sampling)
        }
        _ => match parts {
            Some(parts) => Order::of_parts(selected.rows, parts, &source.order),
            None => Order::new(selected.rows, &source.order),
        },
    }
}
