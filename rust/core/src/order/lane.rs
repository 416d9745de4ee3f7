//! The part of the stream that one host, or one worker of a host, delivers.

use crate::error::{Error, Result};

/// Every `stride`-th row of the stream, from `offset` on.
///
/// The stream runs through all epochs, so that hosts which take turns stay in step where the
/// number of hosts does not divide the rows of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Stream index of the first row.
    pub offset: u64,
    /// Distance of the rows, at least 1.
    pub stride: u64,
    /// From where the stream is taken up it is cut to a multiple of this many rows, so that as many
    /// hosts have equally many.
    pub even: u64,
}

impl Lane {
    /// The whole stream.
    pub const ALL: Self = Self { offset: 0, stride: 1, even: 1 };

    /// Refuses lanes that cannot be.
    pub(super) fn check(&self) -> Result<()> {
        if self.stride == 0 || self.even == 0 || self.offset >= 1 << 62 || self.stride >= 1 << 62 {
            return Err(Error::config(format!("{self:?} is no part of the stream")));
        }
        Ok(())
    }

    /// Where the stream of `total` rows is cut, if it is taken up at `start`.
    pub(super) fn end(&self, start: u64, total: u64) -> u64 {
        let start = start.min(total);
        start + (total - start) / self.even * self.even
    }

    /// How many rows of a stream that is cut at `end` this lane has; also the lane's first row at
    /// or behind stream index `end`.
    pub(super) fn n_before(&self, end: u64) -> u64 {
        end.saturating_sub(self.offset).div_ceil(self.stride)
    }

    /// Stream index of the lane's row `i`; `None` beyond any stream.
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
        fn it_counts_as_a_plain_list_does(
            start in 0u64..60, total in 0u64..60, offset in 0u64..9, stride in 1u64..9,
            even in 1u64..5,
        ) {
            let lane = Lane { offset, stride, even };
            let end = lane.end(start, total);
            prop_assert!(end <= total && total - end < even);
            prop_assert!((end - start.min(total)).is_multiple_of(even));
            let listed: Vec<u64> = (0..end).skip(offset as usize).step_by(stride as usize).collect();
            prop_assert_eq!(lane.n_before(end), listed.len() as u64);
            let found: Vec<u64> = (0..lane.n_before(end)).filter_map(|i| lane.get(i)).collect();
            prop_assert_eq!(found, listed);
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for lane in [
            Lane { stride: 0, ..Lane::ALL },
            Lane { even: 0, ..Lane::ALL },
            Lane { offset: u64::MAX, ..Lane::ALL },
        ] {
            assert!(lane.check().is_err());
        }
        assert_eq!(Lane { offset: 5, stride: 1 << 61, even: 1 }.get(u64::MAX), None);
    }
}
