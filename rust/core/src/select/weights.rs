//! How often each row comes: weights by a column, by values, or by how rare a class is.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::{
    Selected,
    cell::{Cell, Kind},
    column::{Column, Scan},
    scalar::{Bound, Scalar},
};
use crate::{
    error::{Error, Result},
    hash::{extend, hash},
    order::Rows,
};

/// How rows are weighted.
#[derive(Clone, Debug, PartialEq)]
pub enum WeightSpec {
    /// By a column of numbers.
    Column(String),
    /// By one number for each row that `rows=` counts.
    Rows(Arc<[f64]>),
    /// By the values of a column: those of a list by the largest weight. Others weigh 1.
    Values {
        /// The column.
        column: String,
        /// Values and their weights.
        weights: Vec<(Scalar, f64)>,
    },
    /// By how many rows have the same value of a column, to the power of `-power`; those of a list by
    /// the rarest value.
    Balanced {
        /// The column.
        column: String,
        /// 0 leaves the shares of the values as they are, 1 makes them equal.
        power: f64,
    },
}

/// The option as messages name it.
const OPTION: &str = "sampling=";

/// Values that a message names at most.
const MOST_NAMED: usize = 10;

/// The words of a row's values: one, or those of a list; none for nulls and empty lists.
#[derive(Debug, Default)]
struct Words {
    /// The end of each row's words.
    ends: Vec<usize>,
    words: Vec<u64>,
}

impl Words {
    fn of_row(&self, row: usize) -> &[u64] {
        let start = row.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied());
        let end = self.ends.get(row).copied();
        start.zip(end).and_then(|(start, end)| self.words.get(start..end)).unwrap_or_default()
    }
}

/// The weights of the rows that take part, by their numbers.
pub(super) fn weights(spec: &WeightSpec, selected: &Selected, scan: &Scan<'_>) -> Result<Vec<f64>> {
    let rows = &selected.rows;
    match spec {
        WeightSpec::Rows(weights) => of_rows(weights, selected),
        WeightSpec::Column(name) => of_column(name, rows, scan),
        WeightSpec::Values { column, weights } => of_values(column, weights, rows, scan),
        WeightSpec::Balanced { column, power } => balanced(column, *power, rows, scan),
    }
}

fn of_rows(weights: &[f64], selected: &Selected) -> Result<Vec<f64>> {
    let Selected { rows, positions, n_base } = selected;
    if weights.len() as u64 != *n_base {
        return Err(Error::config(format!(
            "{OPTION} has {} weights, but there are {n_base} rows; give one for each row, in file \
             order",
            weights.len()
        )));
    }
    let position = |n: u64| match positions {
        Some(positions) => positions.get(n as usize).copied(),
        None => rows.ordinal(n),
    };
    let weight = |n: u64| weights.get(position(n)? as usize).copied();
    Ok((0..rows.len()).filter_map(weight).collect())
}

fn of_column(name: &str, rows: &Rows, scan: &Scan<'_>) -> Result<Vec<f64>> {
    let column = Column::find(OPTION, scan.shards, name, false)?;
    if !matches!(column.kind, Kind::Int | Kind::Float { .. }) {
        let what = format!("{OPTION} takes weights from this column of type {}", column.data_type);
        return Err(Error::schema(name, format!("{what}; name a column of numbers")));
    }
    let read = scan.run(&[&column], |_, cells, n_rows, made: &mut Vec<f64>| {
        let Some(cells) = cells.first() else { return Ok(()) };
        made.extend((0..n_rows).map(|at| match cells.get(at) {
            Cell::Int(value) => value as f64,
            Cell::Float(value) => value,
            // Refused below, if the row takes part.
            _ => f64::NAN,
        }));
        Ok(())
    })?;
    let weight = |n: u64| {
        let id = rows.get(n).ok_or_else(|| Error::internal("a row is not there"))?;
        let weight = read.get(id.shard as usize).and_then(|weights| weights.get(id.row as usize));
        let weight = weight.copied().unwrap_or(f64::NAN);
        if weight.is_finite() && weight >= 0.0 {
            return Ok(weight);
        }
        let is = if weight.is_nan() { "null or NaN".to_owned() } else { weight.to_string() };
        let shard = scan.shards.get(id.shard as usize);
        let shard = shard.map(|shard| shard.name().to_string()).unwrap_or_default();
        Err(Error::schema(
            name,
            format!(
                "{OPTION} takes weights from this column, which is {is} in {shard}, row {}; a weight \
                 is a number of at least 0, so leave such rows out: filters=[({name:?}, \">=\", 0)]",
                id.row
            ),
        ))
    };
    (0..rows.len()).map(weight).collect()
}

