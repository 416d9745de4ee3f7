//! Which I/O errors are transient, and how long to wait before the next attempt.

use std::{io, thread, time::Duration};

use super::{descriptors::is_out_of_descriptors, remote::RequestError};
use crate::{Error, ErrorKind, Result};

/// Waited before the first retry; each further one waits twice as long as the one before.
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// No retry waits longer.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// No server is left alone for longer, whatever it asks for.
const LONGEST_ASKED_WAIT: Duration = Duration::from_secs(120);

/// How often a waiting thread checks for cancellation.
pub(super) const CANCEL_CHECK: Duration = Duration::from_millis(10);

/// "Input/output error" and "remote I/O error" on Linux, for which the standard library has no
/// kinds.
const EIO: i32 = 5;
const EREMOTEIO: i32 = 121;

/// The attempts at one request.
pub(super) struct Retry<C, P> {
    left: u32,
    wait: Duration,
    is_cancelled: C,
    paused: P,
}

impl<C: Fn() -> bool, P: Fn(Duration)> Retry<C, P> {
    /// `retries` more attempts after the first, until `is_cancelled`. `paused` is told how long was
    /// waited for them, little by little.
    pub(super) fn new(retries: u32, is_cancelled: C, paused: P) -> Self {
        Self { left: retries, wait: FIRST_WAIT, is_cancelled, paused }
    }

    /// Waits before the next attempt; longer where a server asks for that.
    ///
    /// # Errors
    ///
    /// `error` itself where it is not transient or no attempt is left; `Closed` when cancelled
    /// while waiting.
    pub(super) fn after(&mut self, error: Error) -> Result<()> {
        let is_transient = matches!(error.kind(), ErrorKind::Io(e) if is_transient(e));
        let Some(left) = self.left.checked_sub(1).filter(|_| is_transient) else {
            return Err(error);
        };
        self.left = left;
        let asked = match error.kind() {
            ErrorKind::Io(e) => RequestError::of(e).and_then(|e| e.retry_after),
            _ => None,
        };
        let mut wait = self.wait.max(asked.unwrap_or_default().min(LONGEST_ASKED_WAIT));
        while !wait.is_zero() {
            if (self.is_cancelled)() {
                return Err(Error::new(ErrorKind::Closed));
            }
            let nap = wait.min(CANCEL_CHECK);
            thread::sleep(nap);
            (self.paused)(nap);
            wait -= nap;
        }
        self.wait = (2 * self.wait).min(LONGEST_WAIT);
        Ok(())
    }
}

/// Whether the same request may succeed later.
///
/// `NotFound` counts where the path was there before: a mount may come back. So does an end of file
/// before the file's length, which some network file systems report while they recover, and a lack
/// of descriptors.
fn is_transient(e: &io::Error) -> bool {
    use io::ErrorKind as K;

    if let Some(request) = RequestError::of(e) {
        return request.is_transient;
    }
    matches!(
        e.kind(),
        K::StaleNetworkFileHandle
            | K::TimedOut
            | K::WouldBlock
            | K::NotConnected
            | K::ConnectionReset
            | K::ConnectionAborted
            | K::ConnectionRefused
            | K::HostUnreachable
            | K::NetworkUnreachable
            | K::NetworkDown
            | K::UnexpectedEof
            | K::NotFound
    ) || matches!(e.raw_os_error(), Some(EIO | EREMOTEIO))
        || is_out_of_descriptors(e)
}
