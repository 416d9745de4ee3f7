//! The connections of a process, and the runtime that serves them.

use std::{
    io,
    num::NonZeroUsize,
    pin::pin,
    sync::{Arc, Mutex},
    task::Poll,
    time::{Duration, Instant},
};

use gristmill_audio::contained;
use lru::LruCache;
use object_store::ObjectStore;
use reqwest::{Client, Proxy, redirect};
use tokio::runtime::{Builder, Handle, Runtime};

use super::{
    environment::Environment,
    failure::{self, StoreKind},
    object,
    options::StorageOptions,
    redirects,
};
use crate::{sync::lock_std, threads::panic_message};

/// How often a waiting thread looks whether it was cancelled.
const CANCEL_CHECK: Duration = Duration::from_millis(50);

/// Threads that encrypt, decrypt and copy what comes in. The threads that wait do nothing.
const N_THREADS: usize = 2;

/// Threads that look up the names of hosts, which blocks.
const N_LOOKUPS: usize = 4;

/// A server that does not accept a connection in this time is not there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Connections that nobody uses are closed after this.
const IDLE: Duration = Duration::from_secs(30);

/// Redirects that are followed: to a mirror, or from a hub to where it stores its files.
const MAX_REDIRECTS: usize = 10;

/// Clients, and stores, that are kept for the next file: credentials that are rotated make new ones. A
/// file that is open keeps its own.
const MAX_KEPT: NonZeroUsize = NonZeroUsize::MIN.saturating_add(127);

/// The connections of a process. Clones are the same. Nothing is there before the first request.
///
/// As with threads and locks, a forked child needs connections of its own.
#[derive(Clone, Debug, Default)]
pub(in crate::store) struct Connections(Arc<Mutex<Option<Network>>>);

#[derive(Debug)]
struct Network {
    runtime: Runtime,
    /// What sends requests, by what users say of it. All of them share their connections.
    clients: LruCache<ClientKey, Client>,
    /// Each has its credentials, which are asked for once.
    stores: LruCache<StoreKey, Arc<dyn ObjectStore>>,
}

type StoreKey = (StoreKind, String, StorageOptions, Environment);

/// What a client is made of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ClientKey {
    connect_timeout: Duration,
    takes_any_certificate: bool,
    proxy: Option<String>,
    environment: Environment,
}

/// How long a request is waited for.
pub(super) struct Patience<C> {
    pub(super) timeout: Duration,
    pub(super) is_cancelled: C,
}

impl Connections {
    /// What sends requests. Its clones share their connections.
    pub(super) fn client(
        &self,
        options: &StorageOptions,
        environment: &Environment,
    ) -> io::Result<Client> {
        self.with_network(|network| network.client(options, environment))?
    }

    /// The store of a bucket.
    pub(super) fn store(
        &self,
        kind: StoreKind,
        bucket: &str,
        options: &StorageOptions,
        environment: &Environment,
    ) -> io::Result<Arc<dyn ObjectStore>> {
        self.with_network(|network| {
            let key = (kind, bucket.to_owned(), options.clone(), environment.clone());
            if let Some(store) = network.stores.get(&key) {
                return Ok(Arc::clone(store));
            }
            let client = network.client(options, environment)?;
            let store = object::build(kind, bucket, options, environment, &client)?;
            network.stores.put(key, Arc::clone(&store));
            Ok(store)
        })?
    }

    /// Waits until `request` has an answer; `None` where the time is over.
    ///
    /// # Errors
    ///
    /// Those of the request; one of its own when cancelled, after 50 ms at most, and when it panics.
    pub(super) fn wait<T>(
        &self,
        patience: &Patience<impl Fn() -> bool>,
        request: impl Future<Output = io::Result<T>>,
    ) -> io::Result<Option<T>> {
        let handle: Handle = self.with_network(|network| network.runtime.handle().clone())?;
        let end = Instant::now() + patience.timeout;
        handle.block_on(async {
            let mut request = pin!(without_panics(redirects::noting(request)));
            loop {
                let nap = CANCEL_CHECK.min(end.saturating_duration_since(Instant::now()));
                match tokio::time::timeout(nap, &mut request).await {
                    Ok(answer) => {
                        return answer.map(Some);
                    }
                    Err(_) if (patience.is_cancelled)() => return Err(failure::cancelled()),
                    Err(_) if nap < CANCEL_CHECK => return Ok(None),
                    Err(_) => {}
                }
            }
        })
    }