fn of_values(
    name: &str,
    weights: &[(Scalar, f64)],
    rows: &Rows,
    scan: &Scan<'_>,
) -> Result<Vec<f64>> {
    let column = Column::find(OPTION, scan.shards, name, true)?;
    let mut by_word = HashMap::new();
    let mut asked = Vec::with_capacity(weights.len());
    for (value, weight) in weights {
        let bound = Bound::new(OPTION, &column, value)?;
        let word = bound.as_cell(column.kind).map(|cell| cell.word());
        by_word.extend(word.map(|word| (word, *weight)));
        asked.push((value, word));
    }
    let words = words_of(&column, scan)?;
    let mut found = HashSet::new();
    let weights = each_row(rows, &words, |words| {
        let known = words.iter().filter(|word| by_word.contains_key(word));
        found.extend(known.copied());
        let weight = |word: &u64| by_word.get(word).copied().unwrap_or(1.0);
        words.iter().map(weight).fold(f64::NEG_INFINITY, f64::max)
    });
    if found.is_empty() {
        let all: Vec<&Scalar> = asked.iter().map(|(value, _)| *value).collect();
        let what = format!(
            "{OPTION} has weights for {} in this column, and no row has any of them; write values \
             that it has",
            listed(&all)
        );
        return Err(Error::schema(name, what));
    }
    // The classes of a column are known: a row need not have each of them.
    if column.classes.is_none() {
        refuse_unknown(name, &asked, &words)?;
    }
    Ok(weights)
}

/// Refuses values that no row of the shards has, whether it takes part or not: the two parts of a
/// split may be weighted alike, and a name that is nowhere is misspelt.
fn refuse_unknown(name: &str, asked: &[(&Scalar, Option<u64>)], rows: &[Words]) -> Result<()> {
    let words: HashSet<u64> = asked.iter().filter_map(|(_, word)| *word).collect();
    let there = rows.iter().flat_map(|shard| &shard.words);
    let there: HashSet<u64> = there.filter(|word| words.contains(word)).copied().collect();
    let is_unknown = |word: &Option<u64>| word.is_none_or(|word| !there.contains(&word));
    let unknown = asked.iter().filter(|(_, word)| is_unknown(word));
    let unknown: Vec<&Scalar> = unknown.map(|(value, _)| *value).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let what = format!(
        "{OPTION} has weights for {}, which no row has in this column; correct the spelling, or \
         leave them out",
        listed(&unknown)
    );
    Err(Error::schema(name, what))
}

/// The first of these values, and how many more there are.
fn listed(values: &[&Scalar]) -> String {
    let (shown, more) = values.split_at(values.len().min(MOST_NAMED));
    let shown: Vec<String> = shown.iter().map(ToString::to_string).collect();
    let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
    format!("{}{more}", shown.join(", "))
}

fn balanced(name: &str, power: f64, rows: &Rows, scan: &Scan<'_>) -> Result<Vec<f64>> {
    let column = Column::find(OPTION, scan.shards, name, true)?;
    let words = words_of(&column, scan)?;
    let mut counts: HashMap<u64, u64> = HashMap::new();
    each_row(rows, &words, |words| {
        // A value counts once a row.
        let mut distinct = words.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        for word in distinct {
            *counts.entry(word).or_default() += 1;
        }
        0.0
    });
    // The same on every machine, which the system's `pow` is not.
    let weight = |count: u64| libm::pow(count as f64, -power);
    Ok(each_row(rows, &words, |words| {
        let rarest = words.iter().filter_map(|word| counts.get(word)).min();
        rarest.map_or(0.0, |count| weight(*count))
    }))
}

/// The weight of each row, by its words. A row without values has the word of null.
fn each_row(rows: &Rows, words: &[Words], mut weight: impl FnMut(&[u64]) -> f64) -> Vec<f64> {
    let null = [Cell::Null.word()];
    let of = |id: crate::order::RowId| {
        let words = words.get(id.shard as usize).map(|words| words.of_row(id.row as usize));
        words.filter(|words| !words.is_empty())
    };
    let ids = (0..rows.len()).filter_map(|n| rows.get(n));
    ids.map(|id| weight(of(id).unwrap_or(&null))).collect()
}

/// The words of all rows of all shards.
fn words_of(column: &Column, scan: &Scan<'_>) -> Result<Vec<Words>> {
    scan.run(&[column], |shard, cells, n_rows, made: &mut Words| {
        let Some(cells) = cells.first() else { return Ok(()) };
        for at in 0..n_rows {
            if column.is_list {
                let items = cells.items(at, |cell| made.words.push(cell.word()));
                items.map_err(|e| e.in_shard(shard.name()))?;
            } else {
                made.words.push(cells.get(at).word());
            }
            made.ends.push(made.words.len());
        }
        Ok(())
    })
}

/// The split of a row by the value of a column.
pub(super) fn split_by_value(seed: u64, cell: &Cell<'_>) -> u64 {
    hash(&[seed, BY_VALUE, cell.word()])
}

/// The split of a row by its place.
pub(super) fn split_by_row(seed: u64, shard_key: u64, row: u64) -> u64 {
    extend(hash(&[seed, BY_ROW, shard_key]), row)
}

/// Words that are hashed for splits.
const BY_ROW: u64 = 22;
const BY_VALUE: u64 = 23;
