//! Where redirects led the request that a thread waits for.

use std::cell::RefCell;

use reqwest::Url;

tokio::task_local! {
    static LED_TO: RefCell<Option<String>>;
}

/// Runs `work`, which may ask for [`led_to`].
pub(super) async fn noting<T>(work: impl Future<Output = T>) -> T {
    LED_TO.scope(RefCell::default(), work).await
}

/// Forgets the redirects of the request before.
pub(super) fn begin() {
    let _ = LED_TO.try_with(RefCell::take);
}

/// The request follows a redirect to this address.
pub(super) fn note(url: &Url) {
    let host = url.host_str().unwrap_or("unknown");
    let name = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
    let _ = LED_TO.try_with(|led_to| led_to.replace(Some(name)));
}

/// The host to which the last redirect of this request led.
pub(super) fn led_to() -> Option<String> {
    LED_TO.try_with(|led_to| led_to.borrow().clone()).ok().flatten()
}
