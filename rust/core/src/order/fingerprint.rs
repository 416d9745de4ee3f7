//! Hashes of a data set and its order, by which a state recognises them.

use std::fmt;

use super::{Order, Stream, VERSION, row_order::RowOrder, shuffle::Shuffle};
use crate::hash::hash;

/// Hashes of all that the stream depends on, in parts, so that a difference can be named.
///
/// The number of hosts and workers is no part of it: the stream is the same for any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fingerprint {
    /// Number of shards.
    pub n_shards: u64,
    /// Number of rows that take part.
    pub n_rows: u64,
    /// Base names of the shards, in order.
    pub names: u64,
    /// Row counts of the shards, in order.
    pub counts: u64,
    /// Which rows take part.
    pub excluded: u64,
    /// The shuffle, or the sampling.
    pub order: u64,
    /// The seed of the crops, and which parts of rows they are.
    pub crops: u64,
    /// Which positions of each epoch take part.
    pub slice: u64,
}

impl Fingerprint {
    /// The fingerprint of `order`. Of each of its data sets: the keys of its shards; and the seed of
    /// its crops and, where they are parts of rows, what else decides which parts.
    pub fn new(order: &Order, data_sets: &[(Vec<u64>, Vec<u64>)]) -> Self {
        match &order.stream {
            Stream::Rows(rows) => {
                data_sets.first().map(|of| Self::of_rows(rows, of)).unwrap_or_default()
            }
            Stream::Mixture(mixture) => {
                let parts = mixture.orders().iter().zip(data_sets);
                let parts: Vec<Self> = parts.map(|(rows, of)| Self::of_rows(rows, of)).collect();
                Self::mixed(&parts, mixture.weights())
            }
        }
    }

    fn of_rows(order: &RowOrder, (shard_keys, crops): &(Vec<u64>, Vec<u64>)) -> Self {
        let rows = &order.elements.rows;
        let parts = order.elements.parts.as_ref().map(|parts| parts.hash());
        let crops: Vec<u64> = crops.iter().copied().chain(parts).collect();
        let mut words = vec![VERSION];
        match &order.sampling {
            None => words.extend(Shuffle::words(order.shuffle.as_ref())),
            Some(sampling) => words.extend(sampling.words()),
        }
        Self {
            n_shards: rows.n_shards(),
            n_rows: rows.len(),
            names: hash(shard_keys),
            counts: hash(rows.starts()),
            excluded: rows.hash(),
            order: hash(&words),
            crops: hash(&crops),
            slice: hash(&order.slice.words()),
        }
    }

    /// That of a mixture of data sets with these fingerprints and weights.
    fn mixed(parts: &[Self], weights: &[u64]) -> Self {
        let joined = |part: fn(&Self) -> u64| hash(&parts.iter().map(part).collect::<Vec<_>>());
        let mut order = vec![VERSION, 3];
        order.extend(weights);
        order.extend(parts.iter().map(|part| part.order));
        Self {
            n_shards: parts.iter().map(|part| part.n_shards).sum(),
            n_rows: parts.iter().map(|part| part.n_rows).fold(0, u64::saturating_add),
            names: joined(|part| part.names),
            counts: joined(|part| part.counts),
            excluded: joined(|part| part.excluded),
            order: hash(&order),
            crops: joined(|part| part.crops),
            slice: joined(|part| part.slice),
        }
    }

    /// The numbers in the order in which they are written: first those in decimal, then those in
    /// hexadecimal.
    fn parts(&self) -> ([u64; 2], [u64; 6]) {
        let Self { n_shards, n_rows, names, counts, excluded, order, crops, slice } = *self;
        ([n_shards, n_rows], [names, counts, excluded, order, crops, slice])
    }

    /// Reads what `Display` writes; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let mut number = |radix| u64::from_str_radix(parts.next()?, radix).ok();
        let read = Self {
            n_shards: number(10)?,
            n_rows: number(10)?,
            names: number(16)?,
            counts: number(16)?,
            excluded: number(16)?,
            order: number(16)?,
            crops: number(16)?,
            slice: number(16)?,
        };
        (read.to_string() == text).then_some(read)
    }

    /// What differs from `saved`, in words; `None` if nothing does.
    pub fn difference(&self, saved: &Self) -> Option<String> {
        if self == saved {
            return None;
        }
        let mut differ = Vec::new();
        if self.n_shards != saved.n_shards {
            differ.push(format!("it had {} shards, not {}", saved.n_shards, self.n_shards));
        } else if self.names != saved.names {
            differ.push("its shards had other base names, or another order".to_owned());
        }
        if self.n_shards == saved.n_shards && self.counts != saved.counts {
            differ.push("its shards had other row counts".to_owned());
        }
        if self.n_rows != saved.n_rows {
            differ.push(format!("it had {} rows, not {}", saved.n_rows, self.n_rows));
        }
        // The slice's bounds change with the number of rows.
        let is_sliced = self.slice != saved.slice
            && self.n_rows == saved.n_rows
            && self.crops == saved.crops
            && self.excluded == saved.excluded;
        let others = [
            (
                self.excluded != saved.excluded,
                "other rows were excluded or selected (exclude, filters, rows, split)",
            ),
            (
                self.order != saved.order,
                "it was shuffled, sampled or mixed otherwise, or not at all",
            ),
            (
                self.crops != saved.crops,
                "its crops had another seed, or were other parts of the rows",
            ),
            (is_sliced, "it was another slice, or another block, of the rows"),
        ];
        differ.extend(others.iter().filter(|(is, _)| *is).map(|(_, what)| (*what).to_owned()));
        Some(differ.join("; "))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([n_shards, n_rows], hashes) = self.parts();
        write!(f, "{n_shards}-{n_rows}")?;
        hashes.iter().try_for_each(|hash| write!(f, "-{hash:016x}"))
    }
}
