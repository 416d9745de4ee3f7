//! Reads of fixed width at an offset, which are `None` past the end.

fn at<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..)?.first_chunk().copied()
}

pub(super) fn u8_at(bytes: &[u8], offset: usize) -> Option<u8> {
    bytes.get(offset).copied()
}

pub(super) fn le_u16(bytes: &[u8], offset: usize) -> Option<u16> {
    at(bytes, offset).map(u16::from_le_bytes)
}

pub(super) fn le_u32(bytes: &[u8], offset: usize) -> Option<u32> {
    at(bytes, offset).map(u32::from_le_bytes)
}

pub(super) fn le_u64(bytes: &[u8], offset: usize) -> Option<u64> {
    at(bytes, offset).map(u64::from_le_bytes)
}

pub(super) fn be_u16(bytes: &[u8], offset: usize) -> Option<u16> {
    at(bytes, offset).map(u16::from_be_bytes)
}

pub(super) fn be_u32(bytes: &[u8], offset: usize) -> Option<u32> {
    at(bytes, offset).map(u32::from_be_bytes)
}

pub(super) fn be_u64(bytes: &[u8], offset: usize) -> Option<u64> {
    at(bytes, offset).map(u64::from_be_bytes)
}

/// The part of `bytes` from `offset` on; empty past the end.
pub(super) fn from(bytes: &[u8], offset: usize) -> &[u8] {
    bytes.get(offset..).unwrap_or_default()
}
