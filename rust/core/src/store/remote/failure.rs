//! What can go wrong with a request: for whom it is a message, and whether to try again.

use std::{
    error::Error as StdError,
    fmt, io,
    time::{Duration, SystemTime},
};

use reqwest::{StatusCode, header::HeaderMap};

use super::redirects;

/// Why a request failed. It is inside of the `io::Error`, whose kind says what sort it is.
#[derive(Clone, Debug)]
pub(in crate::store) struct RequestError {
    message: String,
    /// Whether the same request may succeed later.
    pub(in crate::store) is_transient: bool,
    /// The server wants to be left alone for this long.
    pub(in crate::store) retry_after: Option<Duration>,
    /// Whether the server has too many requests.
    pub(in crate::store) is_throttled: bool,
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for RequestError {}

impl RequestError {
    fn new(message: String, is_transient: bool) -> Self {
        Self { message, is_transient, retry_after: None, is_throttled: false }
    }

    /// That of an error of this module; `None` for any other.
    pub(in crate::store) fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

/// What a URL leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum StoreKind {
    /// Any server.
    Http,
    /// The Hugging Face Hub.
    Hub,
    /// S3, and what speaks as it does.
    S3,
    /// Google Cloud Storage.
    Gcs,
    /// Azure Blob Storage.
    Azure,
}

impl StoreKind {
    pub(super) fn scheme(self) -> &'static str {
        match self {
            Self::Http => "https",
            Self::Hub => "hf",
            Self::S3 => "s3",
            Self::Gcs => "gs",
            Self::Azure => "az",
        }
    }

    /// What to do where credentials are missing or do not do.
    fn what_to_give(self) -> &'static str {
        match self {
            Self::Http => {
                "give credentials that may read this file, as https://user:password@host/..., as \
                 storage_options={\"token\": \"...\"} or as a signed URL that has not expired"
            }
            Self::Hub => {
                "give a token that may read this, as $HF_TOKEN, by `hf auth login` or as \
                 storage_options={\"token\": \"...\"}; a data set may want its terms accepted on \
                 its page; or there is no such data set or bucket"
            }
            Self::S3 => {
                "give credentials that may read this file, as $AWS_ACCESS_KEY_ID and \
                 $AWS_SECRET_ACCESS_KEY, in ~/.aws/credentials or in storage_options=; or \
                 {\"skip_signature\": \"true\"} for a public bucket"
            }
            Self::Gcs => {
                "give credentials that may read this file, as $GOOGLE_APPLICATION_CREDENTIALS, by \
                 `gcloud auth application-default login` or in storage_options=; or \
                 {\"skip_signature\": \"true\"} for a public bucket"
            }
            Self::Azure => {
                "give credentials that may read this file, as $AZURE_STORAGE_ACCOUNT_NAME and \
                 $AZURE_STORAGE_ACCOUNT_KEY, or in storage_options=; or {\"skip_signature\": \
                 \"true\"} for a public container"
            }
        }
    }

    /// Options that users give most.
    pub(super) fn usual_options(self) -> &'static str {
        match self {
            Self::Http => "token",
            Self::Hub => "token and endpoint",
            Self::S3 => {
                "aws_access_key_id, aws_secret_access_key, aws_session_token, aws_region, \
                 aws_endpoint_url, skip_signature"
            }
            Self::Gcs => {
                "google_service_account, google_service_account_key, \
                 google_application_credentials, skip_signature"
            }
            Self::Azure => "account_name, account_key, sas_token, skip_signature",
        }
    }

    /// Where there are none, and this machine is given none by its cloud.
    pub(super) fn without_credentials(self) -> io::Error {
        let why = format!("there are no credentials: {}", self.what_to_give());
        permanent(io::ErrorKind::PermissionDenied, why)
    }

    fn where_else(self, region: Option<&str>) -> String {
        match region {
            Some(region) => format!(
                "the bucket is in another region: storage_options={{\"aws_region\": {region:?}}}"
            ),
            None if self == Self::S3 => {
                "the bucket is in another region: storage_options={\"aws_region\": \"...\"}"
                    .to_owned()
            }
            None => "it redirects to nowhere".to_owned(),
        }
    }
}

