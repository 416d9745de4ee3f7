//! Packets from the pieces that pages hold.

use super::page::Page;
use crate::{error::Reason, memory};

/// Joins packets that go over pages. Those within one page are not copied.
#[derive(Debug, Default)]
pub(super) struct Joiner {
    begun: Vec<u8>,
    is_open: bool,
}

impl Joiner {
    /// Takes piece `i` of a page; gives the packet that ends with it. The end of a packet that began
    /// before the first page is skipped.
    pub(super) fn add<'a>(
        &'a mut self,
        page: &Page<'_>,
        i: usize,
        (piece, ends): (&'a [u8], bool),
    ) -> Result<Option<&'a [u8]>, Reason> {
        let continues = i == 0 && page.is_continued();
        if continues && !self.is_open {
            return Ok(None);
        }
        if !continues {
            if ends {
                self.is_open = false;
                return Ok(Some(piece));
            }
            self.begun.clear();
        }
        memory::extend(&mut self.begun, piece)?;
        self.is_open = !ends;
        Ok(ends.then_some(self.begun.as_slice()))
    }
}
