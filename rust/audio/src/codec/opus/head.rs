//! The identification header, RFC 7845 section 5.1, and the lengths of packets.

use std::f64::consts::LOG2_10;

use crate::{
    bytes::{be_u16, from, le_u16, u8_at},
    error::{Exceeded, Reason},
    limits::MAX_CHANNELS,
    trig::exp2,
};

/// What the header says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Head {
    pub(crate) n_channels: u16,
    /// Decoded frames before the first playable one.
    pub(crate) pre_skip: u64,
    /// What every sample is multiplied by.
    pub(super) gain: f32,
    /// Whether a packet holds several streams.
    pub(crate) is_surround: bool,
    pub(super) mapping: Mapping,
}

/// Which channels of which streams are those of the recording, RFC 7845 section 5.1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) n_streams: usize,
    /// So many of the first streams are stereo.
    pub(super) n_coupled: usize,
    /// Of each channel, the decoded channel that it is, or [`SILENT`].
    of_channel: [u8; MAX_CHANNELS as usize],
    /// Whether channels have no meaning, and so no order but that of the stream.
    pub(super) is_discrete: bool,
}

/// A channel that no stream has.
const SILENT: u8 = 255;

impl Mapping {
    /// The decoded channel that a channel is; `None` if it is silent.
    pub(super) fn source(&self, channel: usize) -> Option<usize> {
        self.of_channel.get(channel).filter(|&&from| from != SILENT).map(|&from| usize::from(from))
    }
}

impl Head {
    /// Reads the header packet.
    ///
    /// # Errors
    /// It does not parse, or its channels are mapped in a way that is not decoded here.
    pub(crate) fn read(packet: &[u8]) -> Result<Self, Reason> {
        if !packet.starts_with(b"OpusHead") {
            return Err(Reason::malformed("the Opus header is missing"));
        }
        let version = u8_at(packet, 8).ok_or_else(short)?;
        if version >> 4 != 0 {
            return Err(Reason::UnsupportedCodec(format!("version {version} of Opus")));
        }
        let fields = || {
            Some(Fields {
                n_channels: u8_at(packet, 9)?,
                pre_skip: le_u16(packet, 10)?,
                // Between them the rate of the original, which plays no part.
                gain: le_u16(packet, 16)?.cast_signed(),
                family: u8_at(packet, 18)?,
                table: from(packet, 19),
            })
        };
        fields().ok_or_else(short)?.head()
    }

    /// Reads the `dOps` box of MP4: the same fields, big-endian, behind a version of its own.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub(crate) fn read_specific(body: &[u8]) -> Result<Self, Reason> {
        if u8_at(body, 0).is_some_and(|version| version != 0) {
            return Err(Reason::UnsupportedCodec("another version of Opus in MP4".to_owned()));
        }
        let fields = || {
            Some(Fields {
                n_channels: u8_at(body, 1)?,
                pre_skip: be_u16(body, 2)?,
                gain: be_u16(body, 8)?.cast_signed(),
                family: u8_at(body, 10)?,
                table: from(body, 11),
            })
        };
        fields().ok_or_else(short)?.head()
    }
}

/// The fields of a header, wherever it stands.
struct Fields<'a> {
    n_channels: u8,
    pre_skip: u16,
    gain: i16,
    family: u8,
    /// Streams, coupled streams and the mapping, if the family is not 0.
    table: &'a [u8],
}

impl Fields<'_> {
    fn head(&self) -> Result<Head, Reason> {
        let Self { n_channels, pre_skip, gain, family, .. } = *self;
        if family > 1 && family != DISCRETE {
            return Err(Reason::UnsupportedCodec(format!("Opus with mapping family {family}")));
        }
        if n_channels == 0 || u16::from(n_channels) > MAX_CHANNELS {
            return Err(Exceeded::channels(n_channels, MAX_CHANNELS));
        }
        if family == 0 && n_channels > 2 {
            return Err(Reason::malformed("Opus of mapping family 0 has one or two channels"));
        }
        let mapping = if family == 0 {
            let of_channel = std::array::from_fn(|channel| channel as u8);
            let n_coupled = usize::from(n_channels) - 1;
            Mapping { n_streams: 1, n_coupled, of_channel, is_discrete: false }
        } else {
            self.mapping()?
        };
        Ok(Head {
            n_channels: u16::from(n_channels),
            pre_skip: u64::from(pre_skip),
            // 8 bits of the gain in decibels are behind the point.
            gain: exp2(f64::from(gain) * LOG2_10 / (20.0 * 256.0)) as f32,
            is_surround: mapping.n_streams > 1,
            mapping,
        })
    }

    /// The table of the other families. Whatever it says is decoded, if there are such streams.
    fn mapping(&self) -> Result<Mapping, Reason> {
        let n_streams = usize::from(u8_at(self.table, 0).ok_or_else(short)?);
        let n_coupled = usize::from(u8_at(self.table, 1).ok_or_else(short)?);
        let n_channels = usize::from(self.n_channels);
        let table = from(self.table, 2).get(..n_channels).ok_or_else(short)?;
        if n_streams > usize::from(MAX_CHANNELS) {
            return Err(Reason::UnsupportedCodec(format!("Opus of {n_streams} streams")));
        }
        let n_decoded = n_streams + n_coupled;
        let is_right = n_streams > 0
            && n_coupled <= n_streams
            && table.iter().all(|&from| from == SILENT || usize::from(from) < n_decoded);
        if !is_right {
            return Err(Reason::malformed("the channel mapping of Opus contradicts itself"));
        }
        let mut of_channel = [SILENT; MAX_CHANNELS as usize];
        of_channel.iter_mut().zip(table).for_each(|(to, &from)| *to = from);
        Ok(Mapping { n_streams, n_coupled, of_channel, is_discrete: self.family == DISCRETE })
    }
}

