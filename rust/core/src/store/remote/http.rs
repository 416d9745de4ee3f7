//! Files of servers that speak HTTP, one request a range.

use std::{
    io::{self, ErrorKind},
    ops::Range,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use reqwest::{
    Client, StatusCode, Url,
    header::{
        AUTHORIZATION, CONTENT_ENCODING, CONTENT_RANGE, ETAG, HeaderMap, HeaderValue,
        LAST_MODIFIED, RANGE,
    },
};

use super::{
    answer::{Answer, Body},
    content_range::{ContentRange, len_without_range},
    failure::{self, StoreKind},
    hub,
    options::StorageOptions,
    pages, redirects,
};
use crate::{hash, store::FileVersion};

/// A file by its URL.
#[derive(Debug)]
pub(super) struct HttpFile {
    url: Url,
    client: Client,
    kind: StoreKind,
    /// A token, which goes to this host alone.
    authorization: Option<HeaderValue>,
}

impl HttpFile {
    /// That of a URL, or of a path on the Hub.
    pub(super) fn new(
        path: &Path,
        kind: StoreKind,
        options: &StorageOptions,
        client: Client,
    ) -> io::Result<Self> {
        let text = path.to_str().ok_or_else(|| failure::invalid_url("it is not UTF-8"))?;
        let url = match kind {
            StoreKind::Hub => hub::file(text, options)?,
            _ => Url::parse(text).map_err(failure::invalid_url)?,
        };
        Ok(Self { url, client, kind, authorization: options.bearer(kind)? })
    }

    /// Asks for a range that is not empty. The answer begins where it does.
    pub(super) async fn get(&self, range: Range<u64>) -> io::Result<Answer> {
        let header = format!("bytes={}-{}", range.start, range.end.saturating_sub(1));
        let mut request = self.client.get(self.url.clone()).header(RANGE, header);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        redirects::begin();
        let mut body = request.send().await.map_err(|error| failure::of_request(&error))?;
        let headers = body.headers();
        let content_range = headers.get(CONTENT_RANGE).and_then(|value| value.to_str().ok());
        match body.status() {
            StatusCode::PARTIAL_CONTENT => {}
            StatusCode::RANGE_NOT_SATISFIABLE => {
                // The file is empty, or shorter than it was.
                let len = content_range.and_then(len_without_range).filter(|n| *n <= range.start);
                // Without a first byte it is empty, whether the server says so or not.
                let is_empty = content_range.is_none() && range == (0..1);
                let len = len.or(is_empty.then_some(0));
                let len = len.ok_or_else(|| wrong_range(&range, content_range))?;
                return Ok(Answer {
                    version: version(len, headers),
                    n_bytes: 0,
                    body: Body::Empty,
                });
            }
            StatusCode::OK if body.content_length() == Some(0) && range.start == 0 => {
                return Ok(Answer { version: version(0, headers), n_bytes: 0, body: Body::Empty });
            }
            StatusCode::OK => {
                return Err(failure::no_ranges());
            }
            status => {
                let refusal = failure::of_status(status, headers, self.kind);
                let said = pages::refusal(&mut body).await;
                let said = String::from_utf8_lossy(&said);
                return Err(failure::with_code(refusal, &said, self.kind));
            }
        }
        let is_none =
            |e: &HeaderValue| e.is_empty() || e.as_bytes().eq_ignore_ascii_case(b"identity");
        if let Some(encoding) = headers.get(CONTENT_ENCODING).filter(|e| !is_none(e)) {
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
        Ok(Answer { version: version(found.len, headers), n_bytes, body: Body::Http(body) })
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
