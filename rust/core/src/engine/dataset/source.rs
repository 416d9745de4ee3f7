//! One data set of a stream: its shards' columns, and how its rows are read and decoded.

use std::sync::Arc;

use super::{
    columns::{
        check_joined, check_names, decoded_column, is_wanted, known_audio, parts_of_columns,
    },
    files::{PathColumn, RecordingFiles},
    options::{EventOptions, Options, Pick, SourceOptions},
    sizes,
};
use crate::{
    batch::{EventReader, check_supported},
    error::{Error, Result},
    hash::fnv1a,
    order::OrderSpec,
    shard::{ClassIds, ClassNames, Projection, Shard, field_at, holds_paths, open_all},
    store::{Store, is_remote},
};
use gristmill_audio::{AudioSpec, Crop, Windows};

/// The shards of one data set, and which of their columns are delivered.
#[derive(Debug)]
pub(crate) struct OpenedShards {
    pub(crate) shards: Vec<Shard>,
    /// The columns that are delivered, in the schema's order.
    pub(crate) delivered: Vec<String>,
    /// Those of them that are read row by row.
    pub(crate) blobs: Vec<String>,
    /// The one that is decoded, and how.
    pub(crate) audio: Option<(String, AudioSpec)>,
    /// The classes of those that hold class ids.
    pub(crate) class_names: ClassNames,
}

/// What is read of the rows of one data set, and how.
#[derive(Debug)]
pub(crate) struct Source {
    /// The number of its first shard among those of all data sets.
    pub(crate) first_shard: u32,
    pub(crate) order: OrderSpec,
    pub(crate) projection: Projection,
    /// The bytes that a row without its blobs takes on average; `None` where rows are read with the rest of
    /// their record batch.
    pub(crate) row_alone_bytes: Option<usize>,
    /// The same of the rows of a batch in file order, which are read together.
    pub(crate) batch_row_bytes: Option<usize>,
    /// The index of the blob that is decoded, and how.
    pub(crate) audio: Option<(usize, AudioSpec)>,
    /// The seed of random crops.
    pub(crate) crop_seed: u64,
    pub(crate) max_missing: Option<f64>,
    /// What reads the rows' events, and which of them are delivered.
    pub(crate) events: Option<(EventReader, Pick)>,
    /// The recordings' original paths, which are read for bad rows only.
    pub(crate) paths: Option<PathColumn>,
    /// Where the recordings of rows without bytes lie; `None` where that was not said.
    pub(crate) files: Option<RecordingFiles>,
    /// Class ids that become those of a mixture.
    pub(crate) class_ids: ClassIds,
}

impl OpenedShards {
    /// Reads the shards' metadata, in parallel, and finds the columns.
    pub(crate) fn open(
        options: &Options,
        source: &SourceOptions,
        store: &Arc<Store>,
    ) -> Result<Self> {
        let shards = open_shards(options, source, store)?;
        let first = shards.first().ok_or_else(|| Error::config("there are no shards"))?;
        let schema = first.schema();
        let named = |e: Error| e.in_shard(first.name());
        check_joined(source, first)?;
        let known = known_audio(source, first)?;
        let audio = decoded_column(options, source, &shards, &known).map_err(named)?;
        let decoded = audio.as_ref().map(|(name, _)| name);
        // Paths are text until they are decoded, and then the last: see `Projection::with_paths`.
        let is_text = |name: &String| {
            field_at(schema, name).is_some_and(|field| holds_paths(field.data_type()))
        };
        let known = known.into_iter().filter(|name| is_wanted(source, name) && !is_text(name));
        let mut blobs: Vec<String> = known.collect();
        blobs.extend(decoded.filter(|name| !blobs.contains(name)).cloned());
        // Naming a column in `audio` asks for it.
        let comes = |name: &String| is_wanted(source, name) || decoded == Some(name);
        let parts = parts_of_columns((options, source), decoded, schema);
        let mut delivered: Vec<String> = Vec::new();
        for (k, field) in schema.fields().iter().enumerate() {
            delivered.extend(Some(field.name()).filter(|name| comes(name)).cloned());
            let of_it = parts.iter().filter(|(column, _)| *column == k);
            delivered.extend(of_it.map(|(_, part)| (*part).clone()));
        }
        delivered.iter().try_for_each(|name| first.check_column(Some(name)))?;
        // Refuses names of columns that do not exist.
        let wanted = source.columns.iter().flatten().chain(decoded).cloned().collect::<Vec<_>>();
        Projection::new(schema, Some(&wanted), &[]).map_err(named)?;
        let names: Vec<&str> = delivered.iter().map(String::as_str).collect();
        check_names(&names).map_err(named)?;
        let class_names = first.class_names(&names);
        Ok(Self { shards, delivered, blobs, audio, class_names })
    }
}

