//! What ends decoding early: the pipeline's flag, and the time that a row may take.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use super::error::{Exceeded, Reason};

/// Asked between packets, so that a pipeline can close during a long recording.
#[derive(Clone, Debug, Default)]
pub(super) struct Cancel {
    flag: Option<Arc<AtomicBool>>,
    /// When the row's time is up, and how much it had.
    deadline: Option<(Instant, Duration)>,
}

impl Cancel {
    pub(super) fn new(flag: Arc<AtomicBool>) -> Self {
        Self { flag: Some(flag), deadline: None }
    }

    /// The same flag, for a row that begins now. The clock is not read where there is no limit.
    pub(super) fn begin(&mut self, allowed: Option<Duration>) {
        self.deadline = allowed.map(|allowed| (Instant::now() + allowed, allowed));
    }

    /// The time that is left of what was allowed.
    pub(super) fn left(&self) -> Option<Duration> {
        self.deadline.map(|(end, _)| end.saturating_duration_since(Instant::now()))
    }

    pub(super) fn check(&self) -> Result<(), Reason> {
        match &self.flag {
            Some(flag) if flag.load(Ordering::Relaxed) => return Err(Reason::Cancelled),
            _ => {}
        }
        match self.deadline {
            Some((end, allowed)) if Instant::now() >= end => {
                let what = format!("decoding took longer than {} s", allowed.as_secs_f64());
                Err(Exceeded::adjustable("max_decode_seconds", what))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_runs_out() {
        let mut cancel = Cancel::default();
        assert!(cancel.check().is_ok() && cancel.left().is_none());
        cancel.begin(Some(Duration::from_secs(3600)));
        assert!(cancel.check().is_ok() && cancel.left() > Some(Duration::from_secs(3000)));
        cancel.begin(Some(Duration::ZERO));
        assert!(matches!(cancel.check(), Err(Reason::Limit(_))));
        cancel.begin(None);
        assert!(cancel.check().is_ok());
    }
}
