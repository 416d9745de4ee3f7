//! Levels: which rows of a page have a value, and where the rows of lists begin.
//!
//! See <https://parquet.apache.org/docs/file-format/nestedencoding/>.

use super::hybrid::{BLOCK, Hybrid, Stretch, unpack};
use crate::{Error, Result};

/// Calls `on_run` for each run of levels that are `max` or are less, until there are `n` of them.
///
/// Of definition levels, rows have a value where theirs is `max`. Levels beyond it are errors.
pub(super) fn for_each_run(
    bytes: &[u8],
    max: u8,
    n: u64,
    mut on_run: impl FnMut(bool, u64) -> Result<()>,
) -> Result<()> {
    if max == 0 {
        return on_run(true, n); // nothing may be missing, and no levels are written
    }
    let width = u8::BITS - max.leading_zeros();
    let max = u32::from(max);
    let mut levels = Hybrid::new(bytes, width, n);
    while let Some(stretch) = levels.next()? {
        match stretch {
            Stretch::Run(level, n) => {
                check(level, max)?;
                on_run(level == max, n)?;
            }
            Stretch::Packed(packed, n) => {
                let mut done = Ok(());
                unpack(packed, width, n, |group| {
                    if done.is_ok() {
                        done = for_each_in(group, max, &mut on_run);
                    }
                });
                done?;
            }
        }
    }
    Ok(())
}

/// How many of the `n` levels are `max`. Levels beyond it are errors.
pub(super) fn count_highest(bytes: &[u8], max: u8, n: u64) -> Result<u64> {
    let mut n_highest = 0;
    for_each_run(bytes, max, n, |is_highest, n| {
        n_highest += if is_highest { n } else { 0 };
        Ok(())
    })?;
    Ok(n_highest)
}

/// Levels as runs of equal ones, in memory that is the same for any number of them.
#[derive(Debug)]
pub(super) struct Runs<'a> {
    levels: Hybrid<'a>,
    width: u32,
    max: u32,
    /// Groups that are not unpacked yet, and how many levels they have.
    packed: (&'a [u8], u64),
    /// Unpacked levels, the next one last.
    block: Vec<u32>,
}

impl<'a> Runs<'a> {
    /// The `n` levels in these bytes, of `max` at most.
    pub(super) fn new(bytes: &'a [u8], max: u8, n: u64) -> Self {
        let width = u8::BITS - max.leading_zeros();
        let levels = Hybrid::new(bytes, width, n);
        Self { levels, width, max: max.into(), packed: (&[], 0), block: Vec::new() }
    }

    /// A level, and how often it is there, at least once; `None` behind the last.
    ///
    /// # Errors
    ///
    /// A level is beyond the highest, or there are fewer than promised.
    pub(super) fn next(&mut self) -> Result<Option<(u8, u64)>> {
        loop {
            if let Some(level) = self.block.pop() {
                return self.run(level, 1);
            }
            let (packed, left) = self.packed;
            if left > 0 {
                let n = left.min(BLOCK as u64);
                unpack(packed, self.width, n, |group| self.block.extend_from_slice(group));
                self.block.reverse();
                let behind = packed.get(BLOCK / 8 * self.width as usize..).unwrap_or_default();
                self.packed = (behind, left - n);
                continue;
            }
            match self.levels.next()? {
                None => return Ok(None),
                Some(Stretch::Run(level, n)) => return self.run(level, n),
                Some(Stretch::Packed(packed, n)) => self.packed = (packed, n),
            }
        }
    }

    fn run(&self, level: u32, n: u64) -> Result<Option<(u8, u64)>> {
        check(level, self.max)?;
        Ok(Some((level as u8, n)))
    }
}

fn for_each_in(
    group: &[u32],
    max: u32,
    on_run: &mut impl FnMut(bool, u64) -> Result<()>,
) -> Result<()> {
    check(group.iter().copied().max().unwrap_or(0), max)?;
    for run in group.chunk_by(|a, b| (*a == max) == (*b == max)) {
        on_run(run.first() == Some(&max), run.len() as u64)?;
    }
    Ok(())
}

fn check(level: u32, max: u32) -> Result<()> {
    if level <= max {
        return Ok(());
    }
    Err(Error::corrupt(format!("level {level}, where {max} is the most")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(bytes: &[u8], max: u8, n: u64) -> Result<Vec<bool>> {
        let mut rows = Vec::new();
        for_each_run(bytes, max, n, |valid, n| {
            rows.extend((0..n).map(|_| valid));
            Ok(())
        })?;
        Ok(rows)
    }

    #[test]
    fn runs_and_packed_groups() {
        // Five levels of 2, then eight of two bits: 0 1 2 2 0 0 0 2.
        let bytes = [10, 2, 3, 0b1010_0100, 0b1000_0000];
        let rows = levels(&bytes, 2, 13).unwrap();
        let expected = [1, 1, 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 1].map(|level| level == 1);
        assert_eq!(rows, expected);
        assert_eq!(levels(&bytes, 2, 8).unwrap(), expected[..8]);
        assert_eq!(levels(&[], 0, 3).unwrap(), [true; 3]);
    }

    #[test]
    fn the_highest_are_counted() {
        let bytes = [10, 2, 3, 0b1010_0100, 0b1000_0000];
        assert_eq!([13, 8, 5].map(|n| count_highest(&bytes, 2, n).unwrap()), [8, 6, 5]);
        assert_eq!(count_highest(&[], 0, 3).unwrap(), 3);
        assert!(count_highest(&bytes, 2, 14).is_err());
        for (bytes, max) in [(&[10, 3][..], 2), (&[3, 0b1100_0000, 0], 2), (&[10, 6], 5)] {
            assert!(count_highest(bytes, max, 5).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn runs_are_the_levels() {
        // Two billion from five bytes, and packed ones behind.
        let mut bytes = vec![0x80, 0x80, 0x80, 0x80, 0x10, 2, 0x83, 1];
        let packed: Vec<u8> = (0..130).map(|k| [0b1001_0010, 0b0010_0100][k % 2]).collect();
        bytes.extend(&packed);
        let n = (1 << 31) + 513;
        let mut runs = Runs::new(&bytes, 2, n);
        assert_eq!(runs.next().unwrap(), Some((2, 1 << 31)));
        let values = packed.iter().flat_map(|byte| (0..4).map(move |k| byte >> (2 * k) & 3));
        let (mut wanted, mut n_seen) = (values, 0);
        while let Some((level, n)) = runs.next().unwrap() {
            assert_eq!((Some(level), n), (wanted.next(), 1));
            n_seen += 1;
        }
        assert_eq!(n_seen, 513);
        assert!(Runs::new(&[10, 3], 2, 5).next().is_err());
        assert!(Runs::new(&[], 2, 5).next().is_err());
    }

    #[test]
    fn levels_that_lie_are_refused() {
        assert!(levels(&[10, 3], 2, 5).is_err(), "a level beyond the most");
        assert!(levels(&[10], 2, 5).is_err());
        assert!(levels(&[0, 1], 1, 5).is_err(), "a run of none");
        assert!(levels(&[3, 0xff], 2, 8).is_err(), "half a group");
        assert!(levels(&[1], 1, 8).is_err(), "no groups");
        assert!(levels(&[0xff, 0xff, 0xff, 0xff, 0xff, 1], 1, 8).is_err());
    }
}
