//! The opened shards, and what follows from their metadata and the options.

use std::{collections::HashSet, ops::Range, sync::Arc};

use super::{
    columns::{added_columns, check_added, multi_hot_columns, sources},
    features_rate::{RateNotice, features_rate},
    joined::JoinedColumns,
    options::{Options, SourceOptions},
    sizes,
    source::{AudioColumn, OpenedShards, Source, crop_words},
};
use crate::{
    batch::ElementLayout,
    error::{Error, ErrorKind, Result},
    metrics::{RowCounts, ShardReads},
    order::{Fingerprint, Order, Schedule, Step},
    shard::{Labels, Shard},
    store::Store,
};

/// The opened shards of a data set, or of all data sets of a mixture, their order, and what is read of
/// each row.
#[derive(Debug)]
pub(crate) struct Dataset {
    /// Those of one data set after those of another.
    pub(crate) shards: Arc<[Shard]>,
    /// The outcomes of each one's rows.
    pub(crate) row_counts: Vec<RowCounts>,
    pub(crate) order: Order,
    /// The columns that are read row by row.
    pub(crate) blobs: Vec<String>,
    pub(crate) layout: ElementLayout,
    /// Bytes of a row in the buffer of each column that is decoded; none where rows have buffers of their
    /// own, since their shapes may differ.
    pub(crate) slot_sizes: Vec<usize>,
    pub(crate) fingerprint: Fingerprint,
    /// The position at which the stream was resumed, as (epoch, index).
    pub(crate) start: (u64, u64),
    /// What is said of recordings that are resampled where nobody asked for a rate.
    pub(crate) rate_notice: RateNotice,
    first_source: Source,
    other_sources: Vec<Source>,
    /// Whether batches are read as wholes: of rows without blobs, whose tables others need as well.
    pub(crate) has_whole_batches: bool,
    /// The rows of the first batch, if they have blobs.
    urgent: Range<u64>,
    /// The index behind the last row of the stream; rows from there on only fill up the last batch.
    own_end: u64,
}

impl Dataset {
    /// Reads the shards' metadata, in parallel, and works out the columns. `order_of` gives the order of one data
    /// set's rows.
    pub(crate) fn open(
        options: &Options,
        store: &Arc<Store>,
        order_of: impl Fn(&OpenedShards, &SourceOptions) -> Result<Order>,
    ) -> Result<Self> {
        let open = |source| OpenedShards::open(options, source, store);
        let opened = options.sources.iter().map(open).collect::<Result<Vec<_>>>()?;
        let labels = options.mixture.as_ref().map_or(Labels::Map, |mixture| mixture.labels);
        let joined = JoinedColumns::of(&opened, labels)?;
        let JoinedColumns { delivered, blobs, .. } = &joined;

        let mut sources_of = Vec::with_capacity(opened.len());
        let mut orders = Vec::with_capacity(opened.len());
        let mut data_sets = Vec::with_capacity(opened.len());
        let mut first_shard = 0;
        for (k, (source, of)) in options.sources.iter().zip(&opened).enumerate() {
            let class_ids = |projection: &_| joined.class_ids(k, projection);
            let both = (options, source);
            sources_of.push(Source::new(both, of, first_shard, (delivered, blobs), class_ids)?);
            let order = order_of(of, source);
            orders.push(order.map_err(|error| of_data_set(options, k, error))?);
            let keys = of.shards.iter().map(Shard::key).collect();
            data_sets.push((keys, crop_words(source, of.audio.first())));
            first_shard += of.shards.len() as u32;
        }
        let rate_notice = rate_notice(options, &opened)?;
        let order = joined_order(options, orders)?;
        let fingerprint = Fingerprint::new(&order, &data_sets);

        let first_shards = sources_of.iter().map(|source| source.first_shard).collect();
        let shards: Arc<[Shard]> = opened.into_iter().flat_map(|of| of.shards).collect();
        let first = shards.first().ok_or_else(|| Error::config("there are no shards"))?;
        let named = |e: Error| e.in_shard(first.name());
        let mut sources_of = sources_of.into_iter();
        let first_source =
            sources_of.next().ok_or_else(|| Error::config("there are no data sets"))?;
        let (projection, audio) = (&first_source.projection, &first_source.audio);
        let layout = ElementLayout {
            columns: sources(delivered.iter().cloned(), projection, blobs, audio),
            added: added_columns(options, audio),
            styles: options.styles.clone(),
            multi_hot: Vec::new(),
            first_shards,
        };
        let is_delivered = |name: &str| layout.columns.iter().any(|(column, _)| column == name);
        options.styles.check(is_delivered).map_err(named)?;
        options.styles.check_audio(blobs).map_err(named)?;
        let multi_hot =
            multi_hot_columns(&options.styles, |name| joined.class_names(name), projection);
        let multi_hot = multi_hot.map_err(named)?;
        let layout = ElementLayout { multi_hot, ..layout };
        check_added(&layout).map_err(named)?;
        if options.with_crop && audio.is_empty() {
            return Err(Error::config(
                "with_crop=True is about audio that is decoded, and here none is; name the column: \
                 audio=gm.Audio(\"column\", ...), or leave with_crop= out",
            ));
        }
        let slot_sizes: Option<Vec<usize>> = audio.iter().map(AudioColumn::row_bytes).collect();
        let other_sources: Vec<Source> = sources_of.collect();
        let mut sources = std::iter::once(&first_source).chain(&other_sources);
        let has_whole_batches =
            joined.blobs.is_empty() && sources.all(|source| source.row_alone_bytes.is_none());
        let row_counts = shards.iter().map(|_| RowCounts::default()).collect();
        Ok(Self {
            shards,
            row_counts,
            order,
            blobs: joined.blobs,
            layout,
            slot_sizes: slot_sizes.unwrap_or_default(),
            fingerprint,
            start: (0, 0),
            rate_notice,
            first_source,
            other_sources,
            has_whole_batches,
            urgent: 0..0,
            own_end: u64::MAX,
        })
    }

