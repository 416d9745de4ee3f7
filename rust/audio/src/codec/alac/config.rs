//! The magic cookie: what a decoder must know before the first packet.

use crate::{
    bytes::{be_u32, u8_at},
    error::Reason,
    stream::limited,
};

/// The parts of the cookie that decoding needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Config {
    pub(crate) rate_hz: u32,
    pub(crate) n_channels: u16,
    /// Frames in each packet but the last; the most that one may have.
    pub(crate) frame_len: u32,
    /// Of a sample, 1 to 32.
    pub(super) bits: u32,
    /// The mean that a packet's Golomb code begins with.
    pub(super) mean: u32,
    /// How fast that mean follows, in quarters of what a packet says.
    pub(super) pace: u32,
    /// The greatest parameter of the code.
    pub(super) max_k: u32,
}

/// Tags of Core Audio's layouts for 1 to 8 channels. None other can be coded.
const LAYOUTS: [u32; 8] = [100, 101, 113, 116, 120, 124, 142, 127];

impl Config {
    /// Reads the cookie. A channel layout may follow it.
    pub(crate) fn read(cookie: &[u8]) -> Result<Self, Reason> {
        let parts = || {
            let byte = |at| u8_at(cookie, at).map(u32::from);
            Some((
                be_u32(cookie, 0)?,
                [byte(4)?, byte(5)?, byte(6)?, byte(7)?, byte(8)?, byte(9)?],
                be_u32(cookie, 20)?,
            ))
        };
        let Some((frame_len, [version, bits, pace, mean, max_k, n_channels], rate_hz)) = parts()
        else {
            return Err(Reason::malformed("the ALAC cookie is too short"));
        };
        if !(1..=65_536).contains(&frame_len) {
            return Err(Reason::malformed(format!("{frame_len} frames in an ALAC packet")));
        }
        let n_channels = limited(n_channels)?;
        if version > 0 {
            return Err(Reason::UnsupportedCodec(format!("ALAC of version {version}")));
        }
        if !(1..=32).contains(&bits) {
            return Err(Reason::malformed(format!("{bits} bits in a sample of ALAC")));
        }
        if cookie.len() >= 48 {
            let tag = cookie.get(24..32) == Some(b"\0\0\0\x18chan");
            let tag = be_u32(cookie, 36).filter(|_| tag);
            let tag = tag.ok_or_else(|| Reason::malformed("no channel layout ends the cookie"))?;
            let known = LAYOUTS.get(usize::from(n_channels) - 1).map(|kind| kind << 16);
            if known != Some(tag ^ u32::from(n_channels)) {
                let what = format!("ALAC of {n_channels} channels with layout {tag:#x}");
                return Err(Reason::UnsupportedCodec(what));
            }
        }
        Ok(Self { rate_hz, n_channels, frame_len, bits, mean, pace, max_k })
    }
}

impl Config {
    /// A cookie that says the same.
    pub(super) fn cookie(&self) -> Vec<u8> {
        let Self { rate_hz, n_channels, frame_len, bits, mean, pace, max_k } = *self;
        let mut cookie = frame_len.to_be_bytes().to_vec();
        cookie.push(0);
        cookie.extend([bits, pace, mean, max_k, n_channels.into()].map(|n: u32| n as u8));
        cookie.extend([0; 10]); // lengths and rates of packets, which play no part
        cookie.extend(rate_hz.to_be_bytes());
        cookie
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cookie(n_channels: u8) -> Vec<u8> {
        let mut cookie = vec![0, 0, 16, 0, 0, 24, 40, 10, 14, n_channels, 0, 255];
        cookie.extend([0; 8]);
        cookie.extend(48_000u32.to_be_bytes());
        cookie
    }

    #[test]
    fn a_cookie_is_read_or_refused_by_name() {
        let found = Config::read(&cookie(6)).unwrap();
        assert_eq!((found.rate_hz, found.n_channels, found.frame_len), (48_000, 6, 4096));
        assert_eq!((found.bits, found.pace, found.mean, found.max_k), (24, 40, 10, 14));
        let mut with_layout = cookie(6);
        with_layout.extend(b"\0\0\0\x18chan\0\0\0\0\0\x7c\0\x06\0\0\0\0\0\0\0\0");
        assert_eq!(Config::read(&with_layout), Ok(found));
        let refused = |at: usize, value: u8| {
            let mut cookie = with_layout.clone();
            cookie[at] = value;
            Config::read(&cookie).unwrap_err()
        };
        assert!(
            matches!(refused(4, 1), Reason::UnsupportedCodec(what) if what.contains("version 1"))
        );
        assert!(matches!(refused(37, 0x7b), Reason::UnsupportedCodec(_)));
        assert!(matches!(refused(9, 5), Reason::UnsupportedCodec(_)));
        for (at, value) in [(5, 0), (5, 33), (0, 1), (2, 0), (28, b'x'), (24, 1)] {
            assert!(matches!(refused(at, value), Reason::MalformedHeader(_)), "byte {at}");
        }
        assert!(Config::read(&cookie(0)).is_err() && Config::read(&cookie(9)).is_err());
        for n in 0..24 {
            assert!(Config::read(&with_layout[..n]).is_err());
        }
    }
}
