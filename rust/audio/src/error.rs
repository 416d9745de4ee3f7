//! Why one row's audio cannot be used.

use std::fmt;

use crate::names::Codec;

/// One row's audio cannot be decoded: what it claimed to be, and why not.
#[derive(Clone, Debug, PartialEq)]
pub struct DecodeError {
    /// The codec, once the header told it.
    pub codec: Option<Codec>,
    /// Why decoding failed.
    pub reason: Reason,
}

/// The reasons, each a state of the row's bytes. Leaving the row out is always a remedy.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// The value is null.
    Null,
    /// The recording is a file of its own, which cannot be used.
    File {
        /// Why, in a word for programs.
        key: &'static str,
        /// The same for people, with the file.
        why: String,
    },
    /// There are no bytes.
    Empty,
    /// There is a recording without a frame.
    NoFrames,
    /// No known format begins like this.
    UnknownFormat,
    /// A known format that is not decoded here.
    UnsupportedCodec(String),
    /// The header does not parse.
    MalformedHeader(String),
    /// Fewer frames came than the headers promise, or the stream lacks its end.
    Truncated {
        /// Frames that could be decoded.
        decoded: u64,
        /// Frames that the headers promise, where they do.
        expected: Option<u64>,
    },
    /// Packets in the middle did not decode.
    CorruptPackets {
        /// How many.
        count: u64,
    },
    /// Packets are missing between others.
    LostPackets {
        /// In how many places.
        count: u64,
    },
    /// Something else is between packets, of which none is missing.
    Junk {
        /// In how many places.
        count: u64,
        /// Where the first of them begins in the recording.
        byte: u64,
    },
    /// Rate or channel count changes in mid-stream.
    ParamsChanged,
    /// NaN or infinite samples came out.
    NonFinite,
    /// A limit was exceeded.
    Limit(Box<Exceeded>),
    /// The file has fewer channels than wanted, and is not mono. Ask for fewer channels.
    TooFewChannels {
        /// Channels in the file.
        found: u16,
        /// Channels asked for.
        wanted: u16,
    },
    /// The decoder panicked on these bytes.
    DecoderPanic(String),
    /// The slot does not have the planned length. This is a bug of the caller, not of the row.
    WrongSlot {
        /// Samples planned.
        expected: usize,
        /// Samples in the slot.
        found: usize,
    },
    /// The row's event has no place in its recording, or its columns tell none.
    Event(String),
    /// More of what was asked for could not be decoded than the caller puts up with.
    Missing {
        /// Frames that could not be decoded.
        missing: u64,
        /// Frames that were asked for.
        wanted: u64,
    },
    /// None of the rows that were tried in this one's place could be used either.
    NoSubstitute {
        /// What is wrong with this row.
        of: Box<Reason>,
        /// How many others were tried.
        tried: usize,
    },
    /// The system has not the memory that was asked for. Nothing is known about the row.
    OutOfMemory {
        /// What was asked for, in one piece.
        bytes: u64,
    },
    /// The cancel flag was set. Nothing is known about the row.
    Cancelled,
}

/// A limit that was exceeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// The option that holds it.
    pub limit: &'static str,
    /// What was found, and what is allowed.
    pub what: String,
    /// What can be done about it, besides leaving the row out.
    pub remedy: Remedy,
}

/// How a limit is raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// As a field of [`Limits`](super::Limits).
    Limits,
    /// As an option of the pipeline.
    ReadOptions,
    /// It is as high as it can be.
    None,
}

impl Exceeded {
    /// A limit that the caller may raise.
    pub(super) fn adjustable(limit: &'static str, what: impl Into<String>) -> Reason {
        Reason::Limit(Box::new(Self { limit, what: what.into(), remedy: Remedy::Limits }))
    }

