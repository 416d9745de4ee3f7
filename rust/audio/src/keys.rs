//! The words for codecs and reasons that programs compare. Public in Python: they never change.

use super::{Codec, Reason};

impl Codec {
    /// The codec in lower case, as `gristmill.AudioInfo.codec` has it.
    pub fn key(self) -> &'static str {
        match self {
            Self::Wav => "wav",
            Self::Aiff => "aiff",
            Self::Caf => "caf",
            Self::Flac => "flac",
            Self::Vorbis => "vorbis",
            Self::Opus => "opus",
            Self::Mp3 => "mp3",
            Self::Mp2 => "mp2",
            Self::Mp1 => "mp1",
            Self::Aac => "aac",
            Self::Alac => "alac",
            Self::Sphere => "sphere",
        }
    }
}

impl Reason {
    /// The reason in a word, as `gristmill.DecodeError.reason` has it.
    pub fn key(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::File { key, .. } => key,
            Self::Empty | Self::NoFrames => "empty",
            Self::UnknownFormat => "unknown_format",
            Self::UnsupportedCodec(_) => "unsupported_codec",
            Self::MalformedHeader(_) => "malformed_header",
            Self::Truncated { .. } => "truncated",
            Self::CorruptPackets { .. } => "corrupt_packets",
            Self::LostPackets { .. } => "lost_packets",
            Self::Junk { .. } => "junk",
            Self::ParamsChanged => "params_changed",
            Self::NonFinite => "non_finite",
            Self::Limit(_) => "limit",
            Self::TooFewChannels { .. } => "too_few_channels",
            Self::DecoderPanic(_) => "decoder_panic",
            Self::Event(_) => "event",
            Self::Missing { .. } => "missing",
            Self::NoSubstitute { .. } => "no_substitute",
            Self::WrongSlot { .. } => "wrong_slot",
            Self::OutOfMemory { .. } => "out_of_memory",
            Self::Cancelled => "cancelled",
        }
    }
}
