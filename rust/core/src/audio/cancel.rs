//! The flag that ends decoding early.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use super::error::Reason;

/// Asked between packets, so that a pipeline can close during a long recording.
#[derive(Clone, Debug, Default)]
pub(super) struct Cancel(Option<Arc<AtomicBool>>);

impl Cancel {
    pub(super) fn new(flag: Arc<AtomicBool>) -> Self {
        Self(Some(flag))
    }

    pub(super) fn check(&self) -> Result<(), Reason> {
        match &self.0 {
            Some(flag) if flag.load(Ordering::Relaxed) => Err(Reason::Cancelled),
            _ => Ok(()),
        }
    }
}
