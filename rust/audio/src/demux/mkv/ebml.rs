//! EBML, RFC 8794: elements of an identifier, a size and a body.

use crate::bytes::{be_u32, be_u64, from, u8_at};

/// The header of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Element {
    pub(super) id: u32,
    /// Where its body begins.
    pub(super) body: usize,
    /// The length of its body; `None` if it is not known.
    pub(super) len: Option<u64>,
}

impl Element {
    /// The element at `offset`.
    pub(super) fn read(bytes: &[u8], offset: usize) -> Option<Self> {
        let first = u8_at(bytes, offset)?;
        let id_len = first.leading_zeros() as usize + 1;
        if id_len > 4 {
            return None;
        }
        let id = bytes.get(offset..offset.checked_add(id_len)?)?;
        let id = id.iter().fold(0, |id, &byte| id << 8 | u32::from(byte));
        let (len, len_len) = vint(from(bytes, offset + id_len))?;
        Some(Self { id, body: offset + id_len + len_len, len })
    }

    /// Where it ends, if that is known.
    pub(super) fn end(&self) -> Option<usize> {
        let len = usize::try_from(self.len?).unwrap_or(usize::MAX);
        Some(self.body.saturating_add(len))
    }

    /// The part of its body that is in the file.
    pub(super) fn data<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let body = from(bytes, self.body);
        body.get(..self.end().unwrap_or(usize::MAX).saturating_sub(self.body)).unwrap_or(body)
    }
}

/// A number of variable length and the bytes that it takes; all bits set is `None`: unknown.
pub(super) fn vint(bytes: &[u8]) -> Option<(Option<u64>, usize)> {
    let n = u8_at(bytes, 0)?.leading_zeros() as usize + 1;
    if n > 8 {
        return None;
    }
    let value = bytes.get(..n)?.iter().fold(0u64, |value, &byte| value << 8 | u64::from(byte));
    let mask = (1u64 << (7 * n)) - 1;
    let value = value & mask;
    Some(((value != mask).then_some(value), n))
}

/// An unsigned integer of up to eight bytes.
pub(super) fn uint(body: &[u8]) -> Option<u64> {
    (body.len() <= 8).then(|| body.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}

/// A signed integer of up to eight bytes.
pub(super) fn int(body: &[u8]) -> Option<i64> {
    let unused = 64u32.saturating_sub(8 * body.len() as u32);
    uint(body).map(|value| if unused == 64 { 0 } else { (value << unused) as i64 >> unused })
}

/// A number of four or eight bytes.
pub(super) fn float(body: &[u8]) -> Option<f64> {
    match body.len() {
        4 => be_u32(body, 0).map(|bits| f64::from(f32::from_bits(bits))),
        8 => be_u64(body, 0).map(f64::from_bits),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read() {
        assert_eq!(vint(&[0x81]), Some((Some(1), 1)));
        assert_eq!(vint(&[0x40, 2, 9]), Some((Some(2), 2)));
        assert_eq!(vint(&[0xFF]), Some((None, 1)));
        assert_eq!(vint(&[1, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]), Some((None, 8)));
        assert_eq!(vint(&[0, 1]), None);
        assert_eq!(vint(&[0x40]), None);
        assert_eq!((uint(&[1, 2]), uint(&[0; 9])), (Some(258), None));
        assert_eq!((int(&[0xFF]), int(&[0x7F, 0xFF]), int(&[])), (Some(-1), Some(32_767), Some(0)));
        assert_eq!(float(&44_100f32.to_be_bytes()), Some(44_100.0));
        assert_eq!(float(&[0; 5]), None);
    }
}
