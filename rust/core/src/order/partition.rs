//! The part of the stream that one host, or one worker of a host, delivers.

use crate::error::{Error, Result};

/// Every `stride`-th row of the stream, from `offset` on.
///
/// The stream has all epochs, so hosts stay in step even where their number does not divide the
/// rows of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Stream index of the first row.
    pub offset: u64,
    /// Distance between rows, at least 1.
    pub stride: u64,
    /// What remains of the stream when it is resumed is cut to a multiple of this many rows, so that
    /// this many hosts get equally many.
    pub multiple_of: u64,
}

impl Partition {
    /// The whole stream.
    pub const ALL: Self = Self { offset: 0, stride: 1, multiple_of: 1 };

    /// Refuses numbers that make no partition.
    pub(super) fn check(&self) -> Result<()> {
        let is_huge = self.offset >= 1 << 62 || self.stride >= 1 << 62;
        if self.stride == 0 || self.multiple_of == 0 || is_huge {
            return Err(Error::config(format!("{self:?} is no part of the stream")));
        }
        Ok(())
    }

    /// The end of a stream of `total` rows that is resumed at `start`.
    pub(super) fn end(&self, start: u64, total: u64) -> u64 {
        let start = start.min(total);
        start + (total - start) / self.multiple_of * self.multiple_of
    }

    /// How many of the first `end` rows of the stream are in this partition.
    pub(super) fn n_before(&self, end: u64) -> u64 {
        end.saturating_sub(self.offset).div_ceil(self.stride)
    }

    /// The stream index of row `i` of this partition; `None` beyond 2^64.
    pub(super) fn get(&self, i: u64) -> Option<u64> {
        i.checked_mul(self.stride)?.checked_add(self.offset)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_equals_a_step_of_a_plain_list(
            start in 0u64..60, total in 0u64..60, offset in 0u64..9, stride in 1u64..9,
            multiple_of in 1u64..5,
        ) {
            let partition = Partition { offset, stride, multiple_of };
            let end = partition.end(start, total);
            prop_assert!(end <= total && total - end < multiple_of);
            prop_assert!((end - start.min(total)).is_multiple_of(multiple_of));
            let listed: Vec<u64> = (0..end).skip(offset as usize).step_by(stride as usize).collect();
            prop_assert_eq!(partition.n_before(end), listed.len() as u64);
            let found: Vec<u64> = (0..partition.n_before(end)).filter_map(|i| partition.get(i)).collect();
            prop_assert_eq!(found, listed);
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for partition in [
            Partition { stride: 0, ..Partition::ALL },
            Partition { multiple_of: 0, ..Partition::ALL },
            Partition { offset: u64::MAX, ..Partition::ALL },
        ] {
            assert!(partition.check().is_err());
        }
        assert_eq!(Partition { offset: 5, stride: 1 << 61, multiple_of: 1 }.get(u64::MAX), None);
    }
}
