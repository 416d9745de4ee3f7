//! The opened shards, and what follows from their metadata and the options.

use std::{
    collections::HashSet,
    ops::Range,
    sync::{Arc, atomic::AtomicBool},
};

use crate::{
    batch::{ElementLayout, EventReader, check_supported},
    error::{Error, Result},
    hash::fnv1a,
    metrics::{RowCounts, ShardReads},
    order::{Draws, Fingerprint, Order, Sampling, Step},
    select::Selector,
    shard::{Projection, Shard, audio_columns, check_class_names, open_all},
    store::Store,
};
use gristmill_audio::{AudioSpec, Channels, Crop, SampleType, Windows};

use super::{
    Runtime,
    bad_rows::PathColumn,
    dataset_columns::{
        added_columns, check_added, check_names, decoded_column, is_wanted, multi_hot_columns,
        sources,
    },
    options::{AudioRequest, EventOptions, Options, Pick},
    part_counts::{Progress, part_counts},
    recording_file::RecordingFiles,
};

/// The opened shards, their order, and what is read of each row.
#[derive(Debug)]
pub(super) struct Dataset {
    pub(super) shards: Vec<Shard>,
    /// The outcomes of each one's rows.
    pub(super) row_counts: Vec<RowCounts>,
    pub(super) order: Order,
    pub(super) projection: Projection,
    /// The columns that are read row by row.
    pub(super) blobs: Vec<String>,
    pub(super) layout: ElementLayout,
    /// The index of the blob that is decoded, and how.
    pub(super) audio: Option<(usize, AudioSpec)>,
    /// What reads the rows' events, and which of them are delivered.
    pub(super) events: Option<(EventReader, Pick)>,
    /// The shape of a decoded row, if it is the same for all rows.
    pub(super) slot_shape: Option<Vec<usize>>,
    pub(super) fingerprint: Fingerprint,
    /// The recordings' original paths, which are read for bad rows only.
    pub(super) paths: Option<PathColumn>,
    /// Where the recordings of rows without bytes lie; `None` where that was not said.
    pub(super) files: Option<RecordingFiles>,
    /// The position at which the stream was resumed, as (epoch, index).
    pub(super) start: (u64, u64),
    /// The rows of the first batch, if they have blobs.
    urgent: Range<u64>,
    /// The index behind the last row of the stream; rows from there on only fill up the last batch.
    own_end: u64,
}

