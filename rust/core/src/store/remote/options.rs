//! What a user says of a store: credentials, addresses, time-outs.

use std::{fmt, io, sync::Arc, time::Duration};

use reqwest::header::HeaderValue;

use super::failure;

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

    /// The header that shows a token, which `token` is for servers and the Hub.
    ///
    /// # Errors
    ///
    /// Where no header can hold it.
    pub(super) fn bearer(&self) -> io::Result<Option<HeaderValue>> {
        let Some(token) = self.get("token").filter(|token| !token.is_empty()) else {
            return Ok(None);
        };
        let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| {
            let why = "the token has characters that no token has";
            failure::permanent(io::ErrorKind::InvalidInput, why)
        })?;
        value.set_sensitive(true);
        Ok(Some(value))
    }

    /// Those that are the object store's own: all but ours, which are of requests.
    pub(super) fn of_store(&self) -> impl Iterator<Item = (&str, &str)> {
        let of_requests = |key: &str| CLIENT_KEYS.contains(&key);
        let pairs = self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        pairs.filter(move |(key, _)| !of_requests(key))
    }
}

/// Of requests, whatever store they go to. Python has checked and normalised the values.
const CLIENT_KEYS: [&str; 5] =
    ["allow_http", "allow_invalid_certificates", "connect_timeout", "proxy_url", "timeout"];
