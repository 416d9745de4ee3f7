//! Runs and bit-packed groups, in which levels and references to a dictionary are written.
//!
//! See <https://parquet.apache.org/docs/file-format/data-pages/encodings/#RLE>.

use crate::{Error, Result};

/// The most bits of a value.
pub(super) const MAX_WIDTH: u32 = u32::BITS;

/// Values in a bit-packed group, which has a byte for each bit of their width.
const GROUP: usize = 8;

/// The most values that are unpacked at a time.
pub(super) const BLOCK: usize = 256;

/// A stretch of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stretch<'a> {
    /// A value, and how often it is there.
    Run(u32, u64),
    /// This many values in groups. The last group may be cut short.
    Packed(&'a [u8], u64),
}

/// Values of some bits each.
#[derive(Clone, Debug)]
pub(super) struct Hybrid<'a> {
    rest: &'a [u8],
    width: u32,
    left: u64,
}

impl<'a> Hybrid<'a> {
    /// The first `n` values in these bytes, of `width` bits each, which are [`MAX_WIDTH`] at most.
    pub(super) fn new(bytes: &'a [u8], width: u32, n: u64) -> Self {
        Self { rest: bytes, width: width.min(MAX_WIDTH), left: n }
    }

    /// The next stretch, which is not empty; `None` behind the last value.
    pub(super) fn next(&mut self) -> Result<Option<Stretch<'a>>> {
        if self.left == 0 {
            return Ok(None);
        }
        let header = varint(&mut self.rest)?;
        let n = header >> 1;
        if n == 0 {
            return Err(Error::corrupt("a run of no values"));
        }
        let (stretch, n) = if header & 1 == 0 {
            let n_bytes = self.width.div_ceil(u8::BITS) as usize;
            let (bytes, behind) = self.rest.split_at_checked(n_bytes).ok_or_else(ends)?;
            self.rest = behind;
            let value = bytes.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte));
            let n = n.min(self.left);
            (Stretch::Run(value, n), n)
        } else {
            let width = u64::from(self.width);
            let n_bytes = usize::try_from(n.saturating_mul(width)).unwrap_or(usize::MAX);
            let (packed, behind) = self.rest.split_at(n_bytes.min(self.rest.len()));
            self.rest = behind;
            let n = n.saturating_mul(GROUP as u64).min(self.left);
            if (packed.len() as u64) < (n * width).div_ceil(u64::from(u8::BITS)) {
                return Err(ends());
            }
            (Stretch::Packed(packed, n), n)
        };
        self.left -= n;
        Ok(Some(stretch))
    }
}

/// Checks that there are `n` references to a dictionary behind their width, without unpacking them.
pub(super) fn check_references(bytes: &[u8], n: u64) -> Result<()> {
    let (width, runs) = bytes.split_first().ok_or_else(ends)?;
    let width = u32::from(*width);
    if width > MAX_WIDTH {
        return Err(Error::corrupt(format!("references of {width} bits")));
    }
    let mut references = Hybrid::new(runs, width, n);
    while references.next()?.is_some() {}
    Ok(())
}

/// Calls `each` with the `n` values of groups, [`BLOCK`] or fewer at a time.
pub(super) fn unpack(packed: &[u8], width: u32, n: u64, each: impl FnMut(&[u32])) {
    macro_rules! by_width {
        ($($width:literal)*) => {
            match width {
                0 => unpack_by::<0>(packed, n, each),
                $($width => unpack_by::<$width>(packed, n, each),)*
                _ => unpack_by::<32>(packed, n, each),
            }
        };
    }
    by_width!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31);
}

/// As [`unpack`], with the width known where this is compiled, so that it is shifts by constants.
fn unpack_by<const WIDTH: usize>(packed: &[u8], n: u64, mut each: impl FnMut(&[u32])) {
    let mut block = [0; BLOCK];
    if WIDTH == 0 {
        for done in (0..n).step_by(BLOCK) {
            let n = (n - done).min(BLOCK as u64) as usize;
            each(block.get(..n).unwrap_or_default());
        }
        return;
    }
    let (groups, cut) = packed.as_chunks::<WIDTH>();
    let n_whole = groups.len().min((n / GROUP as u64) as usize);
    for groups in groups.get(..n_whole).unwrap_or_default().chunks(BLOCK / GROUP) {
        for (group, values) in groups.iter().zip(block.as_chunks_mut().0) {
            unpack_group(group, values);
        }
        each(block.get(..groups.len() * GROUP).unwrap_or_default());
    }
    let left = n.saturating_sub((n_whole * GROUP) as u64).min(GROUP as u64) as usize;
    if left > 0 {
        let (mut last, mut values) = ([0; WIDTH], [0; GROUP]);
        let rest = groups.get(n_whole).map_or(cut, |group| group.as_slice());
        last.iter_mut().zip(rest).for_each(|(to, byte)| *to = *byte);
        unpack_group(&last, &mut values);
        each(values.get(..left).unwrap_or_default());
    }
}

