//! A fence around code of others that may panic on bytes that nobody foresaw.

use std::{any::Any, panic};

use crate::{Error, Result};

/// Runs `decode`; a panic in it means that the bytes were not what they claimed to be.
pub(super) fn contain<T>(what: &str, decode: impl FnOnce() -> Result<T>) -> Result<T> {
    // Nothing that the closures here borrow is used again after a panic, except caches that
    // they only read.
    panic::catch_unwind(panic::AssertUnwindSafe(decode)).unwrap_or_else(|payload| {
        let message = panic_message(payload.as_ref());
        Err(Error::corrupt(format!("{what} cannot be decoded ({message})")))
    })
}

/// What a panic said.
pub(super) fn panic_message(payload: &(dyn Any + Send)) -> &str {
    match (payload.downcast_ref::<String>(), payload.downcast_ref::<&str>()) {
        (Some(message), _) => message,
        (None, Some(message)) => message,
        (None, None) => "no reason given",
    }
}
