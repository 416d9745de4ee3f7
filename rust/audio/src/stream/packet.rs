//! One packet of a track.

/// Where a packet is in the file, and which frames it decodes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) offset: usize,
    pub(crate) len: u32,
    pub(crate) n_frames: u32,
    /// Frames at its end that are not played.
    pub(crate) n_trimmed: u32,
    /// Frames before it.
    pub(crate) start: u64,
}

impl Packet {
    /// Frames before the next packet, if none is lost.
    pub(crate) fn end(&self) -> u64 {
        self.start + u64::from(self.n_frames)
    }

    /// Its bytes, if they are all there.
    pub(crate) fn data<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        bytes.get(self.offset..self.offset.checked_add(self.len as usize)?)
    }
}
