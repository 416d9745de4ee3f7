//! The pages of a listing, and answers that are read as a whole: both are bounded.

use std::{
    collections::HashSet,
    io::{self, ErrorKind},
    time::Duration,
};

use reqwest::{Response, Url};

use super::failure;
use crate::hash;

/// A page has at most 1,000 names, or 5,000 on Azure.
pub(super) const MAX_PAGE_BYTES: usize = 32 << 20;

/// A million names with what stores say of each.
const MAX_LISTING_BYTES: usize = 1 << 30;

/// Pages of one listing; stores give 1,000 names a page.
const MAX_PAGES: usize = 10_000;

/// Some stores answer with a few pages without names on the way to the next name.
const MAX_EMPTY_PAGES: usize = 100;

/// What a refusal says in its body is a code and a sentence.
const MAX_REFUSAL_BYTES: usize = 64 << 10;

/// A refusal whose body takes longer is reported without it.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(2);

/// Bounds one listing: what answers may be anything, and answer for ever.
#[derive(Debug, Default)]
pub(super) struct Pages {
    asked: HashSet<u64>,
    n_bytes: usize,
    n_empty: usize,
}

impl Pages {
    /// The page at this address is asked for next.
    pub(super) fn begin(&mut self, url: &Url) -> io::Result<()> {
        if !self.asked.insert(hash::fnv1a(url.as_str().as_bytes())) {
            return Err(endless("a page that was read before follows"));
        }
        if self.asked.len() > MAX_PAGES {
            return Err(endless(&format!("it has more than {MAX_PAGES} pages")));
        }
        Ok(())
    }

    /// The page has come.
    pub(super) fn came(&mut self, n_bytes: usize, is_empty: bool) -> io::Result<()> {
        self.n_bytes = self.n_bytes.saturating_add(n_bytes);
        self.n_empty = if is_empty { self.n_empty + 1 } else { 0 };
        if self.n_bytes > MAX_LISTING_BYTES {
            return Err(endless("it has more than 1 GiB"));
        }
        if self.n_empty > MAX_EMPTY_PAGES {
            return Err(endless(&format!("{MAX_EMPTY_PAGES} pages in a row have no names")));
        }
        Ok(())
    }

    /// A page of an object store, in XML, has come.
    pub(super) fn came_as_xml(&mut self, page: &[u8]) -> io::Result<()> {
        let has = |what: &[u8]| page.windows(what.len()).any(|part| part == what);
        let has_names = [&b"<Key"[..], b"<CommonPrefixes", b"<Name"].into_iter().any(has);
        self.came(page.len(), !has_names)?;
        let page = String::from_utf8_lossy(page);
        let inside = |name: &str| {
            let (_, rest) = page.split_once(&format!("<{name}>"))?;
            rest.split_once('<').map(|(text, _)| text.trim())
        };
        let has_next = inside("NextContinuationToken").is_some_and(|token| !token.is_empty());
        if inside("IsTruncated") == Some("true") && !has_next {
            return Err(failure::permanent(
                ErrorKind::InvalidData,
                "the listing is incomplete: the store says that it is truncated and does not say \
                 where it goes on (IsTruncated without NextContinuationToken); name the shards \
                 themselves, or use a store that supports version 2 of S3 listings",
            ));
        }
        Ok(())
    }
}

fn endless(why: &str) -> io::Error {
    let what = format!("the listing does not end ({why}); name a folder with fewer files");
    failure::permanent(ErrorKind::InvalidData, what)
}

/// The whole body of an answer.
pub(super) async fn whole(response: &mut Response, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| failure::of_request(&error))? {
        if bytes.len() + chunk.len() > most {
            let why = format!("the answer has more than {most} bytes");
            return Err(failure::permanent(ErrorKind::InvalidData, why));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// What a refusal says, as much of it as comes soon.
pub(super) async fn refusal(response: &mut Response) -> Vec<u8> {
    let mut bytes = Vec::new();
    let read = async {
        while let Ok(Some(chunk)) = response.chunk().await {
            let left = MAX_REFUSAL_BYTES.saturating_sub(bytes.len());
            bytes.extend_from_slice(chunk.get(..left).unwrap_or(&chunk));
            if bytes.len() >= MAX_REFUSAL_BYTES {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(REFUSAL_TIMEOUT, read).await;
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(n: usize) -> Url {
        Url::parse(&format!("https://host/?token={n}")).unwrap()
    }

    #[test]
    fn no_listing_goes_on_for_ever() {
        let said = |error: io::Error| error.to_string();
        let mut pages = Pages::default();
        pages.begin(&page(0)).unwrap();
        assert!(said(pages.begin(&page(0)).unwrap_err()).contains("was read before"));
        let failed = (1..20_000).find_map(|n| pages.begin(&page(n)).err());
        assert!(said(failed.unwrap()).contains("more than 10000 pages"));
        let failed = (0..1_000).find_map(|_| pages.came(1, true).err());
        assert!(said(failed.unwrap()).contains("100 pages in a row"));
        let failed = (0..1_000).find_map(|_| pages.came(MAX_PAGE_BYTES, false).err());
        assert!(said(failed.unwrap()).contains("more than 1 GiB"));
    }

    #[test]
    fn a_truncated_page_says_where_the_next_one_begins() {
        let came = |page: &str| Pages::default().came_as_xml(page.as_bytes()).is_ok();
        let token = "<NextContinuationToken>x</NextContinuationToken>";
        let no_token = "<NextContinuationToken></NextContinuationToken>";
        for (rest, is_right) in [
            ("", true),
            ("<IsTruncated>false</IsTruncated>", true),
            (&format!("<IsTruncated>true</IsTruncated>{token}"), true),
            ("<IsTruncated>true</IsTruncated>", false),
            ("<IsTruncated> true\n</IsTruncated><NextMarker>x</NextMarker>", false),
            (&format!("{no_token}<IsTruncated>true</IsTruncated>"), false),
        ] {
            assert_eq!(came(&format!("<L><Key>a</Key>{rest}</L>")), is_right, "{rest}");
        }
    }
}
