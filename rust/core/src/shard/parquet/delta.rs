//! The lengths of values in pages of DELTA encodings.
//!
//! The crate allocates by the count that such a page claims, and a failed allocation ends the process.
//!
//! See <https://parquet.apache.org/docs/file-format/data-pages/encodings/#DELTAENC>.

use super::hybrid::{MAX_WIDTH, unpack};
use crate::{Error, Result};

/// Checks that the first `n_sequences` sequences of lengths in these bytes have at most `n_values`
/// numbers each.
pub(super) fn check_counts(bytes: &[u8], n_values: u64, n_sequences: usize) -> Result<()> {
    let mut rest = bytes;
    for _ in 0..n_sequences {
        let count = skip_sequence(&mut rest)?;
        if count > n_values {
            let what = format!("a page of {n_values} values with {count} lengths");
            return Err(Error::corrupt(what));
        }
    }
    Ok(())
}

/// The sum of the first sequence of lengths in these bytes, of which there are `n`.
pub(super) fn sum(bytes: &[u8], n: u64) -> Result<u64> {
    let mut rest = bytes;
    let (block, n_mini_blocks) = (varint(&mut rest)?, varint(&mut rest)?);
    let count = varint(&mut rest)?.min(n);
    let per_mini_block = block.checked_div(n_mini_blocks).unwrap_or(0);
    let n_mini_blocks = usize::try_from(n_mini_blocks).map_err(|_| ends())?;
    let mut last = zigzag(varint(&mut rest)?);
    let mut sum = last.max(0) as u64;
    let mut left = count.saturating_sub(1);
    while left > 0 {
        let least = zigzag(varint(&mut rest)?);
        let (widths, behind) = rest.split_at_checked(n_mini_blocks).ok_or_else(ends)?;
        rest = behind;
        for width in widths.iter().map(|width| u32::from(*width)) {
            if left == 0 {
                break; // what stands for mini blocks that are not there may be anything
            }
            let n = left.min(per_mini_block);
            if width > MAX_WIDTH || n == 0 {
                return Err(Error::corrupt("lengths of more than 32 bits"));
            }
            unpack(rest, width, n, |block| {
                for difference in block {
                    last = last.wrapping_add(least).wrapping_add(i64::from(*difference));
                    sum = sum.saturating_add(last.max(0) as u64);
                }
            });
            let n_bytes = u64::from(width).saturating_mul(per_mini_block) / 8;
            let n_bytes = usize::try_from(n_bytes).unwrap_or(usize::MAX);
            rest = rest.get(n_bytes..).unwrap_or_default();
            left -= n;
        }
    }
    Ok(sum)
}

/// Skips a sequence of numbers, and returns how many there are.
fn skip_sequence(rest: &mut &[u8]) -> Result<u64> {
    let block = varint(rest)?;
    let n_mini_blocks = usize::try_from(varint(rest)?).map_err(|_| ends())?;
    let count = varint(rest)?;
    varint(rest)?; // the first number
    let per_mini_block = block.checked_div(n_mini_blocks as u64).filter(|n| *n > 0);
    let per_mini_block =
        per_mini_block.ok_or_else(|| Error::corrupt("lengths in blocks without room for them"))?;
    let mut left = count.saturating_sub(1);
    while left > 0 {
        varint(rest)?; // the least difference
        let (widths, behind) = rest.split_at_checked(n_mini_blocks).ok_or_else(ends)?;
        *rest = behind;
        for width in widths {
            if left == 0 {
                break;
            }
            let n_bytes = u64::from(*width).saturating_mul(per_mini_block) / 8;
            // The last one may be cut short.
            let n_bytes = usize::try_from(n_bytes).unwrap_or(usize::MAX).min(rest.len());
            *rest = rest.get(n_bytes..).unwrap_or_default();
            left = left.saturating_sub(per_mini_block);
        }
    }
    Ok(count)
}

fn varint(rest: &mut &[u8]) -> Result<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, behind) = rest.split_first().ok_or_else(ends)?;
        *rest = behind;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(ends())
}

fn zigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

fn ends() -> Error {
    Error::corrupt("the lengths of values end early")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_found_behind_blocks() {
        // Blocks of 128 in 4: five numbers of 3 bits, then one number alone.
        let mut bytes = vec![0x80, 1, 4, 5, 2, 0, 3, 9, 9, 9];
        bytes.extend([0xff; 12]);
        bytes.extend([0x80, 1, 4, 1, 2]);
        assert!(check_counts(&bytes, 5, 2).is_ok());
        assert!(check_counts(&bytes, 4, 1).is_err());
        assert!(check_counts(&[0x80, 1, 4, 0xff, 0xff, 0xff, 0xff, 0xf, 2], 5, 1).is_err());
        assert!(check_counts(&[0x80, 1, 0, 5, 2], 5, 1).is_err());
        assert!(check_counts(&bytes[..4], 5, 1).is_err());
    }

    #[test]
    fn lengths_are_added_up() {
        // 3, then by 1 more and 0 to 3 beside: 3 4 7 8 12.
        let mut bytes = vec![0x80, 1, 4, 5, 6, 2, 2, 9, 99, 9, 0b1100_1000];
        bytes.resize(200, 0);
        assert_eq!(sum(&bytes, 5).unwrap(), 3 + 4 + 7 + 8 + 12);
        assert_eq!(sum(&bytes, 2).unwrap(), 3 + 4);
        assert_eq!(sum(&[0x80, 1, 4, 1, 5], 9).unwrap(), 0, "a negative one");
        assert!(sum(&bytes[..7], 5).is_err());
        assert!(sum(&[0x80, 1, 0, 5, 2, 2], 5).is_err(), "no mini blocks");
        assert!(sum(&[3, 4, 5, 2, 2, 1, 1, 1, 1], 5).is_err(), "mini blocks of none");
        assert!(sum(&[0x80, 1, 4, 5, 2, 2, 33, 0, 0, 0], 5).is_err(), "33 bits");
    }
}
