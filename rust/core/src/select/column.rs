//! The columns that options name, and reading them.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Schema};

use super::{
    DURATION,
    cell::{Cells, Kind},
};
use crate::{
    error::{Error, Result},
    shard::{Projection, Shard},
    threads,
};

/// A column by its name, or a field of a struct by its dotted path.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) name: String,
    /// The column of the schema, and the fields of structs that lead to the one.
    pub(super) names: Vec<String>,
    /// The indices of the field in the structs, from the outermost.
    path: Vec<usize>,
    pub(super) data_type: DataType,
    /// Of the values; of a list, of its items.
    pub(super) kind: Kind,
    pub(super) is_list: bool,
    /// The names of the classes of a `ClassLabel`.
    pub(super) classes: Option<Vec<String>>,
    /// Whether it is no column of the shards, but the length of each row's recording in seconds.
    pub(super) is_duration: bool,
}

impl Column {
    /// The lengths of recordings.
    pub(super) fn duration() -> Self {
        Self {
            name: DURATION.to_owned(),
            names: Vec::new(),
            path: Vec::new(),
            data_type: DataType::Float64,
            kind: Kind::Float { is_narrow: false },
            is_list: false,
            classes: None,
            is_duration: true,
        }
    }

    /// Whether the shards have this column.
    pub(super) fn is_there(shards: &[Shard], name: &str) -> Result<bool> {
        let Some(first) = shards.first() else { return Ok(false) };
        first.check_column(Some(name))?;
        Ok(located(first.schema(), name).is_some())
    }

    /// The column that `option` names. Only where `lists` are allowed it may be one of lists.
    pub(super) fn find(option: &str, shards: &[Shard], name: &str, lists: bool) -> Result<Self> {
        let Some(first) = shards.first() else { return Err(Error::config("there are no shards")) };
        first.check_column(Some(name))?;
        // As the columns are read: without what is read row by row.
        let schema = Projection::of_small(first.schema(), None)?.small_schema();
        let (names, path, data_type) = located(&schema, name).ok_or_else(|| {
            let names: Vec<_> = schema.fields().iter().map(|f| f.name().as_str()).collect();
            let what = "names this column, which the shards do not have; write one of";
            Error::schema(name, format!("{option} {what}: {}", names.join(", ")))
        })?;
        let item = match &data_type {
            DataType::List(item)
            | DataType::LargeList(item)
            | DataType::ListView(item)
            | DataType::LargeListView(item)
            | DataType::FixedSizeList(item, _) => Some(item),
            _ => None,
        };
        let values = item.map_or(&data_type, |item| item.data_type());
        let kind = Kind::of(values).filter(|_| lists || item.is_none());
        let kind = kind.ok_or_else(|| {
            let what = format!("{option} cannot use this column of type {data_type}");
            let lists = if lists { ", or lists of these" } else { "" };
            let those = "booleans, numbers, strings, binary values, dates or times";
            Error::schema(name, format!("{what}; name one of {those}{lists}"))
        })?;
        let top = names.first().map_or(name, String::as_str);
        let classes = first.class_names(&[top]).remove(name);
        Ok(Self {
            name: name.to_owned(),
            names,
            path,
            kind,
            is_list: item.is_some(),
            classes: classes.filter(|_| kind == Kind::Int),
            data_type,
            is_duration: false,
        })
    }
}

/// The column of this name, else the field at this dotted path: all names, the indices of the fields,
/// and the type.
fn located(schema: &Schema, name: &str) -> Option<(Vec<String>, Vec<usize>, DataType)> {
    if let Some((_, field)) = schema.column_with_name(name) {
        return Some((vec![name.to_owned()], Vec::new(), field.data_type().clone()));
    }
    // Names may have dots in them, so the column is any prefix.
    schema.fields().iter().find_map(|field| {
        let mut rest = name.strip_prefix(field.name().as_str())?.strip_prefix('.')?;
        let (mut data_type, mut path) = (field.data_type(), Vec::new());
        let mut names = vec![field.name().clone()];
        loop {
            let DataType::Struct(children) = data_type else { return None };
            if let Some((at, child)) = children.find(rest) {
                path.push(at);
                names.push(child.name().clone());
                return Some((names, path, child.data_type().clone()));
            }
            let (at, child, after) = children.iter().enumerate().find_map(|(at, child)| {
                let after = rest.strip_prefix(child.name().as_str())?.strip_prefix('.')?;
                Some((at, child, after))
            })?;
            path.push(at);
            names.push(child.name().clone());
            (data_type, rest) = (child.data_type(), after);
        }
    })
}

