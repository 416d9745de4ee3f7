//! What a server sends for a range.

use std::{io, pin::Pin};

use bytes::Bytes;
use futures_util::{Stream, TryStreamExt};
use reqwest::Response;

use super::failure;
use crate::store::FileVersion;

/// The beginning of an answer: its bytes come by [`Answer::fill`].
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) version: FileVersion,
    /// Bytes of the range that the server says it sends.
    pub(super) n_bytes: u64,
    pub(super) body: Body,
}

/// The bytes that follow.
pub(super) enum Body {
    Empty,
    Http(Response),
    Object(Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>),
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Body")
    }
}

impl Body {
    async fn chunk(&mut self) -> io::Result<Option<Bytes>> {
        match self {
            Self::Empty => Ok(None),
            Self::Http(response) => {
                response.chunk().await.map_err(|error| failure::of_request(&error))
            }
            Self::Object(stream) => stream.try_next().await,
        }
    }
}

impl Answer {
    /// Reads what the server said that it would send, `buf` at most, and counts it in `done`.
    ///
    /// # Errors
    ///
    /// Where the connection breaks or ends before that.
    pub(super) async fn fill(&mut self, buf: &mut [u8], done: &mut usize) -> io::Result<()> {
        let wanted = usize::try_from(self.n_bytes).unwrap_or(usize::MAX).min(buf.len());
        while *done < wanted {
            let chunk = self.body.chunk().await?;
            let Some(chunk) = chunk else {
                return Err(failure::cut_short());
            };
            // Bytes beyond the range are left.
            let into = buf.get_mut(*done..wanted).unwrap_or_default();
            let n = chunk.len().min(into.len());
            if let (Some(into), Some(chunk)) = (into.get_mut(..n), chunk.get(..n)) {
                into.copy_from_slice(chunk);
            }
            *done += n;
        }
        Ok(())
    }
}
