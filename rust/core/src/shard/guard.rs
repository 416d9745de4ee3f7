//! Contains panics of other libraries on bytes that they did not foresee.

use gristmill_audio::contained;

use crate::{Error, Result, threads::panic_message};

/// Runs `decode`. A panic in it becomes an error: the bytes of `what` were not what they claimed.
pub(super) fn contain<T>(what: &str, decode: impl FnOnce() -> Result<T>) -> Result<T> {
    // After a panic, the closures' borrows are used no more, except caches that they only read.
    contained(decode).unwrap_or_else(|payload| {
        let message = panic_message(payload.as_ref());
        Err(Error::corrupt(format!("{what} cannot be decoded ({message})")))
    })
}
