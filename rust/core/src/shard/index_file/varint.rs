//! Numbers of one to ten bytes, seven bits each, the lowest first.

/// Appends a number.
pub(super) fn write(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Takes a number from the front of `bytes`; `None` where there is none that is whole.
pub(super) fn read(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..u64::BITS).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let low = u64::from(byte & 0x7F);
        if low.leading_zeros() < shift {
            return None;
        }
        number |= low << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_come_back(numbers in prop::collection::vec(any::<u64>(), 0..20), shift in 0..64) {
            let mut out = Vec::new();
            let numbers: Vec<u64> = numbers.into_iter().map(|number| number >> shift).collect();
            for number in &numbers {
                write(&mut out, *number);
            }
            let mut left = out.as_slice();
            let read: Vec<Option<u64>> = numbers.iter().map(|_| read(&mut left)).collect();
            prop_assert!(read.iter().copied().eq(numbers.into_iter().map(Some)));
            prop_assert!(left.is_empty());
        }
    }

    #[test]
    fn numbers_that_are_cut_or_too_large_are_none() {
        let whole = [&[0xFF; 9][..], &[1]].concat();
        assert_eq!(read(&mut whole.as_slice()), Some(u64::MAX));
        for len in 0..whole.len() {
            assert_eq!(read(&mut &whole[..len]), None);
        }
        assert_eq!(read(&mut [&[0xFF; 9][..], &[2]].concat().as_slice()), None);
        assert_eq!(read(&mut [0x80; 12].as_slice()), None);
    }
}
