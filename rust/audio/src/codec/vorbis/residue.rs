//! Residues, Vorbis I section 8: what is left of the spectrum when the floor is taken away.

// Vectors have fixed lengths. What `pulp` compiles for an instruction set must be inlined into its function.
#![allow(clippy::indexing_slicing, clippy::inline_always)]

use super::{
    bits::Bits,
    codebook::{Book, Budget},
    fields::{Fields, broken},
};
use crate::{error::Reason, limits::MAX_CHANNELS};

/// How values of a partition's vectors are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The first values of all vectors come first, then the second ones.
    Spread,
    /// Vectors follow each other.
    Joined,
    /// The same, of a vector that holds all channels in turns.
    Interleaved,
}

/// Passes over the partitions.
const N_PASSES: usize = 8;

/// The configuration of a residue.
#[derive(Clone, Debug)]
pub(super) struct Residue {
    pub(super) kind: Kind,
    begin: usize,
    end: usize,
    partition_len: usize,
    class_book: usize,
    /// Classes that a word of the class book stands for.
    n_classes: usize,
    /// The classes of all words, one word after the other.
    classes: Box<[u8]>,
    /// For each class the passes in which its partitions are refined, and the book of each.
    cascades: Vec<Vec<Stage>>,
}

/// A pass that a class has, and its book.
#[derive(Clone, Copy, Debug)]
struct Stage {
    pass: u8,
    book: u8,
}

/// A partition that is refined in a later pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    book: u8,
    vector: u8,
    partition: u16,
}

/// What is pending for each pass. Kept from packet to packet for its memory.
pub(super) type Passes = [Vec<Pending>; N_PASSES];

impl Residue {
    /// Section 8.6.1.
    pub(super) fn read(
        fields: &mut Fields<'_>,
        books: &[Book],
        budget: &mut Budget,
    ) -> Result<Self, Reason> {
        let kind = match fields.take(16)? {
            0 => Kind::Spread,
            1 => Kind::Joined,
            2 => Kind::Interleaved,
            _ => return Err(broken("a residue is of an unknown kind")),
        };
        let (begin, end) = (fields.take(24)? as usize, fields.take(24)? as usize);
        let partition_len = fields.take(24)? as usize + 1;
        let n = fields.take(6)? as usize + 1;
        let class_book = fields.below(8, books.len())?;
        let mut cascades = Vec::with_capacity(n);
        for _ in 0..n {
            let low = fields.take(3)?;
            let high = if fields.flag()? { fields.take(5)? } else { 0 };
            cascades.push(high << 3 | low);
        }
        let mut stages_of = |cascade: u32| {
            let passes = (0..N_PASSES as u8).filter(|pass| cascade >> pass & 1 == 1);
            let stage = |pass| {
                let book = fields.below(8, books.len())?;
                if !books.get(book).is_some_and(Book::has_vectors) {
                    return Err(broken("a residue has a codebook without vectors"));
                }
                Ok(Stage { pass, book: book as u8 })
            };
            passes.map(stage).collect::<Result<_, _>>()
        };
        let cascades = cascades.into_iter().map(&mut stages_of).collect::<Result<_, _>>()?;
        let Some(book) = books.get(class_book) else { return Err(broken("a codebook is missing")) };
        let n_words = u32::try_from(book.n_dims).ok().and_then(|n_dims| n.checked_pow(n_dims));
        let n_words = n_words
            .filter(|&n_words| n_words <= book.n_entries)
            .ok_or_else(|| broken("a residue has more classes than its codebook has entries"))?;
        budget.take_values(n_words.saturating_mul(book.n_dims))?;
        let classes = classes(n_words, book.n_dims, n);
        let n_classes = book.n_dims;
        Ok(Self { kind, begin, end, partition_len, class_book, n_classes, classes, cascades })
    }

    /// About how many bytes it takes.
    pub(super) fn n_bytes(&self) -> usize {
        self.classes.len()
    }

