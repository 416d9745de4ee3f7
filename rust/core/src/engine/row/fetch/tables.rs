//! Tables of record batches through their cache, and of rows alone.

use std::{ops::Range, sync::Arc};

use super::super::{context::Context, plan::TableRead};
use crate::{
    engine::{
        cache::{BatchId, LoadCache, Lookup, TableCache},
        dataset::{AudioColumn, Dataset, Source, path_in},
        wait::{ReadEvents, WaitFor},
    },
    error::Result,
    memory::Permit,
    order::RowId,
    shard::{Shard, Table},
};

/// Cached bytes of the tables of paths: those of a few record batches.
const PATHS_LIMIT: usize = 1 << 20;

/// What was fetched, or what must happen before it can be.
#[derive(Debug)]
pub(crate) enum Fetched<T> {
    Done(T),
    Wait(WaitFor),
}

/// The tables of one stream, or of random access.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) context: Arc<Context>,
    pub(crate) cache: TableCache,
    events: Arc<dyn ReadEvents>,
    /// Tables of the original paths of recordings, by the number of their blobs, which are read for bad rows
    /// only.
    paths: LoadCache<(BatchId, usize), Table>,
}

impl Tables {
    pub(crate) fn new(
        context: &Arc<Context>,
        events: &Arc<dyn ReadEvents>,
        cache: TableCache,
    ) -> Self {
        let (context, events) = (Arc::clone(context), Arc::clone(events));
        Self { context, cache, events, paths: LoadCache::new(PATHS_LIMIT) }
    }

    /// Frees what is cached.
    pub(crate) fn clear(&self) {
        self.cache.clear();
        self.paths.clear();
    }

    /// A table as `read` says, which becomes that of the whole record batch where rows of it cannot be read
    /// alone. `permit` is what the rows waited for.
    ///
    /// Blocks for requests to the storage only.
    pub(crate) fn read(
        &self,
        (dataset, shard): (&Dataset, &Shard),
        read: &mut TableRead,
        mut permit: Option<Permit>,
    ) -> Result<Fetched<Arc<Table>>> {
        let batch = match read {
            TableRead::Whole(batch) => *batch,
            TableRead::Rows(batch, rows, n_bytes) => {
                let alone = self.rows(dataset, (*batch, &*rows), *n_bytes, &mut permit)?;
                if let Some(fetched) = alone {
                    return Ok(fetched);
                }
                *batch
            }
        };
        *read = TableRead::Whole(batch);
        self.whole(dataset, shard, batch, permit)
    }

    /// The table of a record batch, which is loaded if there is a permit for it.
    pub(crate) fn whole(
        &self,
        dataset: &Dataset,
        shard: &Shard,
        batch: BatchId,
        permit: Option<Permit>,
    ) -> Result<Fetched<Arc<Table>>> {
        let Source { projection, class_ids, .. } = dataset.source(batch.0);
        if let Some(permit) = permit {
            let budget = self.context.options.memory_budget;
            let known = shard.table_size(batch.1, projection)?;
            let loaded = self.cache.load(batch, known, permit, |on_size| {
                let metrics = &self.context.metrics;
                metrics.tables.time(|| {
                    let table = shard.load_table_within(batch.1, projection, budget, on_size)?;
                    class_ids.apply(table)
                })
            });
            self.events.load_ended();
            if let Some(table) = loaded? {
                return Ok(Fetched::Done(table));
            }
        }
        if let Lookup::Loaded(table) = self.cache.find(batch) {
            return Ok(Fetched::Done(table));
        }
        // Counted before the look-up, so that a load which ends after it is noticed.
        let after = self.events.n_loads();
        let known = shard.table_size(batch.1, projection)?;
        Ok(match self.cache.find(batch) {
            Lookup::Loaded(table) => Fetched::Done(table),
            Lookup::Missing if !self.cache.is_crowded(known) => {
                let n_bytes = self.cache.expected_bytes(known);
                Fetched::Wait(WaitFor::Bytes { n_bytes, from_reserve: true })
            }
            Lookup::Missing | Lookup::Loading => Fetched::Wait(WaitFor::Load { after }),
        })
    }

    /// A table of these rows of a record batch alone, which take about `n_bytes` bytes; `None` where only
    /// the whole record batch can be read. `permit` is what they waited for, and stays where it is then.
    ///
    /// Blocks for requests to the storage only.
    pub(crate) fn rows(
        &self,
        dataset: &Dataset,
        ((number, batch), rows): (BatchId, &Range<usize>),
        n_bytes: usize,
        permit: &mut Option<Permit>,
    ) -> Result<Option<Fetched<Arc<Table>>>> {
        let Some(shard) = dataset.shards.get(number as usize) else { return Ok(None) };
        let own = if permit.is_some() { None } else { self.context.account.try_take(n_bytes) };
        if permit.is_none() && own.is_none() {
            let wait = WaitFor::Bytes { n_bytes, from_reserve: false };
            return Ok(Some(Fetched::Wait(wait)));
        }
        let source = dataset.source(number);
        let budget = self.context.options.memory_budget;
        let slice = self.context.metrics.tables.time(|| {
            let slice = shard.load_slice(batch, rows, &source.projection, budget)?;
            slice.map(|slice| source.class_ids.apply(slice)).transpose()
        })?;
        Ok(slice.map(|mut slice| {
            slice.permit = own.or_else(|| permit.take()).map(|mut permit| {
                permit.set(slice.n_bytes);
                Arc::new(permit)
            });
            Fetched::Done(Arc::new(slice))
        }))
    }

    /// The original path of this row's recording in this column. Errors are ignored: only bad rows are looked
    /// up.
    pub(crate) fn path_of(
        &self,
        dataset: &Dataset,
        column: &AudioColumn,
        id: RowId,
    ) -> Option<String> {
        let projection = column.paths.as_ref()?.projection();
        let shard = dataset.shards.get(id.shard as usize)?;
        let (number, table_row) = shard.locate(id.row)?;
        let batch = ((id.shard, number), column.blob);
        if let Lookup::Loaded(table) = self.paths.find(batch) {
            return path_in(table.columns.columns().first()?, table_row);
        }
        // `None` where another thread loads it too: then this one does not add its own.
        let loading = self.paths.begin(batch, 0, false);
        let budget = self.context.options.memory_budget;
        let mut table = shard.load_table_within(number, projection, budget, &|_| ()).ok()?;
        let n_bytes = table.n_bytes;
        table.permit = Some(Arc::new(self.context.account.take(n_bytes)));
        let table = Arc::new(table);
        if let Some(loading) = loading {
            loading.finish(&table, n_bytes);
        }
        path_in(table.columns.columns().first()?, table_row)
    }
}