/// Opens the shards of a data set.
pub(crate) fn open_shards(
    options: &Options,
    source: &SourceOptions,
    store: &Arc<Store>,
) -> Result<Vec<Shard>> {
    let n_threads = options.n_openers();
    open_all(store, &options.index_dir, &source.paths, n_threads, source.labels)
}

impl Source {
    /// The source of `opened`. `delivered` are the columns to deliver, and `blobs` those of them that are read
    /// row by row. All data sets of a stream have the same ones, in the same order.
    pub(crate) fn new(
        (options, source): (&Options, &SourceOptions),
        opened: &OpenedShards,
        first_shard: u32,
        (delivered, blobs): (&[String], &[String]),
        class_ids: impl FnOnce(&Projection) -> Result<ClassIds>,
    ) -> Result<Self> {
        let first = opened.shards.first().ok_or_else(|| Error::config("there are no shards"))?;
        let schema = first.schema();
        let named = |e: Error| e.in_shard(first.name());
        let decoded = opened.audio.as_ref().map(|(name, _)| name);
        let is_all_decoded = blobs.iter().all(|name| Some(name) == decoded);
        let project = if source.root.is_some() {
            Projection::with_paths
        } else if is_all_decoded {
            Projection::without_siblings
        } else {
            Projection::new
        };
        // Fields beside a blob are read last, because other data sets may lack them. Columns of events are
        // read even if they are not delivered.
        let mut read = delivered.to_vec();
        read.sort_by_key(|name| blobs.contains(name));
        let event_columns = source.events.iter().flat_map(|events| events.columns.names());
        read.extend(event_columns.filter(|name| !delivered.contains(name)).cloned());
        let projection = project(schema, Some(&read), blobs).map_err(named)?;
        check_supported(&projection.small_schema(), &options.styles).map_err(named)?;
        let events = source.events.as_ref().map(|events| {
            let reader = EventReader::new(&projection.small_schema(), &events.columns);
            reader.map(|reader| (reader, events.pick))
        });
        let events = events.transpose().map_err(named)?;
        let paths = decoded.and_then(|name| PathColumn::find(schema, name));
        let with_path = decoded.filter(|_| paths.is_some());
        let files = RecordingFiles::find(source.root.as_deref(), with_path, &projection)?;
        let audio = opened.audio.as_ref().and_then(|(name, spec)| {
            blobs.iter().position(|blob| blob == name).map(|k| (k, spec.clone()))
        });
        let order = &source.order;
        let (mut row_alone_bytes, mut batch_row_bytes) = (None, None);
        if order.is_scattered() {
            // Rows without blobs are looked up a batch at a time.
            let at_once = if blobs.is_empty() { options.rows_per_batch() } else { 1 };
            row_alone_bytes = sizes::row_bytes(options, &opened.shards, &projection, at_once);
        // Behind URLs a round trip is so long that larger requests are better.
        } else if order.is_file_order() && !source.paths.iter().any(|path| is_remote(path)) {
            batch_row_bytes = sizes::batch_row_bytes(options, &opened.shards, &projection);
        }
        Ok(Self {
            first_shard,
            order: source.order.clone(),
            class_ids: class_ids(&projection).map_err(named)?,
            row_alone_bytes,
            batch_row_bytes,
            projection,
            audio,
            crop_seed: source.crop_seed,
            max_missing: source.max_missing,
            events,
            paths,
            files,
        })
    }

    /// Whether this blob is the recording that is decoded.
    pub(crate) fn decodes(&self, blob: usize) -> bool {
        self.audio.as_ref().is_some_and(|(audio, _)| *audio == blob)
    }

    /// Whether a blob of this many bytes is a recording beyond the limit.
    pub(crate) fn is_too_long(&self, blob: usize, n_bytes: u64) -> bool {
        let audio = self.audio.as_ref().filter(|(audio, _)| *audio == blob);
        audio.is_some_and(|(_, spec)| spec.limits.check_bytes(n_bytes).is_err())
    }
}

/// The numbers that decide crops of the audio that is decoded: those of format version 1 are the seed
/// alone.
pub(crate) fn crop_words(source: &SourceOptions, audio: Option<&(String, AudioSpec)>) -> Vec<u64> {
    let seed = source.crop_seed;
    let Some((_, spec)) = audio else { return vec![seed] };
    match spec.crop {
        Crop::Window { windows: Windows { seconds, hop_s, tail }, .. } => {
            let rate_hz = spec.rate_hz.map_or(0, u64::from);
            vec![seed, 1, seconds.to_bits(), hop_s.to_bits(), tail as u64, rate_hz]
        }
        Crop::Event(event) => {
            let seconds = event.seconds.map_or(0, f64::to_bits);
            let mut words = vec![seed, 2, seconds, event.place as u64];
            if let Some(EventOptions { columns, pick }) = &source.events {
                words.push(*pick as u64);
                words.extend(columns.names().iter().map(|name| fnv1a(name.as_bytes())));
            }
            words
        }
        _ => vec![seed],
    }
}
