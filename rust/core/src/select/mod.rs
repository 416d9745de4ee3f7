//! Which rows take part, and how often: worked out once, from the columns that options name.
//!
//! Everything here reads those columns alone, of several shards at a time, and gives [`Rows`] and
//! weights, which the order is made of.

mod bounds;
mod cache;
mod cell;
mod column;
mod filter;
mod scalar;
mod weights;

use std::{fmt, sync::Arc};

use arrow_array::{ArrayRef, Float64Array};

pub use cell::TimeKind;
pub use filter::{Condition, Filters, Op};
pub use scalar::Scalar;
pub use weights::WeightSpec;

use self::{
    cache::Cache,
    column::{Column, Scan},
    filter::Checked,
    weights::{split_by_row, split_by_value},
};
use crate::{
    error::{Error, Result},
    order::{Bitmap, Rows},
    shard::{IndexDir, Shard},
};

/// Which rows take part, beside `exclude`.
#[derive(Clone, Debug, Default)]
pub struct RowSpec {
    /// The rows that there are, as a table that refers to them: `None` is all rows of all shards.
    pub table: Option<RowTable>,
    /// A choice among these: `rows=`.
    pub picks: Option<Picks>,
    /// Conditions on their values.
    pub filters: Filters,
    /// One part of a split.
    pub split: Option<Split>,
}

/// Rows of the shards in an order of their own.
#[derive(Clone, Debug)]
pub struct RowTable {
    /// Runs of rows: the shard, the first row in it, and how many.
    pub runs: Vec<(u32, u64, u64)>,
    /// Indices into the rows of the runs; `None` is all of them.
    pub indices: Option<Arc<[u64]>>,
}

/// A choice among rows.
#[derive(Clone, Debug)]
pub enum Picks {
    /// For each row whether it takes part.
    Mask(Arc<[bool]>),
    /// The numbers of those that take part.
    Indices(Arc<[u64]>),
}

/// One part of a split: the rows whose hash lies in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// The name, for messages.
    pub name: String,
    /// The seed of the hash.
    pub seed: u64,
    /// The column whose value is hashed; `None` hashes the base name of the shard and the row.
    pub by: Option<String>,
    /// The first hash that lies in it.
    pub first: u64,
    /// The last one.
    pub last: u64,
}

/// The rows that take part.
#[derive(Debug)]
pub struct Selected {
    /// The rows.
    pub rows: Rows,
    /// For each row, which of the rows that `rows=` counts it is; `None` where that is its ordinal.
    positions: Option<Vec<u64>>,
    /// How many rows `rows=` counts.
    n_base: u64,
}

/// The name of the length of a recording in filters, where the shards have no column of that name.
pub const DURATION: &str = "duration";

/// Where the lengths of recordings come from.
pub trait DurationSource: fmt::Debug {
    /// What they depend on, besides the shards.
    fn key(&self) -> u64;

    /// They, in seconds, by shard and row; `None` where a recording cannot be opened.
    ///
    /// # Errors
    ///
    /// Those of reading.
    fn durations(&self) -> Result<Vec<Vec<Option<f64>>>>;
}

impl RowSpec {
    /// Whether filters name this column.
    pub fn names(&self, column: &str) -> bool {
        self.filters.iter().flatten().any(|condition| condition.column == column)
    }
}

/// Works out which rows take part.
#[derive(Debug)]
pub struct Selector<'a> {
    /// The shards.
    pub shards: &'a [Shard],
    /// Where answers are kept.
    pub index_dir: &'a IndexDir,
    /// Shards that are read at a time.
    pub n_threads: usize,
    /// The most bytes of the columns of one record batch.
    pub limit: usize,
    /// What tells the lengths of recordings; `None` where none are decoded.
    pub durations: Option<&'a dyn DurationSource>,
}

