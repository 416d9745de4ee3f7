//! The Xing, Info and VBRI headers that encoders hide in the first frame.

use crate::{
    bytes::{be_u32, from},
    codec::mp3::header::Header,
};

/// Frames that a decoder is late by, which `LAME`'s delay does not count.
const DECODER_DELAY: u64 = 529;

/// What the first frame says of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tag {
    /// MPEG frames that follow.
    pub(super) n_mpeg_frames: Option<u64>,
    /// Bytes of the stream, with those of the tag's own frame.
    pub(super) n_bytes: Option<u64>,
    /// PCM frames to drop at the start and at the end, where the encoder told.
    pub(super) trim: Option<(u64, u64)>,
}

impl Tag {
    /// The tag in this first frame; `None` if it is a frame like any other.
    pub(super) fn read(frame: &[u8], header: &Header) -> Option<Self> {
        // Writers disagree on whether a CRC shifts the tag.
        let plain = 4 + header.side_info_len();
        [plain, plain + 2].into_iter().find_map(|at| Self::xing(from(frame, at))).or_else(|| {
            let vbri = from(frame, 36);
            vbri.starts_with(b"VBRI").then(|| Self {
                n_mpeg_frames: be_u32(vbri, 14).filter(|&n| n > 0).map(u64::from),
                n_bytes: be_u32(vbri, 10).map(u64::from),
                trim: None,
            })
        })
    }

    fn xing(tag: &[u8]) -> Option<Self> {
        if !(tag.starts_with(b"Xing") || tag.starts_with(b"Info")) {
            return None;
        }
        let flags = be_u32(tag, 4)?;
        let mut at = 8;
        let mut n_mpeg_frames = None;
        if flags & 1 != 0 {
            n_mpeg_frames = be_u32(tag, at).filter(|&n| n > 0).map(u64::from);
            at += 4;
        }
        let n_bytes = be_u32(tag, at).filter(|_| flags & 2 != 0).map(u64::from);
        at += if flags & 2 != 0 { 4 } else { 0 };
        at += if flags & 4 != 0 { 100 } else { 0 };
        at += if flags & 8 != 0 { 4 } else { 0 };
        let lame = from(tag, at);
        let trim = [&b"LAME"[..], b"Lavf", b"Lavc", b"L3.99"]
            .iter()
            .any(|name| lame.starts_with(name))
            .then(|| be_u32(lame, 20))
            .flatten()
            .map(|word| {
                let (delay, padding) = (u64::from(word >> 12 & 0xFFF), u64::from(word & 0xFFF));
                (delay + DECODER_DELAY, padding.saturating_sub(DECODER_DELAY))
            });
        Some(Self { n_mpeg_frames, n_bytes, trim })
    }
}
