//! Codebooks, Vorbis I section 3: code words and the vectors that they stand for.

use super::{
    bits::width,
    codes::Codes,
    fields::{Fields, broken},
};
use crate::error::{Exceeded, Reason};

/// The most entries, and the most values of vectors, in all codebooks of a stream together. A few bytes
/// may claim 2^24 entries of 65,535 values; libvorbis writes at most 20,000 entries and 90,000 values.
const MAX_ENTRIES: usize = 1 << 18;
const MAX_VALUES: usize = 1 << 20;

/// What may still be claimed.
#[derive(Debug)]
pub(super) struct Budget {
    entries: usize,
    values: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self { entries: MAX_ENTRIES, values: MAX_VALUES }
    }
}

impl Budget {
    fn take_entries(&mut self, n: usize) -> Result<(), Reason> {
        take(&mut self.entries, n, "entries")
    }

    pub(super) fn take_values(&mut self, n: usize) -> Result<(), Reason> {
        take(&mut self.values, n, "values")
    }
}

fn take(budget: &mut usize, n: usize, what: &str) -> Result<(), Reason> {
    let why = || format!("the Vorbis codebooks have too many {what}");
    *budget = budget.checked_sub(n).ok_or_else(|| Exceeded::fixed("vorbis_codebooks", why()))?;
    Ok(())
}

/// A codebook.
#[derive(Clone, Debug)]
pub(super) struct Book {
    pub(super) codes: Codes,
    pub(super) n_entries: usize,
    /// Values of a vector, at least 1.
    pub(super) n_dims: usize,
    /// The vectors of all entries, one after the other; none if words stand for numbers only.
    pub(super) values: Box<[f32]>,
}

impl Book {
    /// Reads a codebook, section 3.2.1.
    pub(super) fn read(fields: &mut Fields<'_>, budget: &mut Budget) -> Result<Self, Reason> {
        if fields.take(24)? != 0x56_4342 {
            return Err(broken("a codebook does not begin as one"));
        }
        let n_dims = fields.take(16)? as usize;
        let n_entries = fields.take(24)? as usize;
        if n_dims == 0 {
            return Err(broken("a codebook has no dimensions"));
        }
        budget.take_entries(n_entries)?;
        let lens =
            if fields.flag()? { ordered(fields, n_entries)? } else { listed(fields, n_entries)? };
        let codes = Codes::new(&lens)
            .ok_or_else(|| broken("the code words of a codebook are too many or too few"))?;
        let values = match fields.take(4)? {
            0 => Box::default(),
            kind @ (1 | 2) => {
                budget.take_values(n_entries.saturating_mul(n_dims))?;
                Lookup::read(fields, kind, n_entries, n_dims)?.vectors(n_entries, n_dims)
            }
            _ => return Err(broken("a codebook has an unknown kind of vectors")),
        };
        Ok(Self { codes, n_entries, n_dims, values })
    }

    /// Whether its words stand for vectors.
    pub(super) fn has_vectors(&self) -> bool {
        !self.values.is_empty()
    }

    /// The vector of an entry.
    pub(super) fn vector(&self, entry: usize) -> Option<&[f32]> {
        self.values.get(entry * self.n_dims..(entry + 1) * self.n_dims)
    }

    /// About how many bytes it takes.
    pub(super) fn n_bytes(&self) -> usize {
        self.codes.n_bytes() + 4 * self.values.len()
    }
}

/// The lengths of words, one after the other; 0 where an entry is not used.
fn listed(fields: &mut Fields<'_>, n_entries: usize) -> Result<Vec<u8>, Reason> {
    let is_sparse = fields.flag()?;
    let len = if is_sparse { 1 } else { 5 };
    fields.hold(n_entries, len)?;
    (0..n_entries)
        .map(|_| if is_sparse && !fields.flag()? { Ok(0) } else { Ok(fields.take(5)? as u8 + 1) })
        .collect()
}

/// How many words there are of each length.
fn ordered(fields: &mut Fields<'_>, n_entries: usize) -> Result<Vec<u8>, Reason> {
    let mut lens = Vec::with_capacity(n_entries);
    let mut len = fields.take(5)? as u8 + 1;
    while lens.len() < n_entries {
        let n_left = n_entries - lens.len();
        let n = fields.take(width(n_left as u32))? as usize;
        if n > n_left || len > 32 {
            return Err(broken("a codebook has more code words than entries"));
        }
        lens.resize(lens.len() + n, len);
        len += 1;
    }
    Ok(lens)
}

/// What vectors are made from.
struct Lookup {
    is_lattice: bool,
    least: f32,
    step: f32,
    is_sequence: bool,
    multiplicands: Vec<f32>,
}

