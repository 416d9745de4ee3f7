//! Paths that are URLs: which they are, and what of them may be shown and kept.

use std::{
    borrow::Cow,
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{self, Path, PathBuf},
    sync::Arc,
};

use super::{super::path_text::path_text, failure::StoreKind};

const SCHEMES: [(&str, StoreKind); 6] = [
    ("https", StoreKind::Http),
    ("http", StoreKind::Http),
    ("hf", StoreKind::Hub),
    ("s3", StoreKind::S3),
    ("gs", StoreKind::Gcs),
    ("az", StoreKind::Azure),
];

/// Whether a path is a URL of a kind that is read from a server.
pub fn is_remote(path: &Path) -> bool {
    kind_of(path).is_some()
}

/// What a path leads to; `None` where it is local.
pub(super) fn kind_of(path: &Path) -> Option<StoreKind> {
    let bytes = path.as_os_str().as_bytes();
    let found = SCHEMES.into_iter().find(|(scheme, _)| {
        bytes.strip_prefix(scheme.as_bytes()).is_some_and(|rest| rest.starts_with(b"://"))
    });
    found.map(|(_, kind)| kind)
}

/// The bucket and the key of a URL of an object store, both as they are.
pub(super) fn bucket_and_key(url: &str) -> Option<(&str, &str)> {
    let (_, rest) = url.split_once("://")?;
    let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
    (!bucket.is_empty()).then_some((bucket, key))
}

/// A path for messages and logs: of a URL without the user's name, password and query, any of which
/// may be a secret. Of a server's URL that has no port where one should be, nothing is shown: a `/`, `?`
/// or `#` of the password may have ended the host.
pub fn shown_path(path: &Path) -> Arc<str> {
    let text = path_text(path);
    if !is_remote(path) {
        return text;
    }
    let (place, query) = split_query(&text);
    if let Some((scheme, rest)) = place.split_once("://").filter(|_| place.starts_with("http"))
        && let (_, Some(port)) = host_and_port(split_authority(rest).0)
        && !port.bytes().all(|b| b.is_ascii_digit())
    {
        return format!("{scheme}://***").into();
    }
    let mut shown = match hidden_password(place) {
        Some(shown) => shown,
        None => without_user(place, "***@").into_owned(),
    };
    if !query.is_empty() {
        shown.push_str("?***");
    }
    shown.into()
}

/// The last part of a path, of a URL without its query.
pub(crate) fn base_name(path: &Path) -> Cow<'_, OsStr> {
    match path.to_str().filter(|_| is_remote(path)) {
        Some(url) => {
            let name = split_query(url).0.trim_end_matches('/').rsplit('/').next();
            Cow::Borrowed(OsStr::new(name.unwrap_or_default()))
        }
        None => Cow::Borrowed(path.file_name().unwrap_or_default()),
    }
}

/// What tells a file from others, wherever the process works: its absolute path, or its URL without
/// the user and the query, which is signed anew each day.
pub(crate) fn identity(path: &Path) -> Option<PathBuf> {
    match path.to_str().filter(|_| is_remote(path)) {
        Some(url) => Some(PathBuf::from(&*without_user(split_query(url).0, ""))),
        None => path::absolute(path).ok(),
    }
}

/// Whether a path has a part that names a file and is no part of its identity.
pub(crate) fn has_query(path: &Path) -> bool {
    path.to_str().is_some_and(|path| is_remote(path.as_ref()) && !split_query(path).1.is_empty())
}

/// Only servers take queries: elsewhere `?` and `#` are letters of a name.
fn split_query(url: &str) -> (&str, &str) {
    let begin = if url.starts_with("http") { url.find(['?', '#']) } else { None };
    url.split_at(begin.unwrap_or(url.len()))
}

/// A URL with `instead` in place of what stands before its host.
fn without_user<'a>(url: &'a str, instead: &str) -> Cow<'a, str> {
    let Some((scheme, rest)) = url.split_once("://") else { return url.into() };
    let (authority, place) = split_authority(rest);
    match authority.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://{instead}{host}{place}").into(),
        None => url.into(),
    }
}

/// A URL without what looks like a user and password that a `/` ended: `me:12/secret@host`. It may be a
/// port and an `@` of a name as well, and then too much is hidden.
fn hidden_password(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let (authority, place) = split_authority(rest);
    let (_, port) = host_and_port(authority);
    let (_, after) = place.rsplit_once('@')?;
    let is_sure = authority.contains('@') || port.is_none();
    (!is_sure).then(|| format!("{scheme}://***@{after}"))
}

/// What stands before the path. Where that ends is not sure in a malformed URL: rather too much is
/// taken.
fn split_authority(rest: &str) -> (&str, &str) {
    rest.split_at(rest.find(['/', '\\']).unwrap_or(rest.len()))
}

/// The host, and the port if there is one; of `[::1]` the brackets have colons too.
fn host_and_port(authority: &str) -> (&str, Option<&str>) {
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    match host.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (host, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        for (path, shown, name, kept) in [
            (
                "https://host/a/b.arrow",
                "https://host/a/b.arrow",
                "b.arrow",
                "https://host/a/b.arrow",
            ),
            (
                "https://me:pass@host:1/b.arrow?sig=a/b#c",
                "https://***@host:1/b.arrow?***",
                "b.arrow",
                "https://host:1/b.arrow",
            ),
            (
                "http://a@b@host/x@y.arrow",
                "http://***@host/x@y.arrow",
                "x@y.arrow",
                "http://host/x@y.arrow",
            ),
            (
                "https://me:p/ss@host/b.arrow",
                "https://***",
                "b.arrow",
                "https://me:p/ss@host/b.arrow",
            ),
            ("https://me:12/ss@host/b?c", "https://***@host/b?***", "b", "https://me:12/ss@host/b"),
            ("https://host/x@y", "https://host/x@y", "x@y", "https://host/x@y"),
            ("s3://me:p/ss@b/a", "s3://***@b/a", "a", "s3://me:p/ss@b/a"),
            ("https://me:p#ss@host/b", "https://***", "me:p", "https://me:p"),
            ("https://[::1]/b.arrow", "https://[::1]/b.arrow", "b.arrow", "https://[::1]/b.arrow"),
            ("http://a@[::1]:80/b", "http://***@[::1]:80/b", "b", "http://[::1]:80/b"),
            ("https://host/a/?x", "https://host/a/?***", "a", "https://host/a/"),
            ("https://", "https://", "https:", "https://"),
            ("/a/b?c=d", "/a/b?c=d", "b?c=d", "/a/b?c=d"),
            ("s3://b/a?c#d", "s3://b/a?c#d", "a?c#d", "s3://b/a?c#d"),
            ("s3://me@b/a@c", "s3://***@b/a@c", "a@c", "s3://b/a@c"),
            ("/a/https://b/c", "/a/https://b/c", "c", "/a/https://b/c"),
        ] {
            let path = Path::new(path);
            assert_eq!(&*shown_path(path), shown);
            assert_eq!(base_name(path), OsStr::new(name));
            assert_eq!(identity(path), Some(PathBuf::from(kept)));
        }
        let has = |path: &str| has_query(path.as_ref());
        assert!(has("https://h/a?b") && has("http://h?b") && !has("https://h/a"));
        assert!(!has("s3://b/a?c") && !has("/a?b"));
        assert!(!is_remote(Path::new("https:/host/a")) && !is_remote(Path::new("httpsx://a")));
    }
}