/// The mapping family of channels without a meaning.
const DISCRETE: u8 = 255;

fn short() -> Reason {
    Reason::malformed("the Opus header is too short")
}

/// Frames that a packet decodes to, RFC 6716 section 3.1; `None` if it is no packet.
///
/// Only its first two bytes are looked at.
pub(crate) fn packet_len(packet: &[u8]) -> Option<u32> {
    let toc = u8_at(packet, 0)?;
    let config = u32::from(toc >> 3);
    let frame_len = match config {
        0..12 => [480, 960, 1920, 2880].get(config as usize % 4).copied()?,
        12..16 => 480 << (config & 1),
        _ => 120 << (config & 3),
    };
    let n_frames = match toc & 3 {
        0 => 1,
        1 | 2 => 2,
        _ => u32::from(u8_at(packet, 1)? & 63),
    };
    let len = frame_len * n_frames;
    (1..=5760).contains(&len).then_some(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(n_channels: u8, gain: i16, family: u8, table: &[u8]) -> Vec<u8> {
        let mut head = b"OpusHead\x01".to_vec();
        head.push(n_channels);
        head.extend(312u16.to_le_bytes());
        head.extend(44_100u32.to_le_bytes());
        head.extend(gain.to_le_bytes());
        head.push(family);
        head.extend(table);
        head
    }

    #[test]
    fn headers_are_read() {
        let stereo = Head::read(&head(2, 0, 0, &[])).unwrap();
        assert_eq!((stereo.n_channels, stereo.pre_skip, stereo.is_surround), (2, 312, false));
        assert!((stereo.gain - 1.0).abs() < f32::EPSILON);
        let louder = Head::read(&head(1, 6 * 256, 0, &[])).unwrap();
        assert!((louder.gain - 1.995_262).abs() < 1e-6);
        let surround = Head::read(&head(6, 0, 1, &[4, 2, 0, 4, 1, 2, 3, 5])).unwrap();
        assert!(surround.is_surround);
        assert!(!Head::read(&head(2, 0, 1, &[1, 1, 0, 1])).unwrap().is_surround);
        // Two streams of one channel, one of which is left out, and one that plays twice.
        let sources = |table: &[u8]| {
            let mapping = Head::read(&head(2, 0, 255, table)).unwrap().mapping;
            (mapping.n_streams, mapping.source(0), mapping.source(1))
        };
        assert_eq!(sources(&[2, 0, 1, 0]), (2, Some(1), Some(0)));
        assert_eq!(sources(&[2, 0, 1, 255]), (2, Some(1), None));
        assert_eq!(sources(&[1, 0, 0, 0]), (1, Some(0), Some(0)));
    }

    #[test]
    fn mp4_has_the_same_fields_the_other_way_round() {
        for family in [&[0][..], &[1, 4, 2, 0, 4, 1, 2, 3, 5]] {
            let (family, table) = family.split_first().unwrap();
            let n_channels = if *family == 0 { 2 } else { 6 };
            let ogg = Head::read(&head(n_channels, -300, *family, table)).unwrap();
            let mut body = vec![0, n_channels];
            body.extend(312u16.to_be_bytes());
            body.extend(44_100u32.to_be_bytes());
            body.extend((-300i16).to_be_bytes());
            body.push(*family);
            body.extend(table);
            assert_eq!(Head::read_specific(&body), Ok(ogg));
        }
        assert!(matches!(Head::read_specific(&[0; 10]), Err(Reason::MalformedHeader(_))));
        assert!(matches!(Head::read_specific(&[1; 11]), Err(Reason::UnsupportedCodec(_))));
    }

    #[test]
    fn what_is_not_decoded_is_refused() {
        let refused = |packet: &[u8]| Head::read(packet).unwrap_err();
        assert!(matches!(refused(b"OpusHead"), Reason::MalformedHeader(_)));
        assert!(matches!(refused(&head(3, 0, 0, &[])), Reason::MalformedHeader(_)));
        assert!(matches!(refused(&head(0, 0, 0, &[])), Reason::Limit(_)));
        assert!(matches!(refused(&head(2, 0, 1, &[1])), Reason::MalformedHeader(_)));
        for packet in [head(4, 0, 2, &[4, 0, 0, 1, 2, 3]), head(1, 0, 255, &[9, 0, 0])] {
            assert!(matches!(refused(&packet), Reason::UnsupportedCodec(_)));
        }
        for table in [[2, 0, 0, 2], [0, 0, 0, 0], [1, 2, 0, 1]] {
            assert!(matches!(refused(&head(2, 0, 255, &table)), Reason::MalformedHeader(_)));
        }
        let mut other = head(2, 0, 0, &[]);
        other[8] = 0x10;
        assert!(matches!(refused(&other), Reason::UnsupportedCodec(_)));
    }

    #[test]
    fn lengths_of_packets_agree_with_the_decoder() {
        for toc in 0..=255u8 {
            for count in 0..=255u8 {
                let ours = packet_len(&[toc, count, 0]);
                let theirs = opus_pure::packet::samples_48k(&[toc, count, 0]).ok();
                assert_eq!(ours.map(|n| n as usize), theirs, "{toc:#x} {count}");
            }
        }
        assert_eq!(packet_len(&[]), None);
        assert_eq!(packet_len(&[3]), None);
    }
}
