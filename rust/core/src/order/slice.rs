//! Slices of positions, with the meaning that Python gives to `range(n)[start:stop:step]`.

use crate::error::{Error, Result};

/// A slice as a caller states it, before the number of rows is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// First position; negative counts from the end; `None` is from the start.
    pub start: Option<i64>,
    /// Position before which it stops; negative counts from the end; `None` is to the end.
    pub stop: Option<i64>,
    /// Stride, not 0; `None` is 1.
    pub step: Option<i64>,
    /// For `start::step` slices: take the `start`-th of `step` contiguous blocks instead of every
    /// `step`-th position, as Grain's `sequential_slice` does.
    pub sequential: bool,
}

/// Positions `start, start + step, ...`, `len` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowSlice {
    start: i64,
    step: i64,
    len: u64,
}

impl RowSlice {
    /// All of `0..n`.
    pub fn all(n: u64) -> Self {
        Self { start: 0, step: 1, len: n }
    }

    /// The number of positions.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no positions.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether these are all of `0..n`, in order.
    pub(super) fn is_whole(&self, n: u64) -> bool {
        *self == Self::all(n)
    }

    /// The i-th position; `None` at or above [`Self::len`].
    pub fn get(&self, i: u64) -> Option<u64> {
        if i >= self.len {
            return None;
        }
        u64::try_from(self.start + self.step * i64::try_from(i).ok()?).ok()
    }

    /// The numbers of this slice, for the fingerprint.
    pub(super) fn words(&self) -> [u64; 3] {
        [self.start.cast_unsigned(), self.step.cast_unsigned(), self.len]
    }

    /// A slice of this slice.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Config`] for a step of 0.
    pub fn narrow(&self, slice: &Slice) -> Result<Self> {
        let n = i64::try_from(self.len).map_err(|_| Error::limit("more than 2^63 rows"))?;
        let step = slice.step.unwrap_or(1);
        if step == 0 {
            return Err(Error::config("a slice's step must not be 0"));
        }
        let (first, stop, step) = match (slice.sequential, slice.start, slice.stop) {
            (true, Some(block), None) if step > 1 && (0..step).contains(&block) => {
                let (first, stop) = block_of(n, block, step);
                (first, stop, 1)
            }
            _ => {
                let (low, high) = if step > 0 { (0, n) } else { (-1, n - 1) };
                let clip = |bound: i64| {
                    (if bound < 0 { bound.saturating_add(n) } else { bound }).clamp(low, high)
                };
                let first = slice.start.map_or(if step > 0 { low } else { high }, clip);
                let stop = slice.stop.map_or(if step > 0 { high } else { low }, clip);
                (first, stop, step)
            }
        };
        let span = if step > 0 { stop - first } else { first - stop };
        let len = if span <= 0 { 0 } else { (span - 1) / step.saturating_abs() + 1 };
        // A slice of at most one position has any step; this one does not overflow.
        let scaled = if len > 1 { self.step * step } else { self.step };
        Ok(Self { start: self.start + self.step * first, step: scaled, len: len as u64 })
    }
}

/// The `block`-th of `blocks` contiguous blocks of `0..n`, the first ones longer by one where they
/// cannot be equal: how Grain's `even_split` divides.
fn block_of(n: i64, block: i64, blocks: i64) -> (i64, i64) {
    let (share, extra) = (n / blocks, n % blocks);
    let start = block * share + block.min(extra);
    (start, start + share + i64::from(block < extra))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Python's rule, by enumeration: the positions that the loop of the language reference visits.
    fn naive(items: &[u64], slice: &Slice) -> Vec<u64> {
        let (n, step) = (items.len() as i64, slice.step.unwrap_or(1));
        let place = |bound: i64| if bound < 0 { bound + n } else { bound };
        let inside = |i: i64| {
            let after_start =
                slice.start.is_none_or(|s| if step > 0 { i >= place(s) } else { i <= place(s) });
            let before_stop =
                slice.stop.is_none_or(|s| if step > 0 { i < place(s) } else { i > place(s) });
            after_start && before_stop
        };
        let mut visited: Vec<i64> = (0..n).filter(|&i| inside(i)).collect();
        if step < 0 {
            visited.reverse();
        }
        visited
            .into_iter()
            .step_by(step.unsigned_abs() as usize)
            .map(|i| items[i as usize])
            .collect()
    }

    fn slices() -> impl Strategy<Value = Slice> {
        let bound = prop::option::of(-40i64..40);
        let step = prop_oneof![Just(None), (1i64..6).prop_map(Some), (-5i64..0).prop_map(Some)];
        (bound.clone(), bound, step).prop_map(|(start, stop, step)| Slice {
            start,
            stop,
            step,
            sequential: false,
        })
    }

    proptest! {
        #[test]
        fn it_slices_as_python_does(n in 0u64..30, steps in prop::collection::vec(slices(), 0..4)) {
            let mut expected: Vec<u64> = (0..n).collect();
            let mut ours = RowSlice::all(n);
            for slice in &steps {
                expected = naive(&expected, slice);
                ours = ours.narrow(slice).unwrap();
            }
            prop_assert_eq!((0..).map_while(|i| ours.get(i)).collect::<Vec<_>>(), expected);
        }

        #[test]
        fn blocks_are_contiguous_and_complete(n in 0u64..50, blocks in 1i64..9) {
            let mut joined = Vec::new();
            for block in 0..blocks {
                let slice = Slice { start: Some(block), stop: None, step: Some(blocks), sequential: true };
                let part = RowSlice::all(n).narrow(&slice).unwrap();
                joined.extend((0..).map_while(|i| part.get(i)));
            }
            prop_assert_eq!(joined, (0..n).collect::<Vec<_>>());
        }
    }

    #[test]
    fn extreme_bounds_do_not_overflow() {
        let slice = Slice {
            start: Some(i64::MIN),
            stop: Some(i64::MAX),
            step: Some(i64::MAX),
            sequential: false,
        };
        assert_eq!(RowSlice::all(5).narrow(&slice).unwrap().len(), 1);
        let zero = Slice { start: None, stop: None, step: Some(0), sequential: false };
        assert!(RowSlice::all(5).narrow(&zero).is_err());
    }
}
