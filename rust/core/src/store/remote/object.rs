//! Files of object stores: the crate `object_store` signs requests, and our own client sends them.

use std::{
    cell::RefCell,
    io::{self, ErrorKind},
    ops::Range,
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use futures_util::TryStreamExt;
use http_body_util::BodyExt;
use object_store::{
    ClientOptions, GetOptions, GetRange, ObjectMeta, ObjectStore, RetryConfig,
    aws::{AmazonS3Builder, AmazonS3ConfigKey},
    azure::{AzureConfigKey, MicrosoftAzureBuilder},
    client::{
        HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
        HttpResponseBody, HttpService,
    },
    gcp::{GoogleCloudStorageBuilder, GoogleConfigKey},
    path::Path as Key,
};
use reqwest::{
    Client, Request, Response, Url,
    header::{CONTENT_RANGE, RANGE},
};

use super::{
    answer::{Answer, Body},
    content_range::len_without_range,
    environment::Environment,
    failure::{self, StoreKind},
    options::StorageOptions,
    pages::{self, MAX_PAGE_BYTES, Pages},
    redirects,
};
use crate::{hash, store::FileVersion};

/// A machine in a cloud has its credentials from these, at once; no other machine has them.
const OF_MACHINES: [&str; 4] =
    ["169.254.169.254", "169.254.170.2", "169.254.170.23", "metadata.google.internal"];
const MACHINE_TIMEOUT: Duration = Duration::from_secs(2);

/// Parts of what the crate says of a `Content-Range` that is missing, malformed or another.
const WRONG_RANGE: [&str; 4] = ["Content-Range", "CONTENT_RANGE", "Requested", "Wanted range"];

/// A file of a bucket.
#[derive(Debug)]
pub(super) struct ObjectFile {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) key: Key,
}

tokio::task_local! {
    /// What the last answer of this task said, beside what the crate hands on.
    static SEEN: RefCell<Seen>;
}

#[derive(Debug, Default)]
struct Seen {
    refusal: Option<(StoreKind, io::Error)>,
    /// The length of a file that does not have the range.
    len: Option<u64>,
    /// Of the listing that is read.
    pages: Pages,
}

impl ObjectFile {
    /// Asks for a range that is not empty.
    pub(super) async fn get(&self, range: Range<u64>) -> io::Result<Answer> {
        let options =
            GetOptions { range: Some(GetRange::Bounded(range.clone())), ..GetOptions::default() };
        let (got, seen) = seeing(self.store.get_opts(&self.key, options)).await;
        let got = match (got, seen.len.filter(|len| *len <= range.start)) {
            (Ok(got), _) => got,
            // Empty, or shorter than it was: another version than any that has the range.
            (Err(_), Some(len)) => {
                let version = FileVersion { len, id: 0, modified: (FileVersion::NEVER_SETTLED, 0) };
                return Ok(Answer { version, n_bytes: 0, body: Body::Empty });
            }
            (Err(error), None) => return Err(of_store(&error, seen)),
        };
        let (version, n_bytes) = (version(&got.meta), got.range.end - got.range.start);
        let stream = got.into_stream().map_err(|error| of_store(&error, Seen::default()));
        Ok(Answer { version, n_bytes, body: Body::Object(Box::pin(stream)) })
    }
}

/// The key of an object, as it is.
pub(super) fn key(key: &str) -> io::Result<Key> {
    Key::parse(key).map_err(failure::invalid_url)
}