    /// Prepares for rows in whatever order they are asked for.
    pub(crate) fn expect_random_access(&mut self, options: &Options) {
        let source = &mut self.first_source;
        source.row_alone_bytes = sizes::row_bytes(options, &self.shards, &source.projection, 1);
    }

    /// The data set that has the shard of this number.
    pub(crate) fn source(&self, shard: u32) -> &Source {
        let others = &self.other_sources;
        let behind = others.partition_point(|source| source.first_shard <= shard);
        behind.checked_sub(1).and_then(|k| others.get(k)).unwrap_or(&self.first_source)
    }

    /// Whether tables are loaded ahead: in file order, where rows are not read without them.
    pub(crate) fn loads_ahead(&self, options: &Options) -> bool {
        options.is_file_order() && self.source(0).batch_row_bytes.is_none()
    }

    /// Whether a column is decoded.
    pub(crate) fn is_decoding(&self) -> bool {
        !self.first_source.audio.is_empty()
    }

    /// What is read and decoded of the first data set: the same columns, and audio of the same shape,
    /// as of all others.
    pub(crate) fn first_source(&self) -> &Source {
        &self.first_source
    }

    /// Sets the position at which the stream is resumed, and its urgent rows.
    pub(crate) fn set_start(&mut self, position: (u64, u64), urgent: Range<u64>) {
        (self.start, self.urgent) = (position, urgent);
    }

    /// Sets the index from which on rows only fill up the last batch.
    pub(crate) fn set_own_end(&mut self, own_end: u64) {
        self.own_end = own_end;
    }

    /// Whether the row at this index only fills up the last batch: nothing is read or decoded of it
    /// but its small columns.
    pub(crate) fn is_padding(&self, index: u64) -> bool {
        index >= self.own_end
    }

    /// Whether the requests of this row of the stream go before those of later rows.
    pub(crate) fn is_urgent(&self, index: u64) -> bool {
        self.urgent.contains(&index)
    }

    /// The row of the stream at `index`.
    pub(crate) fn step(&self, index: u64) -> Result<Step> {
        let is_padding = self.is_padding(index);
        let step = if is_padding { self.order.padding_step() } else { self.order.step(index) };
        step.ok_or_else(|| Error::internal("the stream ends before this row"))
    }

    /// The shard of a row.
    pub(crate) fn shard(&self, step: Step) -> Result<&Shard> {
        let shard = self.shards.get(step.row.shard as usize);
        shard.ok_or_else(|| Error::internal("the order names a shard that is not there"))
    }

    /// The requests to each shard, and the outcomes of its rows.
    pub(crate) fn reads(&self) -> Vec<ShardReads> {
        let shards = self.shards.iter().zip(&self.row_counts).zip(0..);
        let reads = |((shard, rows), number): ((&Shard, &RowCounts), u32)| {
            let (data_set, _) = self.order.locate_shard(number);
            ShardReads { rows: rows.rows(), data_set: data_set as u32, ..shard.reads() }
        };
        shards.map(reads).collect()
    }

    /// The shards of these rows of the stream, in the order in which they are needed.
    pub(crate) fn shards_of(&self, rows: Range<u64>) -> Vec<&Shard> {
        let mut seen = HashSet::new();
        let steps = rows.map_while(|index| self.order.step(index));
        let new = steps.filter(|step| seen.insert(step.row.shard));
        new.filter_map(|step| self.shard(step).ok()).collect()
    }

    /// Bytes of one row's slots in a batch; 0 where rows have no slots.
    pub(crate) fn slot_bytes(&self) -> usize {
        self.slot_sizes.iter().fold(0, |sum, size| sum.saturating_add(*size))
    }
}

/// What is said of the first data set that is decoded at the rate of its features.
fn rate_notice(options: &Options, opened: &[OpenedShards]) -> Result<RateNotice> {
    for (source, of) in options.sources.iter().zip(opened) {
        let Some(first) = of.shards.first() else { continue };
        for (n, (column, _)) in of.audio.iter().enumerate() {
            let rate_hz = features_rate(source, &of.shards, (n, column))?;
            if rate_hz.is_some() {
                return Ok(RateNotice::new(first, column, rate_hz));
            }
        }
    }
    Ok(RateNotice::default())
}

/// The order of the data set, or of all of them in turn.
pub(crate) fn joined_order(options: &Options, mut orders: Vec<Order>) -> Result<Order> {
    match &options.mixture {
        Some(mixture) => Order::mixed(orders, Schedule::new(&mixture.weights)?, mixture.stop),
        None => orders.pop().ok_or_else(|| Error::config("there are no data sets")),
    }
}

/// An error about the options of a data set, which says of which one of a mixture.
pub(crate) fn of_data_set(options: &Options, k: usize, error: Error) -> Error {
    match error.kind() {
        ErrorKind::Config(what) if options.mixture.is_some() => {
            Error::config(format!("data set {k} of the mixture: {what}"))
        }
        _ => error,
    }
}
