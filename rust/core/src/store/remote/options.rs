//! What a user says of a store: credentials, addresses, time-outs.

use std::{fmt, io, sync::Arc, time::Duration};

use reqwest::header::HeaderValue;

use super::failure::{self, StoreKind};

/// Keys and values, as polars and delta-rs take them. Cloning is cheap.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct StorageOptions(Arc<[(String, String)]>);

impl fmt::Debug for StorageOptions {
    /// Without the values, any of which may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.iter().map(|(key, _)| key)).finish()
    }
}

impl StorageOptions {
    /// These pairs; of a key that comes twice, the first.
    pub fn new(pairs: Vec<(String, String)>) -> Self {
        Self(pairs.into())
    }

    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    pub(super) fn is_on(&self, key: &str) -> bool {
        self.get(key) == Some("true")
    }

    /// Seconds.
    pub(super) fn time(&self, key: &str) -> Option<Duration> {
        Duration::try_from_secs_f64(self.get(key)?.parse().ok()?).ok()
    }

    /// What was given, or else what the user's files say for this kind of store.
    pub(super) fn found(&self, kind: StoreKind, key: &str) -> Option<&str> {
        self.get(key).or_else(|| {
            let of_kind = |name: &str| split_kind(name) == (Some(kind.scheme()), key);
            self.0.iter().find(|(name, _)| of_kind(name)).map(|(_, value)| value.as_str())
        })
    }

    /// The header that shows a token, which `token` is for servers and the Hub.
    ///
    /// # Errors
    ///
    /// Where no header can hold it.
    pub(super) fn bearer(&self, kind: StoreKind) -> io::Result<Option<HeaderValue>> {
        let Some(token) = self.found(kind, "token").filter(|token| !token.is_empty()) else {
            return Ok(None);
        };
        let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| {
            let why = "the token has characters that no token has";
            failure::permanent(io::ErrorKind::InvalidInput, why)
        })?;
        value.set_sensitive(true);
        Ok(Some(value))
    }

    /// Those that are the object store's own: all but ours, which are of requests, and those that the
    /// files of another kind of store say.
    pub(super) fn of_store(&self, kind: StoreKind) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().filter_map(move |(name, value)| {
            let (of, key) = split_kind(name);
            let is_of_kind = of.is_none_or(|scheme| scheme == kind.scheme());
            (is_of_kind && !CLIENT_KEYS.contains(&key)).then_some((key, value.as_str()))
        })
    }
}

/// `s3:aws_region`, which a file of the user says for one kind of store, and `aws_region`, which was
/// given.
fn split_kind(name: &str) -> (Option<&str>, &str) {
    match name.split_once(':') {
        Some((scheme, key)) => (Some(scheme), key),
        None => (None, name),
    }
}

/// Of requests, whatever store they go to. Python has checked and normalised the values.
const CLIENT_KEYS: [&str; 5] =
    ["allow_http", "allow_invalid_certificates", "connect_timeout", "proxy_url", "timeout"];
