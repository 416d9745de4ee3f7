//! Blocks with checksums: what is damaged of a file costs the blocks that it lies in.
//!
//! A block is a mark of four bytes, the XXH3 hash of its payload and the payload's length, both
//! little-endian `u64`, and the payload. Where some blocks may be lost, the next mark is looked for after
//! damage.

use crate::hash::xxh3;

const MARK: &[u8; 4] = b"GMBL";

/// Bytes before a payload.
pub(in crate::shard) const HEAD: usize = 20;

/// The longest payload of several blocks.
const MAX_PAYLOAD: usize = 1 << 20;

/// Marks whose block is damaged, after which the rest of a file is left alone. Each costs a hash of
/// up to [`MAX_PAYLOAD`] bytes.
const MAX_DAMAGED: usize = 64;

/// Appends a block.
pub(in crate::shard) fn write(out: &mut Vec<u8>, payload: &[u8]) {
    out.extend(MARK);
    out.extend(xxh3(payload).to_le_bytes());
    out.extend((payload.len() as u64).to_le_bytes());
    out.extend(payload);
}

/// The payloads of the sound blocks in these bytes, up to [`MAX_PAYLOAD`] bytes each.
pub(in crate::shard) fn read(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut n_damaged = 0;
    std::iter::from_fn(move || {
        while n_damaged < MAX_DAMAGED {
            let at = bytes.windows(MARK.len()).position(|window| window == MARK)?;
            let (_, found) = bytes.split_at_checked(at)?;
            if let Some((payload, rest)) = sound(found, MAX_PAYLOAD) {
                bytes = rest;
                return Some(payload);
            }
            n_damaged += 1;
            bytes = found.get(1..)?;
        }
        None
    })
}

/// The payload of the block at the start of these bytes, and what follows it; `None` for damage.
pub(super) fn first(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    sound(bytes, usize::MAX)
}

/// As [`first`], of at most so many bytes.
fn sound(bytes: &[u8], most: usize) -> Option<(&[u8], &[u8])> {
    let (sum, rest) = bytes.strip_prefix(MARK)?.split_first_chunk()?;
    let (len, rest) = rest.split_first_chunk()?;
    let len = usize::try_from(u64::from_le_bytes(*len)).ok().filter(|len| *len <= most)?;
    let (payload, rest) = rest.split_at_checked(len)?;
    (u64::from_le_bytes(*sum) == xxh3(payload)).then_some((payload, rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(payloads: &[Vec<u8>]) -> Vec<u8> {
        let mut out = Vec::new();
        for payload in payloads {
            write(&mut out, payload);
        }
        out
    }

    proptest! {
        #[test]
        fn a_changed_byte_costs_its_block_alone(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..8),
            at in any::<prop::sample::Index>(),
            change in 1..=u8::MAX,
        ) {
            let mut bytes = written(&payloads);
            prop_assert!(read(&bytes).eq(payloads.iter().map(Vec::as_slice)));
            let at = at.index(bytes.len());
            bytes[at] ^= change;
            let mut end = 0;
            let hit = payloads.iter().position(|payload| {
                end += HEAD + payload.len();
                at < end
            });
            let left = payloads.iter().enumerate().filter(|(k, _)| Some(*k) != hit);
            prop_assert!(read(&bytes).eq(left.map(|(_, payload)| payload.as_slice())));
        }

        #[test]
        fn anything_is_read_past(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(read(&bytes).count(), 0);
        }
    }

    #[test]
    fn a_cut_costs_the_last_block() {
        let payloads = [vec![1; 30], vec![2; 30]];
        let bytes = written(&payloads);
        for len in HEAD + 30..bytes.len() {
            assert!(read(&bytes[..len]).eq([payloads[0].as_slice()]), "{len}");
        }
    }

    #[test]
    fn many_marks_take_no_time() {
        let mut bytes = Vec::new();
        for _ in 0..100_000 {
            bytes.extend(MARK);
            bytes.extend([0; 8]);
            bytes.extend(500_000_u64.to_le_bytes());
        }
        let first = written(&[vec![7]]);
        assert!(read(&[first.as_slice(), &bytes].concat()).eq([[7].as_slice()]));
    }
}