/// The system's number for an error, which picks the class of exception; of a request that failed the
/// one that a file would have had. `None` where there is none.
pub fn errno_of(error: &io::Error) -> Option<i32> {
    use io::ErrorKind as K;
    use rustix::io::Errno;

    let of_kind = || {
        Some(match error.kind() {
            K::NotFound => Errno::NOENT,
            K::PermissionDenied => Errno::ACCESS,
            K::TimedOut => Errno::TIMEDOUT,
            K::ConnectionRefused => Errno::CONNREFUSED,
            K::ConnectionReset => Errno::CONNRESET,
            K::ConnectionAborted => Errno::CONNABORTED,
            K::InvalidInput => Errno::INVAL,
            _ => Errno::IO,
        })
    };
    error
        .raw_os_error()
        .or_else(|| RequestError::of(error).and_then(|_| of_kind()).map(Errno::raw_os_error))
}

pub(super) fn permanent(kind: io::ErrorKind, message: impl Into<String>) -> io::Error {
    io::Error::new(kind, RequestError::new(message.into(), false))
}

pub(super) fn transient(kind: io::ErrorKind, message: impl Into<String>) -> io::Error {
    io::Error::new(kind, RequestError::new(message.into(), true))
}

/// One of ours among the causes of another error.
pub(super) fn copied(cause: Cause<'_>) -> Option<io::Error> {
    let error = cause.downcast_ref::<io::Error>()?;
    RequestError::of(error).map(|ours| io::Error::new(error.kind(), ours.clone()))
}

/// A refusal, with the code that an object store gives beside it. Where it says more than the status,
/// that is the message.
pub(super) fn with_code(refusal: io::Error, text: &str, of: StoreKind) -> io::Error {
    let (Some(code), Some(ours)) = (element(text, "Code"), RequestError::of(&refusal)) else {
        return refusal;
    };
    let is_elsewhere = code == "AuthorizationHeaderMalformed";
    if let Some(region) = element(text, "Region").filter(|_| is_elsewhere) {
        return permanent(refusal.kind(), of.where_else(Some(region)));
    }
    if matches!(code, "ExpiredToken" | "InvalidToken" | "TokenRefreshRequired") {
        let what = of.what_to_give();
        let why = format!("the session token has expired or is another's ({code}): {what}");
        return permanent(io::ErrorKind::PermissionDenied, why);
    }
    let message = format!("{} ({code})", ours.message);
    io::Error::new(refusal.kind(), RequestError { message, ..ours.clone() })
}

/// A short word in a store's answer, which is XML.
pub(super) fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    let (word, _) = rest.split_once(&format!("</{name}>"))?;
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
    (word.len() < 60 && word.bytes().all(is_word)).then_some(word)
}

pub(super) fn invalid_url(why: impl fmt::Display) -> io::Error {
    permanent(io::ErrorKind::InvalidInput, format!("the URL is not valid: {why}"))
}

pub(super) fn no_ranges() -> io::Error {
    permanent(
        io::ErrorKind::Unsupported,
        "the server sends whole files only, and no ranges of bytes; download the file, or take a \
         server that supports them",
    )
}

pub(super) fn cancelled() -> io::Error {
    permanent(io::ErrorKind::Other, "the request was cancelled")
}

pub(super) fn timed_out() -> io::Error {
    let why = "the server took too long to answer";
    transient(io::ErrorKind::TimedOut, why)
}

/// Fewer bytes than were asked for, so few that asking on and on would not end.
pub(super) fn cut_short() -> io::Error {
    transient(io::ErrorKind::UnexpectedEof, "the server ended its answer early")
}

/// An answer other than the bytes that were asked for.
pub(super) fn of_status(status: StatusCode, headers: &HeaderMap, of: StoreKind) -> io::Error {
    use io::ErrorKind as K;

    let led_to = redirects::led_to();
    let (kind, why) = match status.as_u16() {
        // Credentials do not go there. The next attempt begins at the first address, which may lead
        // to another server or sign the address anew.
        401 | 403 if led_to.is_some() => {
            let why = "it refuses access, though the first server grants it; its address may have \
                       expired, or it has failed";
            (K::PermissionDenied, why.to_owned())
        }
        401 => (K::PermissionDenied, format!("it wants to know who asks: {}", of.what_to_give())),
        403 => (K::PermissionDenied, format!("it refuses access: {}", of.what_to_give())),
        404 | 410 => (K::NotFound, "there is no such file".to_owned()),
        407 => (K::PermissionDenied, "the proxy wants to know who asks".to_owned()),
        408 | 425 | 429 | 500 | 502 | 503 | 504 => {
            (K::Other, "it is busy or has failed".to_owned())
        }
        300..=399 => {
            let region = headers.get("x-amz-bucket-region").and_then(|value| value.to_str().ok());
            (K::Other, of.where_else(region))
        }
        _ => (K::Other, "it refuses the request".to_owned()),
    };
    let is_transient = match status.as_u16() {
        401 | 403 => led_to.is_some(),
        status => matches!(status, 408 | 425 | 429 | 500 | 502 | 503 | 504),
    };
    let retry_after = headers
        .get("retry-after")
        .filter(|_| is_transient)
        .and_then(|value| retry_after(value.to_str().ok()?, SystemTime::now()));
    let who = led_to.map_or_else(
        || "the server".to_owned(),
        |host| format!("{host}, to which the server redirects,"),
    );
    let message = format!("{who} answered {status}: {why}");
    let is_throttled = matches!(status.as_u16(), 429 | 503);
    io::Error::new(kind, RequestError { message, is_transient, retry_after, is_throttled })
}