/// What lies in a folder of a bucket; of one that ends in no `/`, what begins so.
pub(super) async fn list(
    store: &dyn ObjectStore,
    folder: &Key,
    is_recursive: bool,
    most: usize,
) -> io::Result<(Vec<String>, Vec<String>)> {
    let prefix = (!folder.as_ref().is_empty()).then_some(folder);
    let mut files = Vec::new();
    if is_recursive {
        let mut found = store.list(prefix);
        let all = async {
            while let Some(object) = found.try_next().await? {
                if !is_folder(&object, folder) {
                    files.push(object.location.to_string());
                }
                if files.len() > most {
                    break;
                }
            }
            Ok(())
        };
        let (listed, seen) = seeing(all).await;
        listed.map_err(|error: object_store::Error| of_store(&error, seen))?;
        return Ok((files, Vec::new()));
    }
    let (listed, seen) = seeing(store.list_with_delimiter(prefix)).await;
    let listed = listed.map_err(|error| of_store(&error, seen))?;
    let objects = listed.objects.iter().filter(|object| !is_folder(object, folder));
    files.extend(objects.map(|object| object.location.to_string()));
    let folders = listed.common_prefixes.iter().map(ToString::to_string);
    Ok((files, folders.collect()))
}

/// Whether an object is there for a folder in `folder`: consoles make one for each, empty and with a slash
/// at the end of its key, which the crate takes away.
fn is_folder(object: &ObjectMeta, folder: &Key) -> bool {
    let is_file = matches!(object.location.extension(), Some("arrow" | "parquet" | "json"));
    object.size == 0 && !is_file && object.location != *folder
}

async fn seeing<T>(work: impl Future<Output = T>) -> (T, Seen) {
    SEEN.scope(RefCell::default(), async {
        let done = work.await;
        (done, SEEN.with(RefCell::take))
    })
    .await
}

/// The store of one bucket.
///
/// # Errors
///
/// Where an option is not known, or what it says cannot be.
pub(super) fn build(
    kind: StoreKind,
    bucket: &str,
    options: &StorageOptions,
    environment: &Environment,
    client: &Client,
) -> io::Result<Arc<dyn ObjectStore>> {
    let client = client.clone();
    let connector = Connector { client, kind, allows_http: options.is_on("allow_http") };
    let retry = RetryConfig { max_retries: 0, ..RetryConfig::default() };
    let unknown = |key: &str| {
        let (scheme, usual) = (kind.scheme(), kind.usual_options());
        let what = format!(
            "storage_options has {key:?}, which is no option of {scheme}://: these are {usual}, and \
             what else polars and delta-rs take"
        );
        failure::permanent(ErrorKind::InvalidInput, what)
    };
    let failed = |error: object_store::Error| {
        let (scheme, usual) = (kind.scheme(), kind.usual_options());
        let what = format!("{scheme}://{bucket}: {error} (options are {usual})");
        failure::permanent(ErrorKind::InvalidInput, what)
    };
    Ok(match kind {
        StoreKind::S3 => {
            let mut builder = AmazonS3Builder::new();
            for (key, value) in environment.options("AWS_") {
                if let Ok(key) = key.parse() {
                    builder = builder.with_config(key, value);
                }
            }
            for (key, value) in options.of_store(kind) {
                let key: AmazonS3ConfigKey = key.parse().map_err(|_| unknown(key))?;
                builder = builder.with_config(key, value);
            }
            check_address(builder.get_config_value(&AmazonS3ConfigKey::Endpoint))?;
            check_address(builder.get_config_value(&AmazonS3ConfigKey::S3Endpoint))?;
            builder = builder.with_bucket_name(bucket).with_retry(retry);
            Arc::new(builder.with_http_connector(connector).build().map_err(failed)?)
        }
        StoreKind::Gcs => {
            let mut builder = GoogleCloudStorageBuilder::new();
            if let Some(path) = environment.get("SERVICE_ACCOUNT") {
                builder = builder.with_service_account_path(path);
            }
            for (key, value) in environment.options("GOOGLE_") {
                if let Ok(key) = key.parse() {
                    builder = builder.with_config(key, value);
                }
            }
            for (key, value) in options.of_store(kind) {
                let key: GoogleConfigKey = key.parse().map_err(|_| unknown(key))?;
                builder = builder.with_config(key, value);
            }
            check_address(builder.get_config_value(&GoogleConfigKey::BaseUrl))?;
            builder = builder.with_bucket_name(bucket).with_retry(retry);
            Arc::new(builder.with_http_connector(connector).build().map_err(failed)?)
        }
        StoreKind::Azure => {
            let mut builder = MicrosoftAzureBuilder::new();
            for (key, value) in environment.options("AZURE_") {
                if let Ok(key) = key.parse() {
                    builder = builder.with_config(key, value);
                }
            }
            if let Some(address) = environment.get("IDENTITY_ENDPOINT") {
                builder = builder.with_msi_endpoint(address);
            }
            for (key, value) in options.of_store(kind) {
                let key: AzureConfigKey = key.parse().map_err(|_| unknown(key))?;
                builder = builder.with_config(key, value);
            }
            check_address(builder.get_config_value(&AzureConfigKey::Endpoint))?;
            builder = builder.with_container_name(bucket).with_retry(retry);
            Arc::new(builder.with_http_connector(connector).build().map_err(failed)?)
        }
        StoreKind::Http | StoreKind::Hub => return Err(unknown("bucket")),
    })
}

