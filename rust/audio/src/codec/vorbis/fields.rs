//! The fields of the setup header, as bits.

use super::bits::Bits;
use crate::error::Reason;

/// A setup header that breaks the specification.
pub(super) fn broken(what: &str) -> Reason {
    Reason::malformed(format!("in the Vorbis setup, {what}"))
}

/// The fields of a header: one that is not there is an error.
#[derive(Debug)]
pub(super) struct Fields<'a>(Bits<'a>);

impl<'a> Fields<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(Bits::new(bytes))
    }

    /// The next `n` bits, at most 32.
    pub(super) fn take(&mut self, n: u32) -> Result<u32, Reason> {
        self.0.read(n).ok_or_else(|| broken("the header ends too early"))
    }

    pub(super) fn flag(&mut self) -> Result<bool, Reason> {
        Ok(self.take(1)? != 0)
    }

    /// Whether there are `n` numbers of at least `n_bits` bits, before memory for them is asked for.
    pub(super) fn hold(&self, n: usize, n_bits: usize) -> Result<(), Reason> {
        if n.checked_mul(n_bits).is_none_or(|n_bits| n_bits > self.0.left()) {
            return Err(broken("the header ends too early"));
        }
        Ok(())
    }

    /// A number in `n_bits` bits, which must be below `end`.
    pub(super) fn below(&mut self, n_bits: u32, end: usize) -> Result<usize, Reason> {
        let number = self.take(n_bits)? as usize;
        if number >= end {
            return Err(broken("a part is used that does not exist"));
        }
        Ok(number)
    }

    /// A list: its length less one in `n_bits` bits, then its members.
    pub(super) fn list<T>(
        &mut self,
        n_bits: u32,
        mut member: impl FnMut(&mut Self) -> Result<T, Reason>,
    ) -> Result<Vec<T>, Reason> {
        let n = self.take(n_bits)? + 1;
        (0..n).map(|_| member(self)).collect()
    }
}