/// Seconds, or a date.
fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    match value.trim().parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => httpdate::parse_http_date(value.trim()).ok()?.duration_since(now).ok(),
    }
}

/// What a request that panicked ends in. What panics is another library: none of ours may.
pub(super) fn panicked(message: &str) -> io::Error {
    permanent(io::ErrorKind::Other, format!("the client of the store failed: {message}"))
}

/// An error of the connection. Its own message names the URL, and so may a secret; the host is none.
pub(super) fn of_request(error: &reqwest::Error) -> io::Error {
    let found = of_connection(error);
    match (redirects::led_to(), RequestError::of(&found)) {
        (Some(host), Some(ours)) if !error.is_redirect() && !error.is_connect() => {
            let message = format!("behind a redirect to {host}: {}", ours.message);
            io::Error::new(found.kind(), RequestError { message, ..ours.clone() })
        }
        _ => found,
    }
}

fn of_connection(error: &reqwest::Error) -> io::Error {
    use io::ErrorKind as K;

    let cause = innermost(error);
    if error.is_builder() {
        return permanent(K::InvalidInput, format!("the URL is not valid: {cause}"));
    }
    if error.is_redirect() {
        return permanent(K::Other, format!("the server's redirects are not followed: {cause}"));
    }
    if let Some(tls) = find::<rustls::Error>(error) {
        return permanent(
            K::Other,
            format!(
                "no secure connection to the server: {tls}; where an authority of your own signed its \
                 certificate, name the authority's file in $SSL_CERT_FILE"
            ),
        );
    }
    if error.is_timeout() {
        return timed_out();
    }
    let kind = find::<io::Error>(error).map_or(K::Other, io::Error::kind);
    if error.is_connect() {
        let is_of_system = find::<io::Error>(error).is_some_and(|e| e.raw_os_error().is_some());
        let (kind, what) = match kind {
            _ if !is_of_system && cause.contains("lookup") => {
                (K::HostUnreachable, "no such host as")
            }
            kind => (kind, "cannot connect to"),
        };
        // The error has the first address, also where a redirect led elsewhere.
        let host = redirects::led_to()
            .or_else(|| error.url().and_then(|url| url.host_str().map(str::to_owned)))
            .unwrap_or_else(|| "unknown".to_owned());
        return transient(kind, format!("{what} {host}: {cause}"));
    }
    let kind = if kind == K::Other { K::ConnectionReset } else { kind };
    transient(kind, format!("the connection broke: {cause}"))
}

pub(super) type Cause<'a> = &'a (dyn StdError + 'static);

fn chain(error: &reqwest::Error) -> impl Iterator<Item = Cause<'_>> {
    std::iter::successors(error.source(), |error| next_cause(*error))
}

/// An `io::Error` leaves out what it holds, and names what that holds.
pub(super) fn next_cause(error: Cause<'_>) -> Option<Cause<'_>> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(inner) => Some(inner),
        None => error.source(),
    }
}

fn find<E: StdError + 'static>(error: &reqwest::Error) -> Option<&E> {
    chain(error).filter_map(|error| error.downcast_ref::<E>()).last()
}

fn innermost(error: &reqwest::Error) -> String {
    chain(error).last().map_or_else(|| "it is malformed".to_owned(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_is_asked_for_in_seconds_or_by_a_date() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:00 GMT").unwrap();
        let seconds = |text| retry_after(text, now).map(|wait| wait.as_secs());
        assert_eq!(seconds("7"), Some(7));
        assert_eq!(seconds("Sun, 06 Nov 1994 08:49:37 GMT"), Some(37));
        assert_eq!(seconds("Sun, 06 Nov 1994 08:48:37 GMT"), None);
        assert_eq!([seconds(""), seconds("-1"), seconds("soon")], [None; 3]);
    }
}
