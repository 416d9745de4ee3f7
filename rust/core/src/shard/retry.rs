//! Which failures of storage may pass, and how long to wait for that.

use std::{
    io,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Duration,
};

use super::open_files::is_out_of_descriptors;
use crate::{Error, ErrorKind, Result};

/// Waited before the first retry; each further one waits twice as long as the one before.
const FIRST: Duration = Duration::from_millis(100);

/// No retry waits longer.
const LONGEST: Duration = Duration::from_secs(10);

/// How often a waiting thread looks whether it is to stop.
const CANCEL_CHECK: Duration = Duration::from_millis(10);

/// The numbers of "input/output error" and "remote I/O error" on Linux, for which the standard
/// library has no kinds.
const EIO: i32 = 5;
const EREMOTEIO: i32 = 121;

/// The attempts at one request.
#[derive(Debug)]
pub(super) struct Retry<'a> {
    left: u32,
    wait: Duration,
    cancel: &'a AtomicBool,
}

impl<'a> Retry<'a> {
    /// `retries` more attempts after the first, unless `cancel` is set.
    pub(super) fn new(retries: u32, cancel: &'a AtomicBool) -> Self {
        Self { left: retries, wait: FIRST, cancel }
    }

    /// Waits before the next attempt, or returns `error` where there is none: it cannot pass, or
    /// all attempts are used up.
    ///
    /// # Errors
    ///
    /// `error` itself, and `Closed` when cancelled while waiting.
    pub(super) fn after(&mut self, error: Error) -> Result<()> {
        let may_pass = matches!(error.kind(), ErrorKind::Io(e) if may_pass(e));
        let Some(left) = self.left.checked_sub(1).filter(|_| may_pass) else { return Err(error) };
        self.left = left;
        let mut left = self.wait;
        while !left.is_zero() {
            if self.cancel.load(Relaxed) {
                return Err(Error::new(ErrorKind::Closed));
            }
            let nap = left.min(CANCEL_CHECK);
            thread::sleep(nap);
            left -= nap;
        }
        self.wait = (2 * self.wait).min(LONGEST);
        Ok(())
    }
}

/// Whether the same request may succeed later.
///
/// A path that was there and is gone counts: a mount may come back. So does an end of file before
/// the end, which some network file systems report while they recover, and a want of descriptors, which
/// others give back.
fn may_pass(e: &io::Error) -> bool {
    use io::ErrorKind as K;
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
