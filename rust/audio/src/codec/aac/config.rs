//! `AudioSpecificConfig`, ISO/IEC 14496-3 section 1.6.2.1: what kind of AAC a track holds.

use crate::{bits::BitReader, error::Reason};

pub(crate) const RATES_HZ: [u32; 13] = [
    96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000,
    7_350,
];

/// A stream of AAC-LC, the only kind that is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Config {
    pub(crate) rate_hz: u32,
    pub(crate) n_channels: u16,
}

impl Config {
    /// Reads the configuration and refuses everything but AAC-LC of one or two channels.
    ///
    /// HE-AAC may be told by its object type, or by an extension behind a configuration of AAC-LC
    /// that older decoders do not see. Its third form, without any mark, is found in the packets.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Reason> {
        let cut = || Reason::malformed("the AAC configuration is cut");
        Self::parse(&mut BitReader::new(bytes)).ok_or_else(cut)?
    }

    /// `None` where the bits end too early.
    fn parse(bits: &mut BitReader<'_>) -> Option<Result<Self, Reason>> {
        let object = object_type(bits)?;
        let rate_hz = rate(bits)?;
        let n_channels = bits.read(4)?;
        if object != LC {
            return Some(Err(Reason::UnsupportedCodec(name(object))));
        }
        let is_960 = bits.read(1)? == 1;
        if bits.read(1)? == 1 {
            bits.read(14)?; // delay of the core coder
        }
        bits.read(1)?;
        if has_extension(*bits) {
            return Some(Err(Reason::UnsupportedCodec(name(SBR))));
        }
        Some(Self::checked(rate_hz, n_channels, is_960))
    }

    /// The stream with this rate and channel configuration, if it is decoded here.
    pub(crate) fn checked(rate_hz: u32, channels: u32, is_960: bool) -> Result<Self, Reason> {
        let unsupported = |what: &str| Err(Reason::UnsupportedCodec(what.to_owned()));
        match channels {
            _ if is_960 => unsupported("AAC with 960 frames a packet"),
            0 => unsupported("AAC with a channel layout of its own"),
            1 | 2 => Ok(Self { rate_hz, n_channels: channels as u16 }),
            3..=6 => unsupported(&format!("AAC of {channels} channels")),
            7 | 11..=14 => unsupported("AAC of more than 6 channels"),
            _ => Err(Reason::malformed(format!("AAC channel configuration {channels}"))),
        }
    }
}

const LC: u32 = 2;
const SBR: u32 = 5;

fn object_type(bits: &mut BitReader<'_>) -> Option<u32> {
    match bits.read(5)? {
        31 => Some(32 + bits.read(6)?),
        object => Some(object),
    }
}

fn rate(bits: &mut BitReader<'_>) -> Option<u32> {
    match bits.read(4)? {
        15 => bits.read(24),
        index => RATES_HZ.get(index as usize).copied(),
    }
}

/// Whether an extension says that spectral band replication is there. Some writers put bits
/// between it and the configuration, so it is looked for, as `FFmpeg` does.
fn has_extension(mut bits: BitReader<'_>) -> bool {
    while bits.left() >= 17 {
        let mut ahead = bits;
        if ahead.read(11) == Some(0x2B7) {
            let object = object_type(&mut ahead);
            return matches!(object, Some(SBR | 22)) && ahead.read(1) == Some(1);
        }
        bits.read(1);
    }
    false
}

/// What users call an object type.
fn name(object: u32) -> String {
    let name = match object {
        1 => "AAC Main",
        3 => "AAC-SSR",
        4 => "AAC-LTP",
        5 => "HE-AAC",
        17 | 19 | 20 => "error resilient AAC",
        22 => "BSAC",
        23 => "AAC-LD",
        29 => "HE-AAC v2",
        34 => "MP3 in MP4",
        36 => "MPEG-4 ALS",
        39 => "AAC-ELD",
        42 => "xHE-AAC",
        _ => return format!("MPEG-4 audio of object type {object}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refused(bytes: &[u8]) -> String {
        match Config::read(bytes) {
            Err(Reason::UnsupportedCodec(name)) => name,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_lc_is_read() {
        let stereo = Config { rate_hz: 44_100, n_channels: 2 };
        assert_eq!(Config::read(&[0x12, 0x10]), Ok(stereo));
        // The extension says that there is no band replication.
        assert_eq!(Config::read(&[0x12, 0x10, 0x56, 0xE5, 0x00]), Ok(stereo));
        // An explicit rate of 44 099 Hz.
        let explicit = [0x17, 0x80, 0x56, 0x21, 0x88];
        assert_eq!(Config::read(&explicit), Ok(Config { rate_hz: 44_099, n_channels: 1 }));
        assert!(matches!(Config::read(&[0x12]), Err(Reason::MalformedHeader(_))));
        assert!(matches!(Config::read(&[]), Err(Reason::MalformedHeader(_))));
    }

    #[test]
    fn relatives_are_refused_by_name() {
        assert_eq!(refused(&[0x2B, 0x92, 0x08, 0x00]), "HE-AAC"); // object type 5
        assert_eq!(refused(&[0xEB, 0x8A, 0x08, 0x00]), "HE-AAC v2"); // object type 29
        assert_eq!(refused(&[0x13, 0x90, 0x56, 0xE5, 0xA0]), "HE-AAC"); // extension
        assert_eq!(refused(&[0xF9, 0x48, 0x40, 0x00]), "xHE-AAC"); // object type 42
        assert_eq!(refused(&[0x0A, 0x10]), "AAC Main");
        assert_eq!(refused(&[0x12, 0x14]), "AAC with 960 frames a packet");
        assert_eq!(refused(&[0x12, 0x30]), "AAC of 6 channels");
        assert_eq!(refused(&[0x12, 0x00]), "AAC with a channel layout of its own");
    }

    proptest! {
        #[test]
        fn hostile_bytes_end_in_a_result(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(config) = Config::read(&bytes) {
                prop_assert!((1..=2).contains(&config.n_channels));
            }
        }
    }
}
