//! Data sets and buckets of the Hugging Face Hub: where their files are, and which they are.

use std::io::{self, ErrorKind};

use reqwest::{
    Client, Response, Url,
    header::{AUTHORIZATION, LINK},
};
use serde_json::Value;

use super::{
    failure::{self, StoreKind},
    options::StorageOptions,
    pages::{self, MAX_PAGE_BYTES, Pages},
    redirects,
};

/// The Hub's address, unless `endpoint` says another.
const ENDPOINT: &str = "https://huggingface.co";

/// `hf://datasets/owner/name@revision/path` or `hf://buckets/owner/name/path`, taken apart.
#[derive(Debug, PartialEq, Eq)]
struct Place<'a> {
    /// `datasets/owner/name`, or `buckets/owner/name`.
    repository: &'a str,
    /// Buckets have none.
    revision: Option<&'a str>,
    path: &'a str,
}

impl<'a> Place<'a> {
    /// `None` where it is no such path. A revision may have `%2F` in place of `/`.
    fn parse(url: &'a str) -> Option<Self> {
        let rest = url.strip_prefix("hf://")?;
        let mut slashes = rest.match_indices('/').map(|(at, _)| at);
        let (first, second, third) = (slashes.next()?, slashes.next()?, slashes.next());
        let (repository, path) = rest.split_at(third.unwrap_or(rest.len()));
        let (repository, revision) = match rest.get(..first)? {
            "datasets" => {
                let split = repository.split_once('@').unwrap_or((repository, "main"));
                (split.0, Some(split.1))
            }
            "buckets" if !repository.contains('@') => (repository, None),
            _ => return None,
        };
        let is_sound = first + 1 < second
            && second + 1 < repository.len()
            && revision.is_none_or(|revision| !revision.is_empty());
        is_sound.then_some(Self { repository, revision, path: path.trim_start_matches('/') })
    }
}

fn place(url: &str) -> io::Result<Place<'_>> {
    Place::parse(url).ok_or_else(|| {
        failure::invalid_url(
            "write hf://datasets/owner/name/path, hf://datasets/owner/name@revision/path or \
             hf://buckets/owner/name/path",
        )
    })
}

/// `endpoint/begin.../revision`; a slash in a part of it is encoded.
fn address(place: &Place<'_>, begin: &[&str], options: &StorageOptions) -> io::Result<Url> {
    let endpoint = options.found(StoreKind::Hub, "endpoint").unwrap_or(ENDPOINT);
    let mut url = Url::parse(endpoint).map_err(failure::invalid_url)?;
    let revision = place.revision.map(|it| it.replace("%2F", "/").replace("%2f", "/"));
    extend(&mut url, begin.iter().copied().chain(revision.as_deref()))?;
    Ok(url)
}

/// Adds parts, in which slashes are encoded.
fn extend<'a>(url: &mut Url, parts: impl IntoIterator<Item = &'a str>) -> io::Result<()> {
    let mut segments =
        url.path_segments_mut().map_err(|()| failure::invalid_url("the endpoint is no address"))?;
    segments.pop_if_empty().extend(parts);
    Ok(())
}

fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|part| !part.is_empty())
}

/// Where the bytes of a file are.
pub(super) fn file(url: &str, options: &StorageOptions) -> io::Result<Url> {
    let place = place(url)?;
    let mut begin: Vec<&str> = place.repository.split('/').collect();
    begin.push("resolve");
    let mut url = address(&place, &begin, options)?;
    extend(&mut url, parts(place.path))?;
    Ok(url)
}