    fn with_network<T>(&self, take: impl FnOnce(&mut Network) -> T) -> io::Result<T> {
        let mut network = lock_std(&self.0);
        if let Some(network) = &mut *network {
            return Ok(take(network));
        }
        Ok(take(network.insert(Network::new()?)))
    }
}

impl Network {
    fn new() -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(N_THREADS)
            .max_blocking_threads(N_LOOKUPS)
            .thread_name("gristmill-net")
            .enable_io()
            .enable_time()
            .build()?;
        // Fails where it was done before, for another runtime of this process.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Ok(Self { runtime, clients: LruCache::new(MAX_KEPT), stores: LruCache::new(MAX_KEPT) })
    }

    fn client(
        &mut self,
        options: &StorageOptions,
        environment: &Environment,
    ) -> io::Result<Client> {
        let key = ClientKey {
            connect_timeout: options.time("connect_timeout").unwrap_or(CONNECT_TIMEOUT),
            takes_any_certificate: options.is_on("allow_invalid_certificates"),
            proxy: options.get("proxy_url").map(str::to_owned),
            environment: environment.of_client(),
        };
        if let Some(client) = self.clients.get(&key) {
            return Ok(client.clone());
        }
        let mut builder = Client::builder()
            .user_agent(concat!("gristmill/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(key.connect_timeout)
            .pool_idle_timeout(IDLE)
            .tls_danger_accept_invalid_certs(key.takes_any_certificate)
            .redirect(redirect::Policy::custom(follow))
            .referer(false)
            .retry(reqwest::retry::never());
        // Else the one that $HTTPS_PROXY and $NO_PROXY name, as the library knows them.
        if let Some(proxy) = &key.proxy {
            let proxy = Proxy::all(proxy).map_err(|error| failure::of_request(&error))?;
            builder = builder.proxy(proxy);
        }
        let client = builder.build().map_err(|error| failure::of_request(&error))?;
        self.clients.put(key, client.clone());
        Ok(client)
    }
}

/// A panic in `request` becomes an error.
async fn without_panics<T>(request: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let mut request = pin!(request);
    std::future::poll_fn(|context| {
        contained(|| request.as_mut().poll(context)).unwrap_or_else(|payload| {
            Poll::Ready(Err(failure::panicked(&panic_message(&*payload))))
        })
    })
    .await
}

/// Credentials do not go along to another host; that is the library's own rule.
fn follow(attempt: redirect::Attempt<'_>) -> redirect::Action {
    let is_from_tls = attempt.previous().last().is_some_and(|url| url.scheme() == "https");
    if is_from_tls && attempt.url().scheme() != "https" {
        attempt.error("it leads from https:// to http://")
    } else if attempt.previous().len() > MAX_REDIRECTS {
        attempt.error(format!("more than {MAX_REDIRECTS} of them"))
    } else {
        redirects::note(attempt.url());
        attempt.follow()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_environment_makes_another_store() {
        let environment = |key: usize| {
            let key = key.to_string();
            let pairs = [("AWS_SECRET_ACCESS_KEY", "s3cret"), ("AWS_ACCESS_KEY_ID", &key)];
            Environment::of(pairs.into_iter().map(|(a, b)| (a.to_owned(), b.to_owned())))
        };
        let (connections, options) = (Connections::default(), StorageOptions::default());
        let store =
            |key| connections.store(StoreKind::S3, "bucket", &options, &environment(key)).unwrap();
        let first = store(0);
        assert!(Arc::ptr_eq(&first, &store(0)) && !Arc::ptr_eq(&first, &store(1)));
        (0..150).map(store).for_each(drop);
        let n_kept = connections.with_network(|it| (it.stores.len(), it.clients.len())).unwrap();
        assert_eq!(n_kept, (MAX_KEPT.get(), 1));
    }

    #[test]
    fn a_request_that_panics_is_an_error() {
        let patience = Patience { timeout: Duration::from_secs(60), is_cancelled: || false };
        let asked = Connections::default().wait(&patience, async {
            assert!(patience.timeout.is_zero(), "this request panics");
            Ok(())
        });
        assert!(asked.unwrap_err().to_string().contains("the client of the store failed"));
    }
}