impl Dataset {
    /// Reads the shards' metadata, in parallel, and works out columns and order.
    ///
    /// Where elements are parts of rows, it counts them, which may take a pass over all rows; without
    /// `progress` it leaves that out, and elements are rows.
    pub(super) fn open(
        options: &Options,
        store: &Arc<Store>,
        progress: Option<&Progress>,
    ) -> Result<Self> {
        let shards = open_all(store, &options.index_dir, &options.paths, options.n_openers())?;
        let first = shards.first().ok_or_else(|| Error::config("there are no shards"))?;
        let schema = first.schema();
        let named = |e: Error| e.in_shard(first.name());
        let wanted = |name: &str| is_wanted(options, name);
        let known: Vec<String> = audio_columns(schema).into_iter().map(|(name, _)| name).collect();
        let audio = decoded_column(options, &known).map_err(named)?;
        let decoded = audio.as_ref().map(|(name, _)| name);
        // Naming a column in `audio` asks for it.
        let columns = options.columns.as_ref().map(|columns| {
            let extra = decoded.filter(|name| !columns.contains(name));
            columns.iter().chain(extra).cloned().collect::<Vec<_>>()
        });
        let mut blobs: Vec<String> = known.into_iter().filter(|name| wanted(name)).collect();
        blobs.extend(decoded.filter(|name| !blobs.contains(name)).cloned());
        let is_all_decoded = blobs.iter().all(|name| Some(name) == decoded);
        let has_files = options.root.is_some();
        let project = if is_all_decoded && !has_files {
            Projection::without_siblings
        } else {
            Projection::new
        };
        // Events are read with their row, whether they are delivered or not.
        let event_columns = options.events.iter().flat_map(|events| events.columns.names());
        let read = columns.as_ref().map(|columns| {
            let extra = event_columns.filter(|name| !columns.contains(name));
            columns.iter().chain(extra).cloned().collect::<Vec<_>>()
        });
        let projection = project(schema, read.as_deref(), &blobs).map_err(named)?;
        check_supported(&projection.small_schema(), &options.styles).map_err(named)?;

        let delivered = schema.fields().iter().map(|field| field.name().as_str());
        let delivered: Vec<_> = delivered
            .filter(|name| columns.as_ref().is_none_or(|columns| columns.iter().any(|c| c == name)))
            .collect();
        check_names(&delivered).map_err(named)?;
        check_class_names(&shards, &delivered)?;

        let events = options.events.as_ref().map(|events| {
            let reader = EventReader::new(&projection.small_schema(), &events.columns);
            reader.map(|reader| (reader, events.pick))
        });
        let events = events.transpose().map_err(named)?;
        let order = order_of(&shards, options, audio.as_ref(), progress)?;
        let keys: Vec<u64> = shards.iter().map(Shard::key).collect();
        let fingerprint = Fingerprint::new(&order, &[(keys, crop_words(options))]);

        let names = delivered.iter().map(|name| (*name).to_owned());
        let layout = ElementLayout {
            columns: sources(names, &projection, &blobs, decoded),
            added: added_columns(options),
            styles: options.styles.clone(),
            multi_hot: Vec::new(),
        };
        let is_delivered = |name: &str| layout.columns.iter().any(|(column, _)| column == name);
        options.styles.check(is_delivered).map_err(named)?;
        let multi_hot = multi_hot_columns(&options.styles, schema, &projection).map_err(named)?;
        let layout = ElementLayout { multi_hot, ..layout };
        check_added(&layout).map_err(named)?;
        if options.with_crop && audio.is_none() {
            return Err(Error::config(
                "with_crop=True is about audio that is decoded, and here none is; name the column: \
                 audio=gm.Audio(\"column\", ...), or leave with_crop= out",
            ));
        }
        let paths = audio.as_ref().and_then(|(name, _)| PathColumn::find(schema, name));
        let with_path = decoded.filter(|_| paths.is_some());
        let files = RecordingFiles::find(options.root.as_deref(), with_path, &projection)?;
        let audio = audio.and_then(|(name, spec)| {
            blobs.iter().position(|blob| *blob == name).map(|k| (k, spec))
        });
        let slot_shape = audio.as_ref().and_then(|(_, spec)| {
            let (channels, frames) = spec.fixed_shape()?;
            Some(match spec.channels {
                Channels::Mono => vec![frames],
                _ => vec![usize::from(channels), frames],
            })
        });
        let row_counts = shards.iter().map(|_| RowCounts::default()).collect();
        Ok(Self {
            shards,
            row_counts,
            order,
            projection,
            blobs,
            layout,
            audio,
            events,
            slot_shape,
            fingerprint,
            paths,
            files,
            start: (0, 0),
            urgent: 0..0,
            own_end: u64::MAX,
        })
    }

    /// Sets the position at which the stream is resumed, and its urgent rows.
    pub(super) fn set_start(&mut self, position: (u64, u64), urgent: Range<u64>) {
        (self.start, self.urgent) = (position, urgent);
    }

    /// Sets the index from which on rows only fill up the last batch.
    pub(super) fn set_own_end(&mut self, own_end: u64) {
        self.own_end = own_end;
    }

    /// Whether the row at this index only fills up the last batch: nothing is read or decoded of it
    /// but its small columns.
    pub(super) fn is_padding(&self, index: u64) -> bool {
        index >= self.own_end
    }

    /// Whether the requests of this row of the stream go before those of later rows.
    pub(super) fn is_urgent(&self, index: u64) -> bool {
        self.urgent.contains(&index)
    }

    /// The row of the stream at `index`.
    pub(super) fn step(&self, index: u64) -> Result<Step> {
        let is_padding = self.is_padding(index);
        let step = if is_padding { self.order.padding_step() } else { self.order.step(index) };
        step.ok_or_else(|| Error::internal("the stream ends before this row"))
    }

    /// The shard of a row.
    pub(super) fn shard(&self, step: Step) -> Result<&Shard> {
        let shard = self.shards.get(step.row.shard as usize);
        shard.ok_or_else(|| Error::internal("the order names a shard that is not there"))
    }

    /// The requests to each shard, and the outcomes of its rows.
    pub(super) fn reads(&self) -> Vec<ShardReads> {
        let shards = self.shards.iter().zip(&self.row_counts);
        shards.map(|(shard, rows)| ShardReads { rows: rows.rows(), ..shard.reads() }).collect()
    }

