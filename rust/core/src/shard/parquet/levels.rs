//! Levels: which rows of a page have a value, and where the rows of lists begin.
//!
//! See <https://parquet.apache.org/docs/file-format/nestedencoding/>.

use super::hybrid::{Hybrid, Stretch, unpack};
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
pub(super) fn count_highest(bytes: &[u8], max: i16, n: u64) -> Result<u64> {
    let max = u32::from(max.unsigned_abs());
    if max == 0 {
        return Ok(n);
    }
    let width = u32::BITS - max.leading_zeros();
    let (mut levels, mut n_highest) = (Hybrid::new(bytes, width, n), 0);
    while let Some(stretch) = levels.next()? {
        match stretch {
            Stretch::Run(level, n) => {
                check(level, max)?;
                n_highest += if level == max { n } else { 0 };
            }
            Stretch::Packed(packed, n) => {
                let mut highest = 0;
                unpack(packed, width, n, |group| {
                    highest = group.iter().copied().fold(highest, u32::max);
                    n_highest += group.iter().map(|level| u64::from(*level == max)).sum::<u64>();
                });
                check(highest, max)?;
            }
        }
    }
    Ok(n_highest)
}

/// The `n` levels, one by one. Levels beyond `max` are errors.
pub(super) fn all(bytes: &[u8], max: i16, n: u64) -> Result<Vec<u8>> {
    let max = u8::try_from(max).map_err(|_| Error::corrupt("a column with negative levels"))?;
    let width = u8::BITS - max.leading_zeros();
    let (mut levels, mut all) = (Hybrid::new(bytes, width, n), Vec::new());
    while let Some(stretch) = levels.next()? {
        match stretch {
            Stretch::Run(level, n) => {
                check(level, max.into())?;
                all.resize(all.len().saturating_add(n as usize), level as u8);
            }
            Stretch::Packed(packed, n) => {
                unpack(packed, width, n, |group| {
                    all.extend(group.iter().map(|level| *level as u8));
                });
            }
        }
    }
    check(all.iter().copied().max().unwrap_or(0).into(), max.into())?;
    Ok(all)
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
    fn levels_that_lie_are_refused() {
        assert!(levels(&[10, 3], 2, 5).is_err(), "a level beyond the most");
        assert!(levels(&[10], 2, 5).is_err());
        assert!(levels(&[0, 1], 1, 5).is_err(), "a run of none");
        assert!(levels(&[3, 0xff], 2, 8).is_err(), "half a group");
        assert!(levels(&[1], 1, 8).is_err(), "no groups");
        assert!(levels(&[0xff, 0xff, 0xff, 0xff, 0xff, 1], 1, 8).is_err());
    }
}
