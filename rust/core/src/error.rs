//! The error type of the crate: what is wrong, and where.

use std::{fmt, io, sync::Arc};

use gristmill_audio::{DecodeError, Reason};

use crate::shown::{MAX_MESSAGE, MAX_NAME, shown};

/// The result of every fallible operation in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What is wrong ([`ErrorKind`]) and where ([`Position`]).
///
/// Boxed, so that a `Result` stays small on the paths that succeed.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    at: Position,
}

/// The kinds of errors, and what the caller may do about each.
#[non_exhaustive]
#[derive(Debug)]
pub enum ErrorKind {
    /// The operating system refused or failed. Retry, or fix the path or the mount.
    Io(io::Error),
    /// A shard's bytes are invalid in its format. Leave the shard out or write it again.
    Corrupt(String),
    /// A column is missing, or has an unsupported type. Change the options.
    Schema {
        /// The column, as a dotted path; empty where the error is not about one column.
        column: String,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// One row's audio cannot be decoded. Leave the row out.
    Decode(DecodeError),
    /// A limit would be exceeded. Raise the limit, or leave the row out.
    Limit(String),
    /// An allocation failed. Take less at a time, or free memory.
    OutOfMemory {
        /// The size of the allocation.
        bytes: u64,
    },
    /// The options contradict each other or the data. Change the options.
    Config(String),
    /// A worker thread panicked. This is a bug: report it with the message.
    WorkerPanicked(String),
    /// An impossible state. This is a bug: report it with the message.
    Internal(String),
    /// The pipeline was closed. Make a new one.
    Closed,
}

/// Where in the data an error is, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The shard's path.
    pub shard: Option<Arc<str>>,
    /// The row's index in its shard.
    pub row: Option<u64>,
    /// The column of the row's recording, where several are decoded.
    pub column: Option<Arc<str>>,
    /// The index of the IPC message in its shard, the schema being message 0.
    pub message: Option<u64>,
    /// The byte offset in the shard.
    pub byte: Option<u64>,
}

impl Error {
    /// An error of this kind without a position.
    pub fn new(kind: ErrorKind) -> Self {
        Self(Box::new(Inner { kind, at: Position::default() }))
    }

    /// Shorthand for [`ErrorKind::Corrupt`].
    pub fn corrupt(reason: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupt(reason.into()))
    }

    /// Shorthand for [`ErrorKind::Schema`].
    pub fn schema(column: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::new(ErrorKind::Schema { column: column.into(), reason: reason.into() })
    }

    /// Shorthand for [`ErrorKind::Limit`].
    pub fn limit(reason: impl Into<String>) -> Self {
        Self::new(ErrorKind::Limit(reason.into()))
    }

    /// Shorthand for [`ErrorKind::OutOfMemory`].
    pub fn out_of_memory(bytes: usize) -> Self {
        Self::new(ErrorKind::OutOfMemory { bytes: bytes as u64 })
    }

    /// Shorthand for [`ErrorKind::Config`].
    pub fn config(reason: impl Into<String>) -> Self {
        Self::new(ErrorKind::Config(reason.into()))
    }

    /// Shorthand for [`ErrorKind::Internal`].
    pub fn internal(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal(what.into()))
    }

    /// What is wrong.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// Where it is.
    pub fn at(&self) -> &Position {
        &self.0.at
    }

    /// Names the shard, unless an inner layer already did.
    #[must_use]
    pub fn in_shard(mut self, shard: &Arc<str>) -> Self {
        self.0.at.shard.get_or_insert_with(|| Arc::clone(shard));
        self
    }

    /// Names the row, unless an inner layer already did.
    #[must_use]
    pub fn in_row(mut self, row: u64) -> Self {
        self.0.at.row.get_or_insert(row);
        self
    }

    /// Names the column of the row's recording, unless an inner layer already did.
    #[must_use]
    pub fn in_column(mut self, column: &Arc<str>) -> Self {
        self.0.at.column.get_or_insert_with(|| Arc::clone(column));
        self
    }

    /// Names the IPC message, unless an inner layer already did.
    #[must_use]
    pub fn in_message(mut self, message: u64) -> Self {
        self.0.at.message.get_or_insert(message);
        self
    }

    /// Names the byte offset in the shard, unless an inner layer already did.
    #[must_use]
    pub fn at_byte(mut self, byte: u64) -> Self {
        self.0.at.byte.get_or_insert(byte);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { kind, at } = &*self.0;
        let place = at.to_string();
        let message = match (kind, place.is_empty()) {
            (ErrorKind::Decode(e), false) => {
                let codec = e.codec.map_or("audio", |codec| codec.name());
                format!("cannot decode {codec} in {place}: {}", e.reason)
            }
            (_, true) => kind.to_string(),
            (_, false) => format!("{place}: {kind}"),
        };
        // Names of columns, keys and paths may be anything.
        f.write_str(&shown(&message, MAX_MESSAGE))
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(e) => e.fmt(f),
            Self::Corrupt(reason) | Self::Limit(reason) | Self::Config(reason) => {
                f.write_str(reason)
            }
            Self::Schema { column, reason } if column.is_empty() => f.write_str(reason),
            Self::Schema { column, reason } => write!(f, "column '{column}': {reason}"),
            Self::Decode(e) => e.fmt(f),
            Self::OutOfMemory { bytes } => write!(
                f,
                "there is no memory for {bytes} bytes; decode a part at a time, or take fewer or \
                 smaller rows at a time"
            ),
            Self::WorkerPanicked(message) => {
                write!(f, "a worker thread panicked, which is a bug in gristmill: {message}")
            }
            Self::Internal(what) => write!(f, "this is a bug in gristmill: {what}"),
            Self::Closed => f.write_str("the pipeline is closed"),
        }
    }
}

/// `train-0003.arrow, row 812 (message 13, byte 5242880)`, as far as known.
impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outer = [
            self.shard.as_deref().map(|shard| shown(shard, MAX_NAME).into_owned()),
            self.row.map(|r| format!("row {r}")),
            self.column.as_ref().map(|column| format!("column '{column}'")),
        ];
        let inner =
            [self.message.map(|m| format!("message {m}")), self.byte.map(|b| format!("byte {b}"))];
        let outer: Vec<_> = outer.into_iter().flatten().collect();
        let inner: Vec<_> = inner.into_iter().flatten().collect();
        f.write_str(&outer.join(", "))?;
        match (outer.is_empty(), inner.is_empty()) {
            (_, true) => Ok(()),
            (true, false) => f.write_str(&inner.join(", ")),
            (false, false) => write!(f, " ({})", inner.join(", ")),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self.kind() {
            ErrorKind::Io(e) => Some(e),
            ErrorKind::Decode(e) => Some(e),
            _ => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(e: io::Error) -> Self {
        Self::new(ErrorKind::Io(e))
    }
}

impl From<DecodeError> for Error {
    fn from(e: DecodeError) -> Self {
        // A lack of memory is not the row's fault.
        if let Reason::OutOfMemory { bytes } = e.reason {
            return Self::new(ErrorKind::OutOfMemory { bytes });
        }
        Self::new(ErrorKind::Decode(e))
    }
}