impl Lookup {
    fn read(
        fields: &mut Fields<'_>,
        kind: u32,
        n_entries: usize,
        n_dims: usize,
    ) -> Result<Self, Reason> {
        let (least, step) = (unpack(fields.take(32)?), unpack(fields.take(32)?));
        let n_bits = fields.take(4)? + 1;
        let is_sequence = fields.flag()?;
        let is_lattice = kind == 1;
        let n = if is_lattice { root(n_entries, n_dims) } else { n_entries * n_dims };
        fields.hold(n, n_bits as usize)?;
        let multiplicands = (0..n).map(|_| Ok(fields.take(n_bits)? as f32));
        let multiplicands = multiplicands.collect::<Result<_, Reason>>()?;
        Ok(Self { is_lattice, least, step, is_sequence, multiplicands })
    }

    /// Section 3.3: the vectors of all entries.
    fn vectors(&self, n_entries: usize, n_dims: usize) -> Box<[f32]> {
        let mut values = Vec::with_capacity(n_entries * n_dims);
        let n = self.multiplicands.len().max(1);
        for entry in 0..n_entries {
            let (mut last, mut rest) = (0.0, entry);
            for i in 0..n_dims {
                // Of a lattice, the entry's number in base `n` says the place on each axis.
                let at = if self.is_lattice { rest % n } else { entry * n_dims + i };
                rest /= n;
                let multiplicand = self.multiplicands.get(at).copied().unwrap_or_default();
                let value = multiplicand * self.step + self.least + last;
                if self.is_sequence {
                    last = value;
                }
                values.push(value);
            }
        }
        values.into()
    }
}

/// The greatest number whose `n_dims`th power is at most `n_entries`.
fn root(n_entries: usize, n_dims: usize) -> usize {
    let exponent = u32::try_from(n_dims).unwrap_or(u32::MAX);
    let fits = |n: usize| n.checked_pow(exponent).is_some_and(|power| power <= n_entries);
    // There are less than 2^24 entries.
    let (mut below, mut above) = (0, 1 << 24);
    while above - below > 1 {
        let middle = usize::midpoint(below, above);
        if fits(middle) {
            below = middle;
        } else {
            above = middle;
        }
    }
    below
}

/// A floating-point number of Vorbis, section 9.2.2.
fn unpack(bits: u32) -> f32 {
    let mantissa = f64::from(bits & 0x1F_FFFF);
    let mantissa = if bits >> 31 == 1 { -mantissa } else { mantissa };
    // Numbers outside it become 0 or infinite either way.
    let exponent = ((bits >> 21 & 0x3FF) as i32 - 788).clamp(-200, 200);
    let power = f64::from_bits(((exponent + 1023) as u64) << 52);
    (mantissa * power) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_exact() {
        for n_entries in [0, 1, 2, 3, 4, 8, 9, 26, 27, 28, 80, 81, 82, 6560, 6561, 1 << 20] {
            for n_dims in 1..=20 {
                let r = root(n_entries, n_dims) as u128;
                assert!(r.pow(n_dims as u32) <= n_entries as u128);
                assert!((r + 1).pow(n_dims as u32) > n_entries as u128);
            }
        }
        assert_eq!((root(1 << 20, 65_535), root(0, 65_535)), (1, 0));
    }

    #[test]
    fn floats_unpack() {
        assert_eq!(unpack(788 << 21 | 3).to_bits(), 3.0f32.to_bits());
        assert_eq!(unpack(1 << 31 | 787 << 21 | 3).to_bits(), (-1.5f32).to_bits());
        assert_eq!(unpack(0x3FF << 21).to_bits(), 0);
        assert!(unpack(0x3FF << 21 | 1).is_infinite());
        assert_eq!(unpack(0x1F_FFFF).to_bits(), 0);
    }

    #[test]
    fn vectors_are_of_the_lattice_or_listed() {
        let mut lookup = Lookup {
            is_lattice: true,
            least: -1.0,
            step: 1.0,
            is_sequence: false,
            multiplicands: vec![0.0, 1.0, 2.0],
        };
        let vectors = lookup.vectors(9, 2);
        assert_eq!(vectors[..8], [-1.0, -1.0, 0.0, -1.0, 1.0, -1.0, -1.0, 0.0]);
        lookup.is_sequence = true;
        assert_eq!(lookup.vectors(9, 2)[8..12], [0.0, 0.0, 1.0, 1.0]);
        lookup.is_lattice = false;
        lookup.multiplicands = vec![3.0, 2.0, 1.0, 0.0];
        assert_eq!(*lookup.vectors(2, 2), [2.0, 3.0, 0.0, -1.0]);
    }
}