/// The values of one group.
#[inline]
fn unpack_group<const WIDTH: usize>(bytes: &[u8; WIDTH], values: &mut [u32; GROUP]) {
    const WINDOW: usize = size_of::<u64>();
    let mask = (1_u64 << WIDTH) - 1;
    if WIDTH < WINDOW {
        let mut window = [0; WINDOW];
        for (to, byte) in window.iter_mut().zip(bytes) {
            *to = *byte;
        }
        let all = u64::from_le_bytes(window);
        for (k, value) in values.iter_mut().enumerate() {
            *value = (all >> (k * WIDTH) & mask) as u32;
        }
        return;
    }
    for (k, value) in values.iter_mut().enumerate() {
        // Eight bytes that the value lies in.
        let bit = k * WIDTH;
        let start = (bit / 8).min(WIDTH.saturating_sub(WINDOW));
        let window = bytes.get(start..).and_then(<[u8]>::first_chunk);
        let window = window.map_or(0, |window| u64::from_le_bytes(*window));
        *value = (window >> (bit - 8 * start) & mask) as u32;
    }
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
    Err(Error::corrupt("a run of too many values"))
}

fn ends() -> Error {
    Error::corrupt("the runs of a page end early")
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Value `index` of groups, bit by bit.
    fn value_at(packed: &[u8], index: u64, width: u32) -> u32 {
        (0..u64::from(width)).fold(0, |value, k| {
            let bit = index * u64::from(width) + k;
            value | u32::from(packed[(bit / 8) as usize] >> (bit % 8) & 1) << k
        })
    }

    fn unpacked(packed: &[u8], width: u32, n: u64) -> Vec<u32> {
        let mut values = Vec::new();
        unpack(packed, width, n, |group| values.extend(group));
        values
    }

    proptest! {
        #[test]
        fn groups_are_as_bit_by_bit(
            (width, n, packed) in (0..=MAX_WIDTH, 0_u64..3 * BLOCK as u64).prop_flat_map(|(width, n)| {
                let n_bytes = (n * u64::from(width)).div_ceil(8) as usize;
                let bytes = prop::collection::vec(any::<u8>(), n_bytes..=n_bytes + 5);
                (Just(width), Just(n), bytes)
            }),
        ) {
            let expected: Vec<u32> = (0..n).map(|k| value_at(&packed, k, width)).collect();
            prop_assert_eq!(unpacked(&packed, width, n), expected);
        }

        #[test]
        fn any_bytes_give_the_wanted_number_or_an_error(
            bytes in prop::collection::vec(any::<u8>(), 0..60),
            width in 0..=MAX_WIDTH,
            n in 0_u64..1_000,
        ) {
            let (mut hybrid, mut found) = (Hybrid::new(&bytes, width, n), 0);
            let end = loop {
                match hybrid.next() {
                    Ok(Some(Stretch::Run(value, n))) => {
                        prop_assert!(width == 32 || u64::from(value) < 1 << width.next_multiple_of(8));
                        found += n;
                    }
                    Ok(Some(Stretch::Packed(packed, n))) => {
                        prop_assert_eq!(unpacked(packed, width, n).len() as u64, n);
                        found += n;
                    }
                    end => break end,
                }
            };
            prop_assert!(end.is_err() || found == n);
        }
    }

    #[test]
    fn stretches_of_both_kinds() {
        // Five times 0x0102, then two groups, of which twelve values are wanted.
        let bytes = [[10, 2, 1, 5].as_slice(), &[0xff; 18]].concat();
        let mut hybrid = Hybrid::new(&bytes, 9, 17);
        assert_eq!(hybrid.next().unwrap(), Some(Stretch::Run(0x0102, 5)));
        assert_eq!(hybrid.next().unwrap(), Some(Stretch::Packed(&[0xff; 18], 12)));
        assert_eq!(hybrid.next().unwrap(), None);
        assert_eq!(unpacked(&[0xff; 18], 9, 12), [511; 12]);
    }
}