/// How the columns are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scan<'a> {
    pub(super) shards: &'a [Shard],
    pub(super) n_threads: usize,
    /// The most bytes of the columns of one record batch.
    pub(super) limit: usize,
    /// The lengths of recordings by shard, where a column is that.
    pub(super) durations: &'a [ArrayRef],
}

impl Scan<'_> {
    /// Reads these columns of all shards, several shards at a time. `each` adds the rows of a record
    /// batch, given their number, to what was made of those of the shard before it. Returns what was
    /// made of each shard.
    ///
    /// # Errors
    ///
    /// That of the first shard, in their order, that has one.
    pub(super) fn run<T: Default + Send>(
        &self,
        columns: &[&Column],
        each: impl Fn(&Shard, &[Cells<'_>], usize, &mut T) -> Result<()> + Sync,
    ) -> Result<Vec<T>> {
        self.run_where(columns, |_| Vec::new(), |_, _| Ok(()), each)
    }

    /// As [`Scan::run`], but without reading the record batches that `is_needed` says `false` of, if
    /// it says anything: those go to `skip`, which gets their number of rows.
    ///
    /// # Errors
    ///
    /// As [`Scan::run`].
    pub(super) fn run_where<T: Default + Send>(
        &self,
        columns: &[&Column],
        is_needed: impl Fn(&Shard) -> Vec<bool> + Sync,
        skip: impl Fn(usize, &mut T) -> Result<()> + Sync,
        each: impl Fn(&Shard, &[Cells<'_>], usize, &mut T) -> Result<()> + Sync,
    ) -> Result<Vec<T>> {
        let mut names: Vec<String> = Vec::new();
        for top in columns.iter().filter_map(|column| column.names.first()) {
            if !names.contains(top) {
                names.push(top.clone());
            }
        }
        let place = |column: &&Column| names.iter().position(|n| column.names.first() == Some(n));
        let places: Vec<Option<usize>> = columns.iter().map(place).collect();
        let Some(first) = self.shards.first() else { return Ok(Vec::new()) };
        let projection = Projection::of_small(first.schema(), Some(&names))?;
        let of_shard = |number: usize, shard: &Shard| {
            let (mut made, mut start) = (T::default(), 0);
            let durations = self.durations.get(number);
            let is_needed = is_needed(shard);
            for batch in 0..shard.n_batches() {
                if is_needed.get(batch) == Some(&false) {
                    let n_rows = shard.n_rows_of(batch) as usize;
                    skip(n_rows, &mut made).map_err(|e| e.in_shard(shard.name()))?;
                    start += n_rows;
                    continue;
                }
                let table = shard.load_table_within(batch, &projection, self.limit, &|_| ())?;
                let (from, n_rows) = (start, table.n_rows());
                start += n_rows;
                let durations = durations.filter(|of_shard| start <= of_shard.len());
                let durations = durations.map(|of_shard| of_shard.slice(from, n_rows));
                let cells = columns.iter().zip(&places).map(|(column, place)| {
                    let array = match place {
                        Some(place) => table.columns.columns().get(*place),
                        None => durations.as_ref(),
                    };
                    let array = array.ok_or_else(|| Error::internal("a column was not read"))?;
                    Cells::new(array, &column.path)
                });
                let cells = cells.collect::<Result<Vec<_>>>().map_err(|e| e.in_shard(shard.name()));
                each(shard, &cells?, n_rows, &mut made)?;
            }
            Ok(made)
        };
        let mut made: Vec<Option<Result<T>>> = self.shards.iter().map(|_| None).collect();
        let first_failed = AtomicUsize::new(usize::MAX);
        let jobs = self.shards.iter().zip(&mut made).enumerate().collect();
        threads::parallel_for_each(
            "gristmill-select",
            jobs,
            self.n_threads,
            |(n, (shard, slot))| {
                // Shards before a failed one are still read, so that the first error is returned.
                if n < first_failed.load(Relaxed) {
                    let result = of_shard(n, shard);
                    if result.is_err() {
                        first_failed.fetch_min(n, Relaxed);
                    }
                    *slot = Some(result);
                }
            },
        );
        made.into_iter().flatten().collect()
    }
}
