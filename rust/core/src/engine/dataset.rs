//! The opened shards, and what follows from their metadata and the options.

use std::{collections::HashSet, ops::Range, sync::Arc};

use crate::{
    batch::{ColumnSource, ElementLayout, VALID, check_supported},
    error::{Error, Result},
    metrics::{RowCounts, ShardReads},
    order::{Fingerprint, Order, Sampling, Step},
    select::Selector,
    shard::{Projection, Shard, audio_columns, check_class_names, open_all},
    store::Store,
};
use gristmill_audio::{AudioSpec, Budget, Channels, Pad, SampleType};

use super::{
    Runtime,
    bad_rows::PathColumn,
    options::{AudioRequest, OnError, Options},
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
}

impl Dataset {
    /// Reads the shards' metadata, in parallel, and works out columns and order.
    pub(super) fn open(options: &Options, store: &Arc<Store>) -> Result<Self> {
        let shards = open_all(store, &options.index_dir, &options.paths, options.n_openers())?;
        let first = shards.first().ok_or_else(|| Error::config("there are no shards"))?;
        let schema = first.schema();
        let named = |e: Error| e.in_shard(first.name());
        let wanted = |name: &str| {
            options.columns.as_ref().is_none_or(|columns| columns.iter().any(|c| c == name))
        };
        let known: Vec<String> = audio_columns(schema).into_iter().map(|(name, _)| name).collect();
        let audio = decoded_column(options, &known, wanted).map_err(named)?;
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
        let projection = project(schema, columns.as_deref(), &blobs).map_err(named)?;
        check_supported(&projection.small_schema(), &options.styles).map_err(named)?;

        let delivered = schema.fields().iter().map(|field| field.name().as_str());
        let delivered: Vec<_> = delivered
            .filter(|name| columns.as_ref().is_none_or(|columns| columns.iter().any(|c| c == name)))
            .collect();
        check_names(&delivered).map_err(named)?;
        check_class_names(&shards, &delivered)?;

        let order = order_of(&shards, options)?;
        let keys: Vec<u64> = shards.iter().map(Shard::key).collect();
        let fingerprint = Fingerprint::new(&order, &keys, options.crop_seed);

        let names = delivered.iter().map(|name| (*name).to_owned());
        let layout = ElementLayout {
            columns: sources(names, &projection, &blobs, decoded),
            with_row_id: options.with_row_id,
            with_valid: options.on_error == OnError::Mask,
            styles: options.styles.clone(),
        };
        let is_delivered = |name: &str| layout.columns.iter().any(|(column, _)| column == name);
        options.styles.check(is_delivered).map_err(named)?;
        check_added(&layout).map_err(named)?;
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
            slot_shape,
            fingerprint,
            paths,
            files,
            start: (0, 0),
            urgent: 0..0,
        })
    }

    /// Sets the position at which the stream is resumed, and its urgent rows.
    pub(super) fn set_start(&mut self, position: (u64, u64), urgent: Range<u64>) {
        (self.start, self.urgent) = (position, urgent);
    }

    /// Whether the requests of this row of the stream go before those of later rows.
    pub(super) fn is_urgent(&self, index: u64) -> bool {
        self.urgent.contains(&index)
    }

    /// The row of the stream at `index`.
    pub(super) fn step(&self, index: u64) -> Result<Step> {
        let step = self.order.step(index);
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

fn order_of(shards: &[Shard], options: &Options) -> Result<Order> {
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
    match (&options.weights, options.order.draws) {
        // Without rows there is nothing to draw from, and the stream ends at once.
        (Some(weights), Some(draws)) if !selected.rows.is_empty() => {
            let weights = selector.weights(weights, &selected)?;
            Order::sampled(selected.rows, &options.order, Sampling::new(draws, weights)?)
        }
        _ => Order::new(selected.rows, &options.order),
    }
}

/// The order of a data set, from the metadata of its shards.
///
/// # Errors
///
/// Those of opening a pipeline, except those about columns and audio.
pub fn open_order(options: &Options, runtime: &Runtime) -> Result<Order> {
    options.check()?;
    let store = Arc::new(options.store(&runtime.descriptors));
    let shards = open_all(&store, &options.index_dir, &options.paths, options.n_openers())?;
    order_of(&shards, options)
}

/// The column that is decoded, of those that the features call audio, and how.
fn decoded_column(
    options: &Options,
    known: &[String],
    wanted: impl Fn(&str) -> bool,
) -> Result<Option<(String, AudioSpec)>> {
    let audio = match &options.audio {
        AudioRequest::Encoded => None,
        AudioRequest::Auto => {
            let whole = AudioSpec { channels: Channels::Mono, pad: Pad::Zero, ..AudioSpec::WHOLE };
            let asked: Vec<_> = known.iter().filter(|name| wanted(name)).cloned().collect();
            match asked.as_slice() {
                [] => None,
                some => Some((found_by_features(some)?, whole)),
            }
        }
        AudioRequest::Decode { column, spec } => {
            let name = match column {
                Some(name) => name.clone(),
                None => found_by_features(known)?,
            };
            Some((name, spec.clone()))
        }
    };
    Ok(audio.map(|(name, mut spec)| {
        // The size of a slot depends on the options alone, not on any recording.
        let slot = spec.fixed_shape().map(|(n, len)| 4 * u64::from(n) * len as u64);
        let rows = if slot.is_some() { 1 } else { options.rows_per_batch() as u64 };
        let bytes = slot.unwrap_or(0).saturating_add(options.column_limit() as u64);
        spec.limits.budget = Budget { bytes, batch_rows: rows };
        (name, spec)
    }))
}

fn found_by_features(known: &[String]) -> Result<String> {
    match known {
        [name] => Ok(name.clone()),
        [] => Err(Error::schema(
            "",
            "no column is marked as audio in the schema's Hugging Face features; name it: \
             gm.Audio(\"column\", ...)",
        )),
        many => Err(Error::schema(
            "",
            format!(
                "several columns are audio ({}); name the one to decode: \
                 audio=gm.Audio({:?}, ...), or leave them encoded: audio=None",
                many.join(", "),
                many.first().map_or("column", String::as_str)
            ),
        )),
    }
}

/// Refuses columns of the shards that have the names of those that are added.
fn check_added(layout: &ElementLayout) -> Result<()> {
    let taken = layout.columns.iter().find(|(name, _)| name == "shard" || name == "row");
    if let Some((name, _)) = taken.filter(|_| layout.with_row_id) {
        let reason = "with_row_id=True adds a column of this name; leave the shards' own out \
                      with columns=[...], or take no row ids";
        return Err(Error::schema(name, reason));
    }
    if layout.with_valid && layout.columns.iter().any(|(name, _)| name == VALID) {
        let reason = "on_error=\"mask\" adds a column of this name; leave the shards' own out \
                      with columns=[...], or have another on_error";
        return Err(Error::schema(VALID, reason));
    }
    Ok(())
}

/// Refuses two columns of the same name, since an element could have only one of them.
fn check_names(delivered: &[&str]) -> Result<()> {
    let mut seen = HashSet::new();
    match delivered.iter().find(|name| !seen.insert(**name)) {
        None => Ok(()),
        Some(twice) => Err(Error::schema(
            *twice,
            "two columns of the shards have this name; rename one of them where the shards are \
             written, or name other columns in columns=[...]",
        )),
    }
}

/// The source of each column.
fn sources(
    names: impl Iterator<Item = String>,
    projection: &Projection,
    blobs: &[String],
    decoded: Option<&String>,
) -> Vec<(String, ColumnSource)> {
    let small = projection.small_schema();
    let small = |name: &str| small.fields().iter().position(|field| field.name() == name);
    let source = |name: &String| match blobs.iter().position(|blob| blob == name) {
        Some(k) if decoded == Some(name) => Some(ColumnSource::Audio(k)),
        Some(k) => Some(ColumnSource::Blob { blob: k, fields: small(name) }),
        None => small(name).map(ColumnSource::Table),
    };
    names.filter_map(|name| source(&name).map(|source| (name, source))).collect()
}
