//! A fence around code of others that may panic on bytes that nobody foresaw.

use std::panic;

use crate::{Error, Result, threads::panic_message};

/// Runs `decode`; a panic in it means that the bytes were not what they claimed to be.
pub(super) fn contain<T>(what: &str, decode: impl FnOnce() -> Result<T>) -> Result<T> {
    // Nothing that the closures here borrow is used again after a panic, except caches that
    // they only read.
    panic::catch_unwind(panic::AssertUnwindSafe(decode)).unwrap_or_else(|payload| {
        let message = panic_message(payload.as_ref());
        Err(Error::corrupt(format!("{what} cannot be decoded ({message})")))
    })
}