/// The files and folders in a folder, by their paths in the data set or bucket; about `most` files at
/// most.
pub(super) async fn list(
    url: &str,
    options: &StorageOptions,
    client: &Client,
    is_recursive: bool,
    most: usize,
) -> io::Result<(Vec<String>, Vec<String>)> {
    let place = place(url)?;
    let mut begin = vec!["api"];
    begin.extend(place.repository.split('/'));
    begin.push("tree");
    let mut first = address(&place, &begin, options)?;
    // Buckets have no folders: with its slash it is what the names of its files begin with.
    let prefix = match (place.revision, place.path.trim_end_matches('/')) {
        (None, folder) if !folder.is_empty() => format!("{folder}/"),
        _ => String::new(),
    };
    if prefix.is_empty() {
        extend(&mut first, parts(place.path))?;
    } else {
        extend(&mut first, [prefix.as_str()])?;
    }
    let mut page = first.clone();
    page.query_pairs_mut().append_pair("recursive", if is_recursive { "true" } else { "false" });
    let (mut files, mut folders, mut pages) = (Vec::new(), Vec::new(), Pages::default());
    loop {
        pages.begin(&page)?;
        let mut response = get(page.clone(), options, client).await?;
        let next = response.headers().get(LINK).and_then(|link| next_page(link.to_str().ok()?));
        let bytes = pages::whole(&mut response, MAX_PAGE_BYTES).await?;
        let entries = entries(&bytes)?;
        pages.came(bytes.len(), entries.is_empty())?;
        for entry in entries {
            let text = |name: &str| entry.get(name).and_then(Value::as_str);
            let (Some(kind), Some(path)) = (text("type"), text("path")) else {
                return Err(unlike());
            };
            if !path.starts_with(&prefix) {
                continue;
            }
            match kind {
                "file" => files.push(path.to_owned()),
                "directory" => folders.push(path.to_owned()),
                _ => {}
            }
        }
        let Some(next) = next.filter(|_| files.len() <= most) else { return Ok((files, folders)) };
        let next = first.join(&next).map_err(failure::invalid_url)?;
        // The token goes to the Hub alone.
        if next.origin() != first.origin() {
            return Err(unlike());
        }
        page = next;
    }
}

/// A small file as a whole: those that are kept in git alone are not sent by ranges.
pub(super) async fn read(
    url: &str,
    options: &StorageOptions,
    client: &Client,
    most: usize,
) -> io::Result<Vec<u8>> {
    pages::whole(&mut get(file(url, options)?, options, client).await?, most).await
}

async fn get(url: Url, options: &StorageOptions, client: &Client) -> io::Result<Response> {
    let mut request = client.get(url);
    if let Some(authorization) = options.bearer(StoreKind::Hub)? {
        request = request.header(AUTHORIZATION, authorization);
    }
    redirects::begin();
    let mut response = request.send().await.map_err(|error| failure::of_request(&error))?;
    if response.status().is_success() {
        return Ok(response);
    }
    let refusal = failure::of_status(response.status(), response.headers(), StoreKind::Hub);
    let said = pages::refusal(&mut response).await;
    Err(failure::with_code(refusal, &String::from_utf8_lossy(&said), StoreKind::Hub))
}

/// The entries of a page.
fn entries(page: &[u8]) -> io::Result<Vec<Value>> {
    match serde_json::from_slice(page) {
        Ok(Value::Array(entries)) => Ok(entries),
        _ => Err(unlike()),
    }
}

fn unlike() -> io::Error {
    failure::permanent(
        ErrorKind::InvalidData,
        "the answer is no list of files, as the Hub has them",
    )
}

/// The address of `rel="next"` in a header `Link`.
fn next_page(link: &str) -> Option<String> {
    link.split(',').find_map(|part| {
        let (url, rest) = part.trim().strip_prefix('<')?.split_once('>')?;
        rest.contains("rel=\"next\"").then(|| url.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_apart() {
        let file = |url: &str| file(url, &StorageOptions::default()).ok().map(String::from);
        let at = |rest: &str| Some(format!("https://huggingface.co/datasets/{rest}"));
        assert_eq!(file("hf://datasets/a/b/c d/e.arrow"), at("a/b/resolve/main/c%20d/e.arrow"));
        assert_eq!(file("hf://datasets/a/b@v1/e#?%.arrow"), at("a/b/resolve/v1/e%23%3F%25.arrow"));
        assert_eq!(
            file("hf://datasets/a/b@refs%2Fconvert%2Fparquet/x"),
            at("a/b/resolve/refs%2Fconvert%2Fparquet/x")
        );
        assert_eq!(file("hf://datasets/a/b"), at("a/b/resolve/main"));
        assert_eq!(
            file("hf://buckets/a/b/c d/e@f.arrow").as_deref(),
            Some("https://huggingface.co/buckets/a/b/resolve/c%20d/e@f.arrow")
        );
        for wrong in [
            "hf://",
            "hf://datasets/a",
            "hf://models/a/b/c",
            "hf://datasets//b/c",
            "hf://datasets/a//c",
            "hf://datasets/a/b@/c",
            "hf://buckets/a",
            "hf://buckets/a/b@v1/c",
            "https://datasets/a/b",
        ] {
            assert_eq!(file(wrong), None, "{wrong}");
        }
        assert_eq!(
            next_page("<https://h/x?c=1>; rel=\"next\"").as_deref(),
            Some("https://h/x?c=1")
        );
        assert_eq!(next_page("<https://h/x>; rel=\"prev\""), None);
    }
}
