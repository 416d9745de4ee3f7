//! Many small reads of one file as few requests.

use std::ops::Range;

use super::RangeReader;
use crate::{Error, Result};

/// At least this much is read at a time.
const WINDOW: u64 = 4096;

/// Reads small pieces of a file, which mostly follow each other.
#[derive(Debug)]
pub(crate) struct WindowReader<'a> {
    reader: &'a RangeReader,
    window: Vec<u8>,
    start: u64,
}

impl<'a> WindowReader<'a> {
    pub(crate) fn new(reader: &'a RangeReader) -> Self {
        Self { reader, window: Vec::new(), start: 0 }
    }

    /// What it reads from.
    pub(crate) fn reader(&self) -> &'a RangeReader {
        self.reader
    }

    /// The bytes of `range`, which the caller has checked to lie inside the file.
    pub(crate) fn bytes(&mut self, range: Range<u64>) -> Result<&[u8]> {
        let end = self.start + self.window.len() as u64;
        if range.start < self.start || range.end > end {
            let end = range.end.max(range.start.saturating_add(WINDOW)).min(self.reader.len());
            self.reader.read_range(range.start..end, &mut self.window)?;
            self.start = range.start;
        }
        let start = (range.start - self.start) as usize;
        let bytes =
            self.window.get(start..).and_then(|w| w.get(..(range.end - range.start) as usize));
        bytes.ok_or_else(|| Error::corrupt("a header lies outside the file").at_byte(range.start))
    }
}
