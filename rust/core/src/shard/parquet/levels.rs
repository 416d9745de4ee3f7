//! Definition levels: which rows of a page have a value.
//!
//! See <https://parquet.apache.org/docs/file-format/data-pages/encodings/#RLE>.

use crate::{Error, Result};

/// Calls `on_run` for each run of rows with or without a value, until there are `n` of them.
///
/// Rows have a value where their level is `max`. Levels beyond it are errors.
pub(super) fn for_each_run(
    bytes: &[u8],
    max: u8,
    n: u64,
    mut on_run: impl FnMut(bool, u64) -> Result<()>,
) -> Result<()> {
    let width = u64::from(u8::BITS - max.leading_zeros());
    let (mut rest, mut left) = (bytes, n);
    let mut check = |level: u8, n: u64| {
        if level > max {
            return Err(Error::corrupt(format!(
                "definition level {level}, where {max} is the most"
            )));
        }
        on_run(level == max, n)
    };
    while left > 0 {
        let header = varint(&mut rest)?;
        let n = header >> 1;
        if header & 1 == 0 {
            let (level, behind) = rest.split_first().ok_or_else(ends)?;
            rest = behind;
            if n == 0 {
                return Err(Error::corrupt("a run of no levels"));
            }
            check(*level, n.min(left))?;
            left -= n.min(left);
        } else {
            // Groups of eight levels, each of them `width` bits. The last group may be cut short.
            let n_bytes = usize::try_from(n.saturating_mul(width)).unwrap_or(usize::MAX);
            let packed = rest.get(..n_bytes.min(rest.len())).unwrap_or_default();
            rest = rest.get(packed.len()..).unwrap_or_default();
            let n_levels = n.saturating_mul(8).min(left);
            if n == 0 || (packed.len() as u64) < (n_levels * width).div_ceil(8) {
                return Err(ends());
            }
            for index in 0..n_levels {
                check(level_at(packed, index * width, width), 1)?;
            }
            left -= n_levels;
        }
    }
    Ok(())
}

fn level_at(packed: &[u8], bit: u64, width: u64) -> u8 {
    let at = (bit / 8) as usize;
    let pair = [packed.get(at), packed.get(at + 1)].map(|byte| byte.copied().unwrap_or(0));
    let shifted = u16::from_le_bytes(pair) >> (bit % 8);
    (shifted & ((1 << width) - 1)) as u8
}

fn varint(bytes: &mut &[u8]) -> Result<u64> {
    let mut value = 0;
    for shift in (0..35).step_by(7) {
        let (byte, rest) = bytes.split_first().ok_or_else(ends)?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Error::corrupt("a run of too many levels"))
}

fn ends() -> Error {
    Error::corrupt("the definition levels end early")
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
