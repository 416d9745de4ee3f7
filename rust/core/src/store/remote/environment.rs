//! What the environment says of stores and connections, as it was at one time.

use std::{env, fmt, sync::Arc};

/// The variables that object stores take options from begin so.
const OF_STORES: [&str; 3] = ["AWS_", "GOOGLE_", "AZURE_"];

/// And these, which do not.
const OTHERS_OF_STORES: [&str; 2] = ["SERVICE_ACCOUNT", "IDENTITY_ENDPOINT"];

/// Clients are made of these.
const OF_CLIENTS: [&str; 11] = [
    "REQUEST_METHOD",
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
    "NO_PROXY",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// Those variables that are set, sorted. Cloning is cheap.
///
/// It is part of what tells stores and clients apart: credentials are rotated, and a data set that is
/// made afterwards asks with the new ones.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub(in crate::store) struct Environment(Arc<[(String, String)]>);

impl fmt::Debug for Environment {
    /// Without the values, any of which may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

impl Environment {
    pub(in crate::store) fn now() -> Self {
        Self::of(env::vars_os().filter_map(|(name, value)| {
            // What is not UTF-8 is no option.
            Some((name.into_string().ok()?, value.into_string().ok()?))
        }))
    }

    pub(super) fn of(variables: impl Iterator<Item = (String, String)>) -> Self {
        let is_ours = |name: &str| {
            OF_STORES.iter().any(|begin| name.starts_with(begin))
                || OTHERS_OF_STORES.contains(&name)
                || OF_CLIENTS.contains(&name)
        };
        let mut ours: Vec<_> = variables.filter(|(name, _)| is_ours(name)).collect();
        ours.sort_unstable();
        Self(ours.into())
    }

    /// What of it a client is made of: credentials that are rotated leave it as it is.
    pub(super) fn of_client(&self) -> Self {
        let ours = self.0.iter().filter(|(name, _)| OF_CLIENTS.contains(&name.as_str()));
        Self(ours.cloned().collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// The options of a kind of store, whose variables begin so.
    pub(super) fn options(&self, begin: &str) -> impl Iterator<Item = (String, &str)> {
        let ours = self.0.iter().filter(move |(name, _)| name.starts_with(begin));
        ours.map(|(name, value)| (name.to_ascii_lowercase(), value.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_matters_tells_environments_apart_and_no_value_is_printed() {
        let of = |pairs: &[(&str, &str)]| {
            Environment::of(pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())))
        };
        let one = of(&[("PWD", "/"), ("AWS_REGION", "eu"), ("AWS_ACCESS_KEY_ID", "s3cret")]);
        assert_eq!(one, of(&[("AWS_ACCESS_KEY_ID", "s3cret"), ("AWS_REGION", "eu")]));
        assert_ne!(one, of(&[("AWS_ACCESS_KEY_ID", "new"), ("AWS_REGION", "eu")]));
        assert_ne!(of(&[("https_proxy", "http://a")]).of_client(), one.of_client());
        assert_eq!(one.of_client(), of(&[]));
        assert_eq!(format!("{one:?}"), r#"{"AWS_ACCESS_KEY_ID", "AWS_REGION"}"#);
        let options: Vec<_> = one.options("AWS_").collect();
        assert_eq!(options[1], ("aws_region".to_owned(), "eu"));
        assert_eq!((one.get("AWS_REGION"), one.get("PWD")), (Some("eu"), None));
    }
}