    /// Adds the residues of a packet to `vectors`, up to the end of the packet: section 8.6.2.
    #[inline(always)]
    pub(super) fn decode(
        &self,
        bits: &mut Bits<'_>,
        books: &[Book],
        vectors: &mut [&mut [f32]],
        passes: &mut Passes,
    ) -> Option<()> {
        let len = vectors.first()?.len();
        let n_lines = self.end.min(len).saturating_sub(self.begin);
        let n_partitions = n_lines / self.partition_len;
        passes.iter_mut().for_each(Vec::clear);
        let class_book = books.get(self.class_book)?;
        let mut words = [&[][..]; MAX_CHANNELS as usize];
        for first in (0..n_partitions).step_by(self.n_classes) {
            for word in words.iter_mut().take(vectors.len()) {
                let entry = class_book.codes.read(bits)?;
                *word = self.classes.get(entry * self.n_classes..)?.get(..self.n_classes)?;
            }
            for (i, partition) in (first..n_partitions).take(self.n_classes).enumerate() {
                for (vector, word) in words.iter().enumerate().take(vectors.len()) {
                    let class = usize::from(*word.get(i)?);
                    for &Stage { pass, book } in self.cascades.get(class)? {
                        let part =
                            Pending { book, vector: vector as u8, partition: partition as u16 };
                        if pass == 0 {
                            self.refine(bits, books, vectors, part)?;
                        } else {
                            passes.get_mut(usize::from(pass))?.push(part);
                        }
                    }
                }
            }
        }
        for &part in passes.iter().flatten() {
            self.refine(bits, books, vectors, part)?;
        }
        Some(())
    }

    /// Adds the vectors of a pass to a partition.
    #[inline(always)]
    fn refine(
        &self,
        bits: &mut Bits<'_>,
        books: &[Book],
        vectors: &mut [&mut [f32]],
        Pending { book, vector, partition }: Pending,
    ) -> Option<()> {
        let book = books.get(usize::from(book))?;
        let start = self.begin + usize::from(partition) * self.partition_len;
        let to =
            vectors.get_mut(usize::from(vector))?.get_mut(start..start + self.partition_len)?;
        match (self.kind, book.n_dims) {
            (Kind::Spread, _) => add_spread(bits, book, to)?,
            (_, 1) => add_vectors::<1>(bits, book, to),
            (_, 2) => add_vectors::<2>(bits, book, to),
            (_, 4) => add_vectors::<4>(bits, book, to),
            (_, 8) => add_vectors::<8>(bits, book, to),
            _ => *bits = add_others(*bits, book, to),
        }
        Some(())
    }
}

/// The classes that each word of a class book stands for: its number in base `n`, the first digit first.
fn classes(n_words: usize, n_dims: usize, n: usize) -> Box<[u8]> {
    let mut classes = vec![0; n_words * n_dims];
    for (word, digits) in classes.chunks_exact_mut(n_dims).enumerate() {
        let mut rest = word;
        for digit in digits.iter_mut().rev() {
            *digit = (rest % n) as u8;
            rest /= n;
        }
    }
    classes.into()
}

/// Adds vectors of a common length.
#[inline(always)]
fn add_vectors<const N: usize>(bits: &mut Bits<'_>, book: &Book, to: &mut [f32]) {
    let vectors = book.values.as_chunks::<N>().0;
    let mut place = *bits; // kept in registers
    let (whole, rest) = to.as_chunks_mut::<N>();
    for some in whole.chunks_mut(4) {
        place.fill();
        for to in some {
            let entry = book.codes.read_filled(&mut place);
            let Some(vector) = entry.and_then(|entry| vectors.get(entry)) else {
                bits.end();
                return;
            };
            // All are read before any is written, so that they are added as one vector.
            let sums: [f32; N] = std::array::from_fn(|i| to[i] + vector[i]);
            *to = sums;
        }
    }
    *bits = if rest.is_empty() { place } else { add_others(place, book, rest) };
}

/// Adds vectors of any length, up to the end of the packet, and gives the place behind them.
#[inline(never)]
fn add_others<'a>(mut bits: Bits<'a>, book: &Book, to: &mut [f32]) -> Bits<'a> {
    for to in to.chunks_mut(book.n_dims) {
        let entry = book.codes.read(&mut bits);
        let Some(vector) = entry.and_then(|entry| book.vector(entry)) else {
            bits.end();
            return bits;
        };
        to.iter_mut().zip(vector).for_each(|(to, x)| *to += x);
    }
    bits
}

fn add_spread(bits: &mut Bits<'_>, book: &Book, to: &mut [f32]) -> Option<()> {
    let n_vectors = to.len() / book.n_dims;
    for first in 0..n_vectors {
        let vector = book.vector(book.codes.read(bits)?)?;
        let places = to.iter_mut().skip(first).step_by(n_vectors);
        places.zip(vector).for_each(|(to, x)| *to += x);
    }
    Some(())
}