impl Selector<'_> {
    /// The rows of `spec` without the `excluded` ones. Reads the columns that filters and split name.
    ///
    /// # Errors
    ///
    /// `Config` where no row is left, for numbers of rows that do not exist, and as [`Rows::new`];
    /// `Schema` for columns that do not exist or cannot be compared; those of [`Shard::load_table`].
    pub fn rows(&self, spec: &RowSpec, excluded: &[(u32, u64)]) -> Result<Selected> {
        let counts: Vec<u64> = self.shards.iter().map(Shard::n_rows).collect();
        let all = Rows::new(&counts, excluded)?;
        let total = counts.iter().sum::<u64>();
        let by_value = self.by_value(spec, total)?;
        let base = base(&counts, spec)?;
        let n_base = base.as_ref().map_or(total, |base| base.n);
        let selected = match (base, by_value) {
            (None, None) => Selected { rows: all, positions: None, n_base },
            (None, Some(kept)) => {
                let kept = if excluded.is_empty() { kept } else { kept.and(&members(&all, total)) };
                Selected { rows: Rows::selection(&counts, kept)?, positions: None, n_base }
            }
            (Some(Base { listed, .. }), by_value) => {
                let not_excluded = (!excluded.is_empty()).then(|| members(&all, total));
                let keeps = |set: &Option<Bitmap>, ordinal| {
                    set.as_ref().is_none_or(|set| set.contains(ordinal))
                };
                let kept = listed.into_iter().filter(|(ordinal, _)| {
                    keeps(&by_value, *ordinal) && keeps(&not_excluded, *ordinal)
                });
                let (ordinals, positions): (Vec<u64>, Vec<u64>) = kept.unzip();
                let rows = Rows::list(&counts, ordinals)?;
                Selected { rows, positions: Some(positions), n_base }
            }
        };
        if selected.rows.is_empty() && total > 0 {
            refuse_none(spec, excluded, total)?;
        }
        Ok(selected)
    }

    /// The weights of the rows that take part, by their numbers. Reads the column that they are of.
    ///
    /// # Errors
    ///
    /// As [`Self::rows`].
    pub fn weights(&self, spec: &WeightSpec, selected: &Selected) -> Result<Vec<f64>> {
        let scan = self.scan();
        if matches!(spec, WeightSpec::Rows(_)) {
            return weights::weights(spec, selected, &scan);
        }
        let n = usize::try_from(selected.rows.len()).unwrap_or(usize::MAX);
        // Answers of before each value was looked for are not taken up: some would be refused now.
        let looked = if matches!(spec, WeightSpec::Values { .. }) { ", all found" } else { "" };
        let question = format!("{spec:?} of {:x}{looked}", selected.rows.hash());
        let words = Cache::new(self.index_dir, self.shards).get(&question, n, || {
            let weights = weights::weights(spec, selected, &scan)?;
            Ok::<_, Error>(weights.into_iter().map(f64::to_bits).collect())
        })?;
        Ok(words.into_iter().map(f64::from_bits).collect())
    }

    fn scan(&self) -> Scan<'_> {
        let Self { shards, n_threads, limit, .. } = *self;
        Scan { shards, n_threads, limit, durations: &[] }
    }

    /// The ordinals of the rows that filters and split keep; `None` where there are none of these.
    fn by_value(&self, spec: &RowSpec, total: u64) -> Result<Option<Bitmap>> {
        let RowSpec { filters, split, .. } = spec;
        if filters.is_empty() && split.is_none() {
            return Ok(None);
        }
        // Before the answer is looked up, so that a wrong option is refused each time.
        let mut checked = Checked::new(filters, self.shards, self.durations.is_some())?;
        let has_durations = checked.columns.iter().any(|column| column.is_duration);
        let durations = self.durations.filter(|_| has_durations);
        let by = split.as_ref().and_then(|split| split.by.as_deref());
        let by = by.map(|name| Column::find("split=", self.shards, name, false)).transpose()?;
        let by_place = by.as_ref().map(|_| checked.columns.len());
        // Answers of before whole floats had the hash of their integer are not taken up.
        let is_float = by.as_ref().is_some_and(|by| matches!(by.kind, cell::Kind::Float { .. }));
        let hashed = if is_float { " by whole numbers" } else { "" };
        checked.columns.extend(by);

        let place = split.as_ref().map(|split| (split.seed, &split.by, split.first, split.last));
        let lengths = durations.map(|of| format!(" by lengths {:016x}", of.key()));
        let question = format!("{filters:?} {place:?}{hashed}{}", lengths.unwrap_or_default());
        let n_words = usize::try_from(total.div_ceil(64)).unwrap_or(usize::MAX);
        let words = Cache::new(self.index_dir, self.shards).get(&question, n_words, || {
            let columns: Vec<&Column> = checked.columns.iter().collect();
            let durations =
                durations.map(DurationSource::durations).transpose()?.unwrap_or_default();
            let array = |of_shard| Arc::new(Float64Array::from(of_shard)) as ArrayRef;
            let durations: Vec<ArrayRef> = durations.into_iter().map(array).collect();
            let scan = Scan { durations: &durations, ..self.scan() };
            // Nothing was read of these rows that would bear their number out.
            let skip = |n_rows, kept: &mut Vec<bool>| {
                kept.try_reserve(n_rows).map_err(|_| Error::out_of_memory(n_rows))?;
                kept.resize(kept.len() + n_rows, false);
                Ok(())
            };
            let kept = scan.run_where(
                &columns,
                |shard| checked.may_keep(shard),
                skip,
                |shard, cells, n_rows, kept| {
                    for at in 0..n_rows {
                        let cell = |column: usize| {
                            cells.get(column).map_or(cell::Cell::Null, |cells| cells.get(at))
                        };
                        let in_split = split.as_ref().is_none_or(|split| {
                            let hash = match by_place {
                                Some(place) => split_by_value(split.seed, &cell(place)),
                                None => split_by_row(split.seed, shard.key(), kept.len() as u64),
                            };
                            (split.first..=split.last).contains(&hash)
                        });
                        kept.push(in_split && checked.keep(cell));
                    }
                    Ok(())
                },
            )?;
            let kept = kept.into_iter().flatten();
            let ordinals = (0u64..).zip(kept).filter_map(|(ordinal, keep)| keep.then_some(ordinal));
            Ok::<_, Error>(Bitmap::of(ordinals, total).words().to_vec())
        })?;
        Ok(Some(Bitmap::new(words, total)))
    }
}