/// The crate takes any text for the address of a store, and panics once it asks there.
fn check_address(address: Option<String>) -> io::Result<()> {
    let Some(address) = address else { return Ok(()) };
    let is_sound = address
        .parse()
        .is_ok_and(|url: Url| matches!(url.scheme(), "http" | "https") && url.has_host());
    if is_sound {
        return Ok(());
    }
    let why = "the address of the store is no URL: write it as https://minio.lab:9000";
    Err(failure::permanent(ErrorKind::InvalidInput, why))
}

fn version(of: &ObjectMeta) -> FileVersion {
    let tag = of.e_tag.as_deref().or(of.version.as_deref());
    let id = tag.map(|tag| hash::fnv1a(tag.as_bytes())).unwrap_or_default();
    FileVersion { len: of.size, id, modified: (of.last_modified.timestamp(), id as i64) }
}

/// What the crate reports, in our own words where it is a refusal or an error of the connection.
fn of_store(error: &object_store::Error, seen: Seen) -> io::Error {
    if let Some((of, refusal)) = seen.refusal {
        return failure::with_code(refusal, &error.to_string(), of);
    }
    let causes =
        std::iter::successors(Some(error as failure::Cause<'_>), |e| failure::next_cause(*e));
    if let Some(ours) = causes.filter_map(failure::copied).last() {
        return ours;
    }
    if let object_store::Error::InvalidPath { source } = error {
        let why = format!(
            "it has a key that cannot be read ({source}); name the shards, or a folder without \
             such keys"
        );
        return failure::permanent(ErrorKind::InvalidData, why);
    }
    let text = error.to_string();
    if text.contains("non-partial response") {
        return failure::no_ranges();
    }
    if WRONG_RANGE.iter().any(|part| text.contains(part)) {
        return failure::transient(
            ErrorKind::InvalidData,
            "the store answered with another range than it was asked for",
        );
    }
    failure::permanent(ErrorKind::Other, text)
}

/// A query as its signature has it, with every letter percent-encoded but the unreserved ones. The crate
/// writes it as forms do, which servers other than Amazon's may not take for the same.
fn as_signed(query: &str) -> String {
    query.replace('+', "%20").replace('*', "%2A").replace("%7E", "~")
}

/// Gives all stores the process's own client.
#[derive(Clone, Debug)]
struct Connector {
    client: Client,
    kind: StoreKind,
    allows_http: bool,
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        // The emulators' own, and what the environment says.
        let key = object_store::ClientConfigKey::AllowHttp;
        let allows = options.get_config_value(&key).is_some_and(|value| value == "true");
        let allows_http = self.allows_http || allows;
        Ok(HttpClient::new(Self { allows_http, ..self.clone() }))
    }
}

#[async_trait]
impl HttpService for Connector {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let refuse = |error: io::Error| HttpError::new(HttpErrorKind::Unknown, error);
        let (parts, body) = request.into_parts();
        let mut url: Url = match parts.uri.to_string().parse() {
            Ok(url) => url,
            Err(error) => {
                let why = format!("the address is not valid: {error}");
                return Err(refuse(failure::permanent(ErrorKind::InvalidInput, why)));
            }
        };
        if let Some(query) = url.query().map(as_signed) {
            url.set_query(Some(&query));
        }
        let is_of_machine = url.host_str().is_some_and(|host| OF_MACHINES.contains(&host));
        if url.scheme() == "http" && !self.allows_http && !is_of_machine {
            let why = "the address of the store begins with http://, over which anybody can read \
                along: storage_options={\"allow_http\": \"true\"} or $AWS_ALLOW_HTTP=true allow it";
            return Err(refuse(failure::permanent(ErrorKind::InvalidInput, why)));
        }
        let is_range = parts.headers.contains_key(RANGE);
        let is_first_byte = parts.headers.get(RANGE).is_some_and(|range| range == "bytes=0-0");
        let is_page = url
            .query_pairs()
            .any(|(name, value)| name == "list-type" || (name == "comp" && value == "list"));
        if is_page {
            let begun = SEEN.try_with(|seen| seen.borrow_mut().pages.begin(&url));
            begun.unwrap_or(Ok(())).map_err(refuse)?;
        }
        redirects::begin();
        let mut sent = Request::new(parts.method, url);
        *sent.headers_mut() = parts.headers;
        *sent.body_mut() =
            body.as_bytes().filter(|bytes| !bytes.is_empty()).map(|b| b.clone().into());
        if is_of_machine {
            *sent.timeout_mut() = Some(MACHINE_TIMEOUT);
        }
        let mut got = match self.client.execute(sent).await {
            Ok(got) => got,
            Err(_) if is_of_machine => return Err(refuse(self.kind.without_credentials())),
            Err(error) => return Err(refuse(failure::of_request(&error))),
        };
        let status = got.status();
        if is_of_machine && !status.is_success() {
            return Err(refuse(self.kind.without_credentials()));
        }
        if status.is_success() && is_range {
            note(|seen| (seen.refusal, seen.len) = (None, None));
            let (parts, body) = http::Response::<reqwest::Body>::from(got).into_parts();
            let body = body.map_err(move |error| refuse(failure::of_request(&error)));
            return Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body)));
        }
        // The crate reads these whole, however long they are.
        let body = if status.is_success() {
            let body = pages::whole(&mut got, MAX_PAGE_BYTES).await.map_err(refuse)?;
            if is_page {
                let came = SEEN.try_with(|seen| seen.borrow_mut().pages.came_as_xml(&body));
                came.unwrap_or(Ok(())).map_err(refuse)?;
            }
            note(|seen| (seen.refusal, seen.len) = (None, None));
            body
        } else {
            let refusal = failure::of_status(status, got.headers(), self.kind);
            let body = pages::refusal(&mut got).await;
            let len = len_of_refused(&got, &body, is_first_byte);
            note(|seen| (seen.refusal, seen.len) = (Some((self.kind, refusal)), len));
            body
        };
        let (parts, _) = http::Response::<reqwest::Body>::from(got).into_parts();
        Ok(HttpResponse::from_parts(parts, bytes::Bytes::from(body).into()))
    }
}

fn note(change: impl FnOnce(&mut Seen)) {
    let _ = SEEN.try_with(|seen| change(&mut seen.borrow_mut()));
}

/// The length of a file that does not have the range which was asked for.
fn len_of_refused(got: &Response, body: &[u8], is_first_byte: bool) -> Option<u64> {
    if got.status().as_u16() != 416 {
        return None;
    }
    let header = got.headers().get(CONTENT_RANGE).and_then(|value| value.to_str().ok());
    let body = String::from_utf8_lossy(body);
    let said = || failure::element(&body, "ActualObjectSize")?.parse().ok();
    // Without a first byte it is empty, whether the store says so or not.
    header.and_then(len_without_range).or_else(said).or(is_first_byte.then_some(0))
}
