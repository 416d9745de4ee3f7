//! Files of servers that speak HTTP, one request a range.

use std::{
    io::{self, ErrorKind},
    ops::Range,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use reqwest::{
    Client, Response, StatusCode, Url,
    header::{CONTENT_ENCODING, CONTENT_RANGE, ETAG, HeaderMap, LAST_MODIFIED, RANGE},
};

use super::{
    content_range::{ContentRange, len_without_range},
    failure,
};
use crate::{hash, store::FileVersion};

/// A file by its URL.
#[derive(Debug)]
pub(super) struct HttpFile {
    url: Url,
    client: Client,
}

/// The beginning of an answer: its bytes come by [`Answer::fill`].
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) version: FileVersion,
    n_bytes: u64,
    body: Option<Response>,
}

impl HttpFile {
    pub(super) fn new(path: &Path, client: Client) -> io::Result<Self> {
        let invalid = |why: &dyn std::fmt::Display| {
            failure::permanent(ErrorKind::InvalidInput, format!("the URL is not valid: {why}"))
        };
        let text = path.to_str().ok_or_else(|| invalid(&"it is not UTF-8"))?;
        let url = Url::parse(text).map_err(|error| invalid(&error))?;
        Ok(Self { url, client })
    }

    /// The version of the file, by a request for its first byte: not every server answers `HEAD`, and
    /// a URL may be signed for `GET` alone.
    pub(super) async fn version(&self) -> io::Result<FileVersion> {
        let mut answer = self.get(0..1).await?;
        // The connection can be used again once the answer is read.
        answer.fill(&mut [0], &mut 0).await?;
        Ok(answer.version)
    }

    /// Asks for a range that is not empty. The answer begins where it does.
    pub(super) async fn get(&self, range: Range<u64>) -> io::Result<Answer> {
        let header = format!("bytes={}-{}", range.start, range.end.saturating_sub(1));
        let request = self.client.get(self.url.clone()).header(RANGE, header);
        let body = request.send().await.map_err(|error| failure::of_request(&error))?;
        let headers = body.headers();
        let content_range = headers.get(CONTENT_RANGE).and_then(|value| value.to_str().ok());
        match body.status() {
            StatusCode::PARTIAL_CONTENT => {}
            StatusCode::RANGE_NOT_SATISFIABLE => {
                // The file is empty, or shorter than it was.
                let len = content_range.and_then(len_without_range).filter(|n| *n <= range.start);
                let len = len.ok_or_else(|| wrong_range(&range, content_range))?;
                return Ok(Answer { version: version(len, headers), n_bytes: 0, body: None });
            }
            StatusCode::OK if body.content_length() == Some(0) && range.start == 0 => {
                return Ok(Answer { version: version(0, headers), n_bytes: 0, body: None });
            }
            StatusCode::OK => {
                return Err(failure::permanent(
                    ErrorKind::Unsupported,
                    "the server sends whole files only, and no ranges of bytes; download the file, \
                     or take a server that supports them",
                ));
            }
            status => return Err(failure::of_status(status, headers)),
        }
        if let Some(encoding) = headers.get(CONTENT_ENCODING).filter(|e| *e != "identity") {
            let why = format!(
                "the server compresses the file ({encoding:?}), so that its ranges \
                are of other bytes; have it send the file as it is"
            );
            return Err(failure::permanent(ErrorKind::Unsupported, why));
        }
        let found = content_range.and_then(ContentRange::parse);
        let found = found
            .filter(|found| found.range.start == range.start && found.range.end <= range.end)
            .ok_or_else(|| wrong_range(&range, content_range))?;
        let n_bytes = found.range.end - found.range.start;
        Ok(Answer { version: version(found.len, headers), n_bytes, body: Some(body) })
    }
}

impl Answer {
    /// Reads what the server said that it would send, `buf` at most, and counts it in `done`.
    ///
    /// # Errors
    ///
    /// Where the connection breaks or ends before that.
    pub(super) async fn fill(&mut self, buf: &mut [u8], done: &mut usize) -> io::Result<()> {
        let Some(body) = &mut self.body else { return Ok(()) };
        let wanted = usize::try_from(self.n_bytes).unwrap_or(usize::MAX).min(buf.len());
        while *done < wanted {
            let chunk = body.chunk().await.map_err(|error| failure::of_request(&error))?;
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

fn wrong_range(range: &Range<u64>, header: Option<&str>) -> io::Error {
    let got: String = header.unwrap_or("no Content-Range").chars().take(100).collect();
    let (first, last) = (range.start, range.end.saturating_sub(1));
    let why = format!("the server was asked for bytes {first}-{last} and answered with {got:?}");
    failure::transient(ErrorKind::InvalidData, why)
}

/// What tells this version of the file from others: its length, its `ETag` and when it was modified.
fn version(len: u64, headers: &HeaderMap) -> FileVersion {
    let tag = headers.get(ETAG).map(|tag| hash::fnv1a(tag.as_bytes()));
    let modified = headers.get(LAST_MODIFIED).and_then(|value| seconds(value.to_str().ok()?));
    let modified_s = modified.or(tag.map(|_| 0)).unwrap_or(FileVersion::NEVER_SETTLED);
    let id = tag.unwrap_or_default();
    FileVersion { len, id, modified: (modified_s, id as i64) }
}

fn seconds(date: &str) -> Option<i64> {
    let time: SystemTime = httpdate::parse_http_date(date).ok()?;
    time.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs() as i64)
}