/// The rows that a table and `rows=` name: their ordinals, and which of the rows that `rows=` counts
/// each of them is.
struct Base {
    listed: Vec<(u64, u64)>,
    n: u64,
}

/// The base of `spec`; `None` for all rows in file order.
fn base(counts: &[u64], spec: &RowSpec) -> Result<Option<Base>> {
    let table = spec.table.as_ref().map(|table| ordinals_of(counts, table)).transpose()?;
    let n = table.as_ref().map_or(counts.iter().sum(), |table| table.len() as u64);
    let ordinal = |position: u64| match &table {
        Some(table) => table.get(position as usize).copied(),
        None => (position < n).then_some(position),
    };
    let listed = match &spec.picks {
        None if table.is_none() => return Ok(None),
        None => (0..n).filter_map(|at| Some((ordinal(at)?, at))).collect(),
        Some(Picks::Mask(mask)) => {
            if mask.len() as u64 != n {
                return Err(Error::config(format!(
                    "rows= is a mask of {} values, but there are {n} rows; give one value for each \
                     row, in file order",
                    mask.len()
                )));
            }
            let picked = (0..n).zip(mask.iter()).filter(|(_, is)| **is);
            picked.filter_map(|(at, _)| Some((ordinal(at)?, at))).collect()
        }
        Some(Picks::Indices(indices)) => {
            let found = |&at: &u64| {
                ordinal(at).map(|ordinal| (ordinal, at)).ok_or_else(|| {
                    Error::config(format!(
                        "rows= names row {at}, but there are {n} rows, which count from 0 in file \
                         order; give numbers below {n}"
                    ))
                })
            };
            indices.iter().map(found).collect::<Result<_>>()?
        }
    };
    Ok(Some(Base { listed, n }))
}

/// The ordinals of the rows of a table.
fn ordinals_of(counts: &[u64], table: &RowTable) -> Result<Vec<u64>> {
    let mut starts = vec![0];
    starts.extend(counts.iter().scan(0, |sum, count| {
        *sum += count;
        Some(*sum)
    }));
    let changed = || {
        Error::config(
            "the datasets object refers to rows that its files do not have: they have changed since \
             it was loaded; load it again",
        )
    };
    let mut all = Vec::new();
    for &(shard, first, n) in &table.runs {
        let count = counts.get(shard as usize).copied().unwrap_or(0);
        let start = starts.get(shard as usize).copied().unwrap_or(0);
        if first.checked_add(n).is_none_or(|end| end > count) {
            return Err(changed());
        }
        all.extend(start + first..start + first + n);
    }
    match &table.indices {
        None => Ok(all),
        Some(indices) => {
            let found = |at: &u64| all.get(*at as usize).copied().ok_or_else(changed);
            indices.iter().map(found).collect()
        }
    }
}

/// The ordinals of the rows.
fn members(rows: &Rows, total: u64) -> Bitmap {
    Bitmap::of((0..rows.len()).filter_map(|n| rows.ordinal(n)), total)
}

/// Refuses options that leave no row, and names them.
fn refuse_none(spec: &RowSpec, excluded: &[(u32, u64)], total: u64) -> Result<()> {
    let named = [
        ("exclude=", !excluded.is_empty()),
        ("rows=", spec.picks.is_some()),
        ("filters=", !spec.filters.is_empty()),
        ("split=", spec.split.is_some()),
    ];
    let options: Vec<_> = named.iter().filter(|(_, is)| *is).map(|(name, _)| *name).collect();
    match options.as_slice() {
        [] => Ok(()),
        ["exclude="] => Err(Error::config(format!(
            "exclude= leaves out all {total} rows of the shards; give fewer rows to exclude=, or \
             other shards"
        ))),
        [option] => Err(Error::config(format!(
            "{option} leaves none of the {total} rows of the shards; write one that keeps some, or \
             give other shards"
        ))),
        many => Err(Error::config(format!(
            "{} together leave none of the {total} rows of the shards; write some that keep rows, or \
             give other shards",
            many.join(", ")
        ))),
    }
}
