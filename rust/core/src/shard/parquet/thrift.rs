//! Thrift's compact protocol, as far as Parquet's headers need it.
//!
//! The crate `parquet` parses footers and page headers itself. What is read here is read before it,
//! to know that no list, name or page is larger than the bytes that back it.
//!
//! See <https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>.

use crate::{Error, Result};

/// Structures in structures that are skipped.
const MAX_DEPTH: u32 = 32;

/// The types of fields.
mod kind {
    pub(super) const TRUE: u8 = 1;
    pub(super) const FALSE: u8 = 2;
    pub(super) const BYTE: u8 = 3;
    pub(super) const I16: u8 = 4;
    pub(super) const I32: u8 = 5;
    pub(super) const I64: u8 = 6;
    pub(super) const DOUBLE: u8 = 7;
    pub(super) const BINARY: u8 = 8;
    pub(super) const LIST: u8 = 9;
    pub(super) const SET: u8 = 10;
    pub(super) const MAP: u8 = 11;
    pub(super) const STRUCT: u8 = 12;
}

/// A field of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) id: i16,
    kind: u8,
}

impl Field {
    /// Whether its value is a number.
    pub(super) fn is_integer(self) -> bool {
        matches!(self.kind, kind::I16 | kind::I32 | kind::I64)
    }
}

/// Reads numbers and structures.
#[derive(Clone, Debug)]
pub(super) struct Thrift<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Thrift<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Bytes read so far.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    fn byte(&mut self) -> Result<u8> {
        let byte = self.bytes.get(self.at).copied().ok_or_else(ends)?;
        self.at += 1;
        Ok(byte)
    }

    fn unsigned(&mut self) -> Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Error::corrupt("a number of more than 64 bits"))
    }

    fn signed(&mut self) -> Result<i64> {
        let value = self.unsigned()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn skip_bytes(&mut self, n: u64) -> Result<()> {
        let left = self.bytes.len() - self.at;
        let n = usize::try_from(n).ok().filter(|n| *n <= left).ok_or_else(ends)?;
        self.at += n;
        Ok(())
    }

    /// The next field of a structure, after the one with the id `last`; `None` at its end.
    pub(super) fn field(&mut self, last: &mut i16) -> Result<Option<Field>> {
        let byte = self.byte()?;
        let (delta, kind) = (byte >> 4, byte & 0xf);
        if kind == 0 {
            return Ok(None);
        }
        let id = match delta {
            0 => i16::try_from(self.signed()?).ok(),
            delta => last.checked_add(i16::from(delta)),
        };
        *last = id.ok_or_else(|| Error::corrupt("a field's number is out of range"))?;
        Ok(Some(Field { id: *last, kind }))
    }

    /// The value of an integer field.
    pub(super) fn integer(&mut self, field: Field) -> Result<i64> {
        if field.is_integer() { self.signed() } else { Err(wrong_type(field)) }
    }

    /// The value of a field that has 32 bits.
    pub(super) fn integer_32(&mut self, field: Field) -> Result<i32> {
        let value = self.integer(field)?;
        i32::try_from(value).map_err(|_| Error::corrupt(format!("{value} is out of range")))
    }

    /// The length of a text field, which is skipped.
    pub(super) fn text_bytes(&mut self, field: Field) -> Result<u64> {
        if field.kind != kind::BINARY {
            return Err(wrong_type(field));
        }
        let n = self.unsigned()?;
        self.skip_bytes(n)?;
        Ok(n)
    }

    /// Begins a structure in a field.
    pub(super) fn structure(field: Field) -> Result<()> {
        if field.kind == kind::STRUCT { Ok(()) } else { Err(wrong_type(field)) }
    }

    /// Begins a list of structures in a field: their number, no more than there are bytes.
    pub(super) fn structures(&mut self, field: Field) -> Result<usize> {
        if field.kind != kind::LIST {
            return Err(wrong_type(field));
        }
        let (n, of) = self.list()?;
        if of == kind::STRUCT || n == 0 { Ok(n) } else { Err(wrong_type(field)) }
    }

    fn list(&mut self) -> Result<(usize, u8)> {
        let byte = self.byte()?;
        let n = if byte >> 4 == 0xf { self.unsigned()? } else { u64::from(byte >> 4) };
        // Each item has one byte at least.
        let left = self.bytes.len() - self.at;
        let n = usize::try_from(n).ok().filter(|n| *n <= left).ok_or_else(ends)?;
        Ok((n, byte & 0xf))
    }

    /// Skips a field's value.
    pub(super) fn skip(&mut self, field: Field) -> Result<()> {
        if matches!(field.kind, kind::TRUE | kind::FALSE) {
            return Ok(()); // a field's type is its value
        }
        self.skip_value(field.kind, MAX_DEPTH)
    }

    fn skip_value(&mut self, kind: u8, depth: u32) -> Result<()> {
        let deeper =
            depth.checked_sub(1).ok_or_else(|| Error::corrupt("structures are nested too deep"))?;
        match kind {
            kind::TRUE | kind::FALSE | kind::BYTE => self.skip_bytes(1),
            kind::I16 | kind::I32 | kind::I64 => self.unsigned().map(drop),
            kind::DOUBLE => self.skip_bytes(8),
            kind::BINARY => {
                let n = self.unsigned()?;
                self.skip_bytes(n)
            }
            kind::LIST | kind::SET => {
                let (n, of) = self.list()?;
                (0..n).try_for_each(|_| self.skip_value(of, deeper))
            }
            kind::MAP => {
                let n = self.unsigned()?;
                let of = if n == 0 { 0 } else { self.byte()? };
                // Each entry takes bytes, so the loop ends with them.
                (0..n).try_for_each(|_| {
                    self.skip_value(of >> 4, deeper)?;
                    self.skip_value(of & 0xf, deeper)
                })
            }
            kind::STRUCT => {
                let mut last = 0;
                while let Some(field) = self.field(&mut last)? {
                    if !matches!(field.kind, kind::TRUE | kind::FALSE) {
                        self.skip_value(field.kind, deeper)?;
                    }
                }
                Ok(())
            }
            other => Err(Error::corrupt(format!("a value of type {other}, which is unknown"))),
        }
    }
}

