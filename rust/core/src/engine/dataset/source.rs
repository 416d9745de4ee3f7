//! One data set of a stream: its shards' columns, and how its rows are read and decoded.

use std::{path::Path, sync::Arc};

use arrow_schema::Schema;

use super::{
    columns::{
        check_joined, check_names, decoded_columns, is_wanted, known_audio, parts_of_columns,
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
use gristmill_audio::{AudioSpec, Channels, Crop, Windows};

/// The shards of one data set, and which of their columns are delivered.
#[derive(Debug)]
pub(crate) struct OpenedShards {
    pub(crate) shards: Vec<Shard>,
    /// The columns that are delivered, in the schema's order.
    pub(crate) delivered: Vec<String>,
    /// Those of them that are read row by row.
    pub(crate) blobs: Vec<String>,
    /// Those that are decoded, and how.
    pub(crate) audio: Vec<(String, AudioSpec)>,
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
    /// The columns that are decoded. The first decides what part of a row all of them hold.
    pub(crate) audio: Vec<AudioColumn>,
    /// The seed of random crops.
    pub(crate) crop_seed: u64,
    /// What reads the rows' events, and which of them are delivered.
    pub(crate) events: Option<(EventReader, Pick)>,
    /// Class ids that become those of a mixture.
    pub(crate) class_ids: ClassIds,
}

/// A column that is decoded.
#[derive(Debug)]
pub(crate) struct AudioColumn {
    pub(crate) name: Arc<str>,
    /// Its index among the blobs.
    pub(crate) blob: usize,
    pub(crate) spec: AudioSpec,
    /// The shape of a decoded row, if it is the same for all rows.
    pub(crate) shape: Option<Vec<usize>>,
    pub(crate) max_missing: Option<f64>,
    /// The recordings' original paths, which are read for bad rows only.
    pub(crate) paths: Option<PathColumn>,
    /// Where the recordings of rows without bytes lie; `None` where that was not said.
    pub(crate) files: Option<RecordingFiles>,
}

impl AudioColumn {
    /// That of this name and blob. The recordings of rows without bytes lie in `root`.
    fn new(
        (name, blob, spec): (&str, usize, &AudioSpec),
        (root, max_missing): (Option<&Path>, Option<f64>),
        (schema, projection): (&Schema, &Projection),
    ) -> Result<Self> {
        let paths = PathColumn::find(schema, name);
        let files = RecordingFiles::find(root, paths.is_some().then_some(name), projection)?;
        let shape = spec.fixed_shape().map(|(channels, frames)| match spec.channels {
            Channels::Mono => vec![frames],
            _ => vec![usize::from(channels), frames],
        });
        let (name, spec) = (Arc::from(name), spec.clone());
        Ok(Self { name, blob, spec, shape, max_missing, paths, files })
    }

    /// Bytes of a decoded row; `None` where that depends on the row.
    pub(crate) fn row_bytes(&self) -> Option<usize> {
        let n_samples = self.shape.as_ref()?.iter().product::<usize>();
        Some(n_samples * self.spec.sample_type.n_bytes())
    }
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
        let audio = decoded_columns(options, source, &shards, &known).map_err(named)?;
        let decoded = || audio.iter().map(|(name, _)| name);
        // Paths are text until they are decoded, and then the last: see `Projection::with_paths`.
        let is_text = |name: &String| {
            field_at(schema, name).is_some_and(|field| holds_paths(field.data_type()))
        };
        let known = known.into_iter().filter(|name| is_wanted(source, name) && !is_text(name));
        let mut texts = decoded().filter(|name| is_text(name));
        if let (Some(one), Some(other), true) = (texts.next(), texts.next(), audio.len() > 1) {
            let reason = format!(
                "it holds paths of recordings, and so does column {one:?}: one column of paths can be \
                 decoded; write the recordings into the shards with gm.pack, or decode one of them"
            );
            return Err(named(Error::schema(other, reason)));
        }
        let mut blobs: Vec<String> = Vec::new();
        if audio.len() > 1 {
            // In their order: where the first is cropped decides what is read of the others.
            blobs.extend(decoded().filter(|name| !is_text(name)).cloned());
        }
        for name in known {
            if !blobs.contains(&name) {
                blobs.push(name);
            }
        }
        for name in decoded() {
            if !blobs.contains(name) {
                blobs.push(name.clone());
            }
        }
        // Naming a column in `audio` asks for it.
        let comes = |name: &String| is_wanted(source, name) || decoded().any(|of| of == name);
        let parts = parts_of_columns((options, source), decoded(), schema);
        let mut delivered: Vec<String> = Vec::new();
        for (k, field) in schema.fields().iter().enumerate() {
            delivered.extend(Some(field.name()).filter(|name| comes(name)).cloned());
            let of_it = parts.iter().filter(|(column, _)| *column == k);
            delivered.extend(of_it.map(|(_, part)| (*part).clone()));
        }
        delivered.iter().try_for_each(|name| first.check_column(Some(name)))?;
        // Refuses names of columns that do not exist.
        let wanted = source.columns.iter().flatten().chain(decoded()).cloned().collect::<Vec<_>>();
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
        let is_decoded = |name: &String| opened.audio.iter().any(|(decoded, _)| decoded == name);
        let is_all_decoded = blobs.iter().all(is_decoded);
        let project = if source.of_recordings().any(|(root, _)| root.is_some()) {
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
        let columns = opened.audio.iter().zip(source.of_recordings());
        let columns = columns.filter_map(|((name, spec), options)| {
            let blob = blobs.iter().position(|blob| blob == name)?;
            Some(AudioColumn::new((name, blob, spec), options, (schema, &projection)))
        });
        let audio = columns.collect::<Result<_>>()?;
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
            events,
        })
    }

    /// The column that this blob is decoded for, and its number among those that are decoded.
    pub(crate) fn column_of(&self, blob: usize) -> Option<(usize, &AudioColumn)> {
        self.audio.iter().enumerate().find(|(_, column)| column.blob == blob)
    }

    /// Whether a blob of this many bytes is a recording beyond the limit.
    pub(crate) fn is_too_long(&self, blob: usize, n_bytes: u64) -> bool {
        let column = self.column_of(blob);
        column.is_some_and(|(_, column)| column.spec.limits.check_bytes(n_bytes).is_err())
    }

    /// An error about the recording of this column, which it names where there are others.
    pub(crate) fn in_column(&self, column: &AudioColumn, error: Error) -> Error {
        if self.audio.len() > 1 { error.in_column(&column.name) } else { error }
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
