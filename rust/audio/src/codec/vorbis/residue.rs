//! Residues, Vorbis I section 8: what is left of the spectrum when the floor is taken away.

// What `pulp` compiles for an instruction set must be inlined into its function.
#![allow(clippy::inline_always)]

use super::{
    bits::Bits,
    codebook::{Book, Budget},
    setup::{Fields, broken},
};

use crate::error::Reason;

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
    /// For each class, the book of each pass.
    books: Vec<[Option<u8>; N_PASSES]>,
    n_passes: usize,
}

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
        let mut n_passes = 0;
        let mut pass_books = vec![[None; N_PASSES]; n];
        for (cascade, passes) in cascades.into_iter().zip(&mut pass_books) {
            for (pass, place) in
                passes.iter_mut().enumerate().filter(|(p, _)| cascade >> p & 1 == 1)
            {
                let book = fields.below(8, books.len())?;
                if !books.get(book).is_some_and(Book::has_vectors) {
                    return Err(broken("a residue has a codebook without vectors"));
                }
                *place = Some(book as u8);
                n_passes = n_passes.max(pass + 1);
            }
        }
        let Some(book) = books.get(class_book) else { return Err(broken("a codebook is missing")) };
        let n_words = u32::try_from(book.n_dims).ok().and_then(|n_dims| n.checked_pow(n_dims));
        let n_words = n_words
            .filter(|&n_words| n_words <= book.n_entries)
            .ok_or_else(|| broken("a residue has more classes than its codebook has entries"))?;
        budget.take_values(n_words.saturating_mul(book.n_dims))?;
        let classes = classes(n_words, book.n_dims, n);
        let n_classes = book.n_dims;
        Ok(Self {
            kind,
            begin,
            end,
            partition_len,
            class_book,
            n_classes,
            classes,
            books: pass_books,
            n_passes,
        })
    }

    /// About how many bytes it takes.
    pub(super) fn n_bytes(&self) -> usize {
        self.classes.len()
    }

    /// Adds the residues of a packet to `vectors`, up to the end of the packet: section 8.6.2.
    ///
    /// `scratch` is for the classes of partitions.
    #[inline(always)]
    pub(super) fn decode(
        &self,
        bits: &mut Bits<'_>,
        books: &[Book],
        vectors: &mut [&mut [f32]],
        scratch: &mut Vec<u8>,
    ) -> Option<()> {
        let len = vectors.first()?.len();
        let (begin, end) = (self.begin.min(len), self.end.min(len));
        let n_partitions = end.saturating_sub(begin) / self.partition_len;
        let class_book = books.get(self.class_book)?;
        // Each vector has a row of classes, in which there is room for the last word.
        let row_len = n_partitions.next_multiple_of(self.n_classes);
        scratch.clear();
        scratch.resize(row_len * vectors.len(), 0);
        for pass in 0..self.n_passes {
            for first in (0..n_partitions).step_by(self.n_classes) {
                let word = first..first + self.n_classes;
                if pass == 0 {
                    for row in scratch.chunks_exact_mut(row_len) {
                        let entry = class_book.codes.read(bits)?;
                        let from = self.classes.get(entry * self.n_classes..)?;
                        row.get_mut(word.clone())?.copy_from_slice(from.get(..self.n_classes)?);
                    }
                }
                for partition in word.start..word.end.min(n_partitions) {
                    let rows = scratch.chunks_exact(row_len);
                    for (vector, row) in vectors.iter_mut().zip(rows) {
                        let class = usize::from(*row.get(partition)?);
                        let Some(book) = *self.books.get(class)?.get(pass)? else { continue };
                        let start = begin + partition * self.partition_len;
                        let to = vector.get_mut(start..start + self.partition_len)?;
                        let book = books.get(usize::from(book))?;
                        if self.kind == Kind::Spread {
                            add_spread(bits, book, to)?;
                        } else {
                            add_joined(bits, book, to)?;
                        }
                    }
                }
            }
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

#[inline(always)]
fn add_joined(bits: &mut Bits<'_>, book: &Book, to: &mut [f32]) -> Option<()> {
    match book.n_dims {
        1 => add_vectors::<1>(bits, book, to),
        2 => add_vectors::<2>(bits, book, to),
        4 => add_vectors::<4>(bits, book, to),
        8 => add_vectors::<8>(bits, book, to),
        n => {
            for to in to.chunks_mut(n) {
                let entry = book.codes.read(bits)?;
                let vector = book.vector(entry)?;
                to.iter_mut().zip(vector).for_each(|(to, x)| *to += x);
            }
            Some(())
        }
    }
}

/// The same for vectors of a common length.
#[inline(always)]
fn add_vectors<const N: usize>(bits: &mut Bits<'_>, book: &Book, to: &mut [f32]) -> Option<()> {
    let vectors = book.values.as_chunks::<N>().0;
    let mut place = *bits;
    let (whole, rest) = to.as_chunks_mut::<N>();
    for to in whole {
        let Some(vector) = book.codes.read(&mut place).and_then(|entry| vectors.get(entry)) else {
            bits.end();
            return None;
        };
        let mut sum = *to;
        for i in 0..N {
            #[allow(clippy::indexing_slicing)] // both have so many
            (sum[i] += vector[i]);
        }
        *to = sum;
    }
    *bits = place;
    if !rest.is_empty() {
        let vector = vectors.get(book.codes.read(bits)?)?;
        rest.iter_mut().zip(vector).for_each(|(to, x)| *to += x);
    }
    Some(())
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