    /// The shards of these rows of the stream, in the order in which they are needed.
    pub(super) fn shards_of(&self, rows: Range<u64>) -> Vec<&Shard> {
        let mut seen = HashSet::new();
        let steps = rows.map_while(|index| self.order.step(index));
        let new = steps.filter(|step| seen.insert(step.row.shard));
        new.filter_map(|step| self.shard(step).ok()).collect()
    }

    /// Whether a blob of this many bytes is a recording beyond the limit.
    pub(super) fn is_too_long(&self, blob: usize, n_bytes: u64) -> bool {
        let audio = self.audio.as_ref().filter(|(audio, _)| *audio == blob);
        audio.is_some_and(|(_, spec)| spec.limits.check_bytes(n_bytes).is_err())
    }

    /// Bytes of one row's slot in a batch; 0 where rows have no slots.
    pub(super) fn slot_bytes(&self) -> usize {
        self.slot_shape
            .as_ref()
            .map_or(0, |shape| shape.iter().product::<usize>() * self.sample_type().n_bytes())
    }

    /// The type of decoded samples.
    pub(super) fn sample_type(&self) -> SampleType {
        self.audio.as_ref().map_or(SampleType::F32, |(_, spec)| spec.sample_type)
    }
}

/// The numbers that decide crops: those of format version 1 are the seed alone.
fn crop_words(options: &Options) -> Vec<u64> {
    let seed = options.crop_seed;
    let AudioRequest::Decode { spec, .. } = &options.audio else { return vec![seed] };
    match spec.crop {
        Crop::Window { windows: Windows { seconds, hop_s, tail }, .. } => {
            let rate_hz = spec.rate_hz.map_or(0, u64::from);
            vec![seed, 1, seconds.to_bits(), hop_s.to_bits(), tail as u64, rate_hz]
        }
        Crop::Event(event) => {
            let seconds = event.seconds.map_or(0, f64::to_bits);
            let mut words = vec![seed, 2, seconds, event.place as u64];
            if let Some(EventOptions { columns, pick }) = &options.events {
                words.push(*pick as u64);
                words.extend(columns.names().iter().map(|name| fnv1a(name.as_bytes())));
            }
            words
        }
        _ => vec![seed],
    }
}

fn order_of(
    shards: &[Shard],
    options: &Options,
    audio: Option<&(String, AudioSpec)>,
    progress: Option<&Progress>,
) -> Result<Order> {
    for &(number, expected) in &options.expected_rows {
        let shard = shards.get(number as usize).filter(|shard| shard.n_rows() != expected);
        if let Some(shard) = shard {
            return Err(Error::config(format!(
                "the quarantine file is of other data: it was written when {} had {expected} rows, \
                 and now it has {}; scan the data again, or name the rows as (shard, row) pairs",
                shard.name(),
                shard.n_rows()
            )));
        }
    }
    let selector = Selector {
        shards,
        index_dir: &options.index_dir,
        n_threads: options.n_openers(),
        limit: options.memory_budget,
    };
    let selected = selector.rows(&options.rows, &options.exclude)?;
    let parts = match progress {
        Some(progress) => part_counts(shards, &selected.rows, options, audio, progress)?,
        None => None,
    };
    match (&options.weights, options.order.draws) {
        // Without rows there is nothing to draw from, and the stream ends at once.
        (Some(weights), Some(draws)) if !selected.rows.is_empty() => {
            let weights = selector.weights(weights, &selected)?;
            let (weights, per_epoch) = match &parts {
                Some(parts) => (parts.drawable(weights), Some(parts.len())),
                None => (weights, None),
            };
            let draws = Draws { per_epoch: draws.per_epoch.or(per_epoch), ..draws };
            let sampling = Sampling::new(draws, weights)?;
            Order::sampled(selected.rows, parts, &options.order, sampling)
        }
        _ => match parts {
            Some(parts) => Order::of_parts(selected.rows, parts, &options.order),
            None => Order::new(selected.rows, &options.order),
        },
    }
}

/// The order of a data set, from the metadata of its shards. Where elements are parts of rows, it
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
    let store = options.store(&runtime.descriptors).with_cancel(Arc::clone(cancel));
    let store = Arc::new(store);
    let shards = open_all(&store, &options.index_dir, &options.paths, options.n_openers())?;
    let audio = match shards.first() {
        Some(first) if options.has_parts() => {
            let known: Vec<String> =
                audio_columns(first.schema()).into_iter().map(|(name, _)| name).collect();
            decoded_column(options, &known).map_err(|e| e.in_shard(first.name()))?
        }
        _ => None,
    };
    order_of(&shards, options, audio.as_ref(), Some(progress))
}