/// The message of an error for bytes that end too early.
pub(super) const ENDS: &str = "the header ends early";

fn ends() -> Error {
    Error::corrupt(ENDS)
}

fn wrong_type(field: Field) -> Error {
    Error::corrupt(format!("field {} has type {}", field.id, field.kind))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fields_are_read_and_skipped() {
        // 1: i32 -3, 2: binary "ab", 4: true, 5: [struct {1: i64 300}], end
        let bytes = [0x15, 5, 0x18, 2, b'a', b'b', 0x21, 0x19, 0x1c, 0x16, 0xd8, 4, 0, 0];
        let mut thrift = Thrift::new(&bytes);
        let mut last = 0;
        let field = thrift.field(&mut last).unwrap().unwrap();
        assert_eq!((field.id, thrift.integer(field).unwrap()), (1, -3));
        let field = thrift.field(&mut last).unwrap().unwrap();
        assert_eq!((field.id, thrift.text_bytes(field).unwrap()), (2, 2));
        let field = thrift.field(&mut last).unwrap().unwrap();
        assert_eq!(field.id, 4);
        thrift.skip(field).unwrap();
        let field = thrift.field(&mut last).unwrap().unwrap();
        let mut inner = thrift.clone();
        assert_eq!((field.id, inner.structures(field).unwrap()), (5, 1));
        let mut last_inner = 0;
        let of = inner.field(&mut last_inner).unwrap().unwrap();
        assert_eq!(inner.integer(of).unwrap(), 300);
        thrift.skip(field).unwrap();
        assert_eq!(thrift.field(&mut last).unwrap(), None);
        assert_eq!(thrift.at(), bytes.len());
    }

    proptest! {
        #[test]
        fn any_bytes_end_in_an_error_or_within(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut thrift = Thrift::new(&bytes);
            let _ = thrift.skip_value(kind::STRUCT, MAX_DEPTH);
            prop_assert!(thrift.at() <= bytes.len());
        }
    }
}
