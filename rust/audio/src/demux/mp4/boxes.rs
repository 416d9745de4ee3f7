//! Walks boxes. Sizes are numbers of the file: they only ever narrow what is looked at.

use crate::bytes::{be_u32, be_u64, from};

/// One box.
#[derive(Clone, Copy, Debug)]
pub(super) struct AtomBox<'a> {
    pub(super) kind: [u8; 4],
    pub(super) body: &'a [u8],
    /// Where its header begins, in the bytes that are walked.
    pub(super) offset: usize,
    /// Whether it reaches over the end; the body then ends with the bytes.
    pub(super) is_cut: bool,
    /// Whether it says that it goes to the end of the bytes.
    pub(super) is_open: bool,
}

/// The boxes that `bytes` consist of.
#[derive(Clone, Debug)]
pub(super) struct Boxes<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Boxes<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Whether the walk came to the end: it stops at what is no box.
    pub(super) fn is_done(&self) -> bool {
        self.at >= self.bytes.len()
    }
}

impl<'a> Iterator for Boxes<'a> {
    type Item = AtomBox<'a>;

    fn next(&mut self) -> Option<AtomBox<'a>> {
        let offset = self.at;
        let rest = from(self.bytes, offset);
        let kind = *rest.get(4..)?.first_chunk()?;
        let (header, size) = match be_u32(rest, 0)? {
            0 => (8, rest.len() as u64),
            1 => (16, be_u64(rest, 8)?),
            size => (8, u64::from(size)),
        };
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        // Something that is no box ends the walk.
        let body = rest.get(header..size.min(rest.len()))?;
        self.at = offset.saturating_add(size);
        let is_open = be_u32(rest, 0) == Some(0);
        Some(AtomBox { kind, body, offset, is_cut: size > rest.len(), is_open })
    }
}

/// The body of the first box of this kind.
pub(super) fn find(bytes: &[u8], kind: [u8; 4]) -> Option<&[u8]> {
    Boxes::new(bytes).find(|item| item.kind == kind).map(|item| item.body)
}

/// The body of a box inside others.
pub(super) fn find_path<'a>(bytes: &'a [u8], path: &[[u8; 4]]) -> Option<&'a [u8]> {
    path.iter().try_fold(bytes, |bytes, &kind| find(bytes, kind))
}
