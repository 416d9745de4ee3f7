//! From page to page of one logical stream.

use super::page::{NoPage, Page, find_capture};
use crate::{
    error::Reason,
    memory,
    report::{Damage, Ledger, Note},
};

/// Logical streams that begin together, and the one among them that is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Group {
    /// Its serial number.
    pub(super) serial: u32,
    /// Where it begins.
    pub(super) at: usize,
    /// Behind the first pages of all streams. A first page after that begins another group.
    pub(super) end: usize,
}

/// The pages of one logical stream; pages of other streams between them are ignored.
#[derive(Clone)]
pub(super) struct Walk<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) group: Group,
    pub(super) at: usize,
    /// Where the last page of any stream begins.
    last: usize,
    pub(super) sequence: Option<u32>,
    /// Pages that are missing or unreadable.
    pub(super) n_lost: u64,
    /// By how much the number of a page was ahead where it did not follow.
    pub(super) n_ahead: u32,
    pub(super) junk: Junk,
}

/// Bytes between pages that are no page.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Junk {
    /// Where the first of it begins.
    first: Option<usize>,
    count: u64,
    /// Since the last page of the stream.
    new: Option<usize>,
}

impl Junk {
    /// Something that is no page begins at `at`.
    pub(super) fn meet(&mut self, at: usize) {
        self.new = self.new.or(Some(at));
    }

    /// A page of the stream follows. Where it is not the next one, pages were lost in between, and
    /// what was met is what is left of them.
    pub(super) fn settle(&mut self, is_next: bool) {
        if let Some(at) = self.new.take().filter(|_| is_next) {
            self.first = self.first.or(Some(at));
            self.count += 1;
        }
    }

    /// How often there was some.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// What that is called where it is an error, if there was some.
    pub(super) fn reason(&self) -> Option<Reason> {
        self.first.map(|first| Reason::Junk { count: self.count, byte: first as u64 })
    }

    /// A note, if there was some.
    pub(super) fn remark(&self, ledger: &mut Ledger) -> Result<(), Reason> {
        self.reason().map_or(Ok(()), |reason| ledger.remark(Note::Junk, self.count, reason))
    }
}

impl<'a> Walk<'a> {
    /// A walk from the page at `at` on, or from the first one.
    pub(super) fn new(bytes: &'a [u8], group: Group, at: Option<usize>) -> Self {
        let at = at.unwrap_or(group.at);
        Self {
            bytes,
            group,
            at,
            last: at,
            sequence: None,
            n_lost: 0,
            n_ahead: 0,
            junk: Junk::default(),
        }
    }

    /// The next page of the stream. Junk is skipped and counted.
    pub(super) fn next(&mut self) -> Result<Page<'a>, NoPage> {
        loop {
            match Page::read(self.bytes, self.at) {
                Ok(page) if page.is_first() && page.offset >= self.group.end => {
                    return Err(NoPage::End);
                }
                Ok(page) => {
                    (self.last, self.at) = (page.offset, page.end());
                    if page.serial != self.group.serial {
                        continue;
                    }
                    let expected = self.sequence.map(|n| n.wrapping_add(1));
                    let is_next = expected.is_none_or(|n| n == page.sequence);
                    if let (false, Some(expected)) = (is_next, expected) {
                        self.n_lost += 1;
                        self.n_ahead = page.sequence.wrapping_sub(expected);
                    }
                    self.junk.settle(is_next);
                    self.sequence = Some(page.sequence);
                    return Ok(page);
                }
                Err(NoPage::Junk) => {
                    // A page whose length is wrong ends anywhere.
                    let last = Page::read(self.bytes, self.last);
                    if last.is_ok_and(|page| page.end() == self.at && !page.is_intact()) {
                        self.n_lost += 1;
                    } else {
                        self.junk.meet(self.at);
                    }
                    self.at = find_capture(self.bytes, self.at).ok_or(NoPage::Junk)?;
                }
                Err(end) => return Err(end),
            }
        }
    }

    /// The first `n` packets. Audio begins on the page after them.
    pub(super) fn headers(&mut self, n: usize) -> Result<Vec<Vec<u8>>, Reason> {
        let broken = |why: &str| Reason::malformed(format!("the header packets {why}"));
        let mut packets = vec![Vec::new()];
        while packets.len() <= n {
            let page = self.next().map_err(|_| broken("are incomplete"))?;
            if !page.is_intact() {
                return Err(broken("have a wrong checksum"));
            }
            for (piece, ends) in page.pieces() {
                if let Some(packet) = packets.last_mut() {
                    memory::extend(packet, piece)?;
                }
                if ends {
                    packets.push(Vec::new());
                }
            }
        }
        match packets.pop() {
            Some(rest) if rest.is_empty() && packets.len() == n => Ok(packets),
            _ => Err(broken("share a page with audio")),
        }
    }

    /// Whether more of the stream follows the page that was read last, which is marked as its end.
    pub(super) fn goes_on(&self) -> bool {
        let Some(sequence) = self.sequence else { return false };
        let mut at = self.at;
        loop {
            match Page::read(self.bytes, at) {
                Ok(page) if page.is_first() => return false,
                Ok(page) if page.continues(self.group.serial, sequence) => return true,
                Ok(page) => at = page.end(),
                Err(NoPage::Junk) => match find_capture(self.bytes, at) {
                    Some(next) => at = next,
                    None => return false,
                },
                Err(_) => return false,
            }
        }
    }

    /// Whether another stream begins behind the end.
    pub(super) fn is_chained(&self) -> bool {
        Page::read(self.bytes, self.at).is_ok_and(|page| page.is_first())
    }

    /// Where the next group begins, once this stream has ended. `decoded` is for the error.
    pub(super) fn next_group(
        mut self,
        decoded: u64,
        ledger: &mut Ledger,
    ) -> Result<Option<usize>, Reason> {
        let mut torn_at = None;
        loop {
            match Page::read(self.bytes, self.at) {
                Ok(page) if page.is_first() => {
                    if let Some(byte) = torn_at {
                        ledger.remark(Note::Junk, 1, Reason::Junk { count: 1, byte })?;
                    }
                    return Ok(Some(page.offset));
                }
                Ok(page) => {
                    // The mark of the end is false; salvage has skipped it.
                    let continues = |last| page.continues(self.group.serial, last);
                    if !ledger.is_lenient() && self.sequence.is_some_and(continues) {
                        return Err(Reason::CorruptPackets { count: 1 });
                    }
                    self.at = page.end();
                }
                // A group that breaks off in its first page; other streams may end as they like.
                Err(NoPage::Cut(_)) if self.bytes.get(self.at + 5).is_none_or(|f| f & 2 != 0) => {
                    let reason = Reason::Truncated { decoded, expected: None };
                    ledger.lose(Damage::Truncated, 1, reason)?;
                    return Ok(None);
                }
                Err(NoPage::End | NoPage::Cut(_)) => return Ok(None),
                Err(NoPage::Junk) => {
                    let Some(at) = find_capture(self.bytes, self.at) else { return Ok(None) };
                    torn_at = torn_at.or(Some(self.at as u64));
                    self.at = at;
                }
            }
        }
    }
}