    /// A limit that is as high as it can be.
    pub(super) fn fixed(limit: &'static str, what: impl Into<String>) -> Reason {
        Reason::Limit(Box::new(Self { limit, what: what.into(), remedy: Remedy::None }))
    }
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limit, what, remedy } = self;
        let options = match remedy {
            Remedy::None => return write!(f, "{what}; exclude the row"),
            Remedy::Limits => "Limits",
            Remedy::ReadOptions => "ReadOptions",
        };
        write!(f, "{what}; raise it with {options}({limit}=...) or exclude the row")
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("the audio is null; exclude the row"),
            Self::File { why, .. } => f.write_str(why),
            Self::Empty => f.write_str("there are no bytes; exclude the row"),
            Self::NoFrames => f.write_str("the recording has no frame; exclude the row"),
            Self::UnknownFormat => {
                f.write_str("the bytes are no known audio format; exclude the row")
            }
            Self::UnsupportedCodec(what) => write!(f, "{what} is not supported; exclude the row"),
            Self::MalformedHeader(why) => write!(f, "the header is malformed ({why})"),
            Self::Truncated { decoded, expected: Some(expected) } => write!(
                f,
                "truncated: {decoded} frames could be decoded where the headers promise \
                 {expected}; write the row again or exclude it"
            ),
            Self::Truncated { decoded, expected: None } => write!(
                f,
                "truncated: the stream breaks off after {decoded} frames; write the row again or \
                 exclude it"
            ),
            Self::CorruptPackets { count } => {
                write!(f, "{count} packets are corrupt; write the row again or exclude it")
            }
            Self::LostPackets { count } => {
                write!(
                    f,
                    "packets are missing in {count} places; write the row again or exclude it"
                )
            }
            Self::Junk { count, byte } => write!(
                f,
                "bytes that are not audio are between packets, the first at byte {byte} ({count} in \
                 all); write the row again, exclude it, or set strict=False"
            ),
            Self::ParamsChanged => f.write_str("rate or channels change in mid-stream"),
            Self::NonFinite => f.write_str("samples are not finite; exclude the row"),
            Self::Limit(exceeded) => exceeded.fmt(f),
            Self::DecoderPanic(message) => {
                write!(f, "the decoder panicked ({message}); exclude the row and report it")
            }
            Self::TooFewChannels { found, wanted } => {
                write!(f, "{wanted} channels are needed, and the recording has {found}")
            }
            Self::WrongSlot { expected, found } => write!(
                f,
                "{expected} samples were planned and the slot has {found}: a bug in gristmill"
            ),
            Self::Event(why) => write!(f, "{why}; repair its event columns or exclude the row"),
            Self::Missing { missing, wanted } => write!(
                f,
                "{missing} of {wanted} frames could not be decoded, which is more than max_missing \
                 allows; raise it or exclude the row"
            ),
            Self::NoSubstitute { of, tried: 0 } => {
                write!(f, "{of}; and there is no other row to deliver instead")
            }
            Self::NoSubstitute { of, tried } => write!(
                f,
                "{of}; and none of the {tried} rows tried in its place can be used either: leave \
                 the shard out, or set on_error=\"mask\""
            ),
            Self::OutOfMemory { bytes } => write!(f, "there is no memory for {bytes} bytes"),
            Self::Cancelled => f.write_str("decoding was cancelled"),
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let codec = self.codec.map_or("audio", Codec::name);
        write!(f, "cannot decode {codec}: {}", self.reason)
    }
}

impl std::error::Error for DecodeError {}

impl Reason {
    /// The reason in a word, as `gristmill.DecodeError.reason` has it. Programs compare
    /// it, so it never changes.
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

    /// Whether it is about the row's bytes, and not about how decoding was called.
    pub fn is_of_row(&self) -> bool {
        !matches!(self, Self::Cancelled | Self::OutOfMemory { .. } | Self::WrongSlot { .. })
    }

    /// Whether the recording's bytes alone decide it: no limit, nothing that was asked for, and nothing
    /// that may be different another time.
    pub fn is_of_bytes(&self) -> bool {
        self.is_damage()
            || matches!(
                self,
                Self::Empty | Self::NoFrames | Self::UnknownFormat | Self::UnsupportedCodec(_)
            )
    }

    /// Whether something may be left of the recording all the same.
    pub(super) fn is_damage(&self) -> bool {
        matches!(
            self,
            Self::Truncated { .. }
                | Self::CorruptPackets { .. }
                | Self::LostPackets { .. }
                | Self::Junk { .. }
                | Self::MalformedHeader(_)
                | Self::ParamsChanged
                | Self::NonFinite
                | Self::DecoderPanic(_)
        )
    }

    /// This reason, for a row of this codec.
    pub fn of(self, codec: Codec) -> DecodeError {
        DecodeError { codec: Some(codec), reason: self }
    }

    /// This reason, before any codec is known.
    pub fn of_unknown(self) -> DecodeError {
        DecodeError { codec: None, reason: self }
    }

    /// Shorthand for [`Reason::File`].
    pub fn file(key: &'static str, why: impl Into<String>) -> Self {
        Self::File { key, why: why.into() }
    }

    /// Shorthand for [`Reason::MalformedHeader`].
    pub(crate) fn malformed(why: impl Into<String>) -> Self {
        Self::MalformedHeader(why.into())
    }
}
