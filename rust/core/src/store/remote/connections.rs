//! The connections of a process, and the runtime that serves them.

use std::{
    io,
    pin::pin,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use reqwest::{Client, redirect};
use tokio::runtime::{Builder, Handle, Runtime};

use super::failure;
use crate::sync::lock_std;

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

/// The connections of a process. Clones are the same. Nothing is there before the first request.
///
/// As with threads and locks, a forked child needs connections of its own.
#[derive(Clone, Debug, Default)]
pub(in crate::store) struct Connections(Arc<Mutex<Option<Network>>>);

#[derive(Debug)]
struct Network {
    runtime: Runtime,
    client: Client,
}

/// How long a request is waited for.
pub(super) struct Patience<C> {
    pub(super) timeout: Duration,
    pub(super) is_cancelled: C,
}

impl Connections {
    /// What sends requests. Its clones share their connections.
    pub(super) fn client(&self) -> io::Result<Client> {
        self.with_network(|network| network.client.clone())
    }

    /// Waits until `request` has an answer; `None` where the time is over.
    ///
    /// # Errors
    ///
    /// Those of the request; one of its own when cancelled, after 50 ms at most.
    pub(super) fn wait<T>(
        &self,
        patience: &Patience<impl Fn() -> bool>,
        request: impl Future<Output = io::Result<T>>,
    ) -> io::Result<Option<T>> {
        let handle: Handle = self.with_network(|network| network.runtime.handle().clone())?;
        let end = Instant::now() + patience.timeout;
        handle.block_on(async {
            let mut request = pin!(request);
            loop {
                let nap = CANCEL_CHECK.min(end.saturating_duration_since(Instant::now()));
                match tokio::time::timeout(nap, &mut request).await {
                    Ok(answer) => return answer.map(Some),
                    Err(_) if (patience.is_cancelled)() => return Err(failure::cancelled()),
                    Err(_) if nap < CANCEL_CHECK => return Ok(None),
                    Err(_) => {}
                }
            }
        })
    }

    fn with_network<T>(&self, take: impl Fn(&Network) -> T) -> io::Result<T> {
        let mut network = lock_std(&self.0);
        if let Some(network) = &*network {
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
        let client = Client::builder()
            .user_agent(concat!("gristmill/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(IDLE)
            // A proxy, as $HTTPS_PROXY and $NO_PROXY name it, is the library's own work.
            .redirect(redirect::Policy::custom(follow))
            .referer(false)
            .retry(reqwest::retry::never())
            .build()
            .map_err(|error| failure::of_request(&error))?;
        Ok(Self { runtime, client })
    }
}

/// Credentials do not go along to another host; that is the library's own rule.
fn follow(attempt: redirect::Attempt<'_>) -> redirect::Action {
    let is_from_tls = attempt.previous().last().is_some_and(|url| url.scheme() == "https");
    if is_from_tls && attempt.url().scheme() != "https" {
        attempt.error("it leads from https:// to http://")
    } else if attempt.previous().len() > MAX_REDIRECTS {
        attempt.error(format!("more than {MAX_REDIRECTS} of them"))
    } else {
        attempt.follow()
    }
}
