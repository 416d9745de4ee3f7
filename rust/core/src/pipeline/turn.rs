//! The pipeline as the pool sees it: read rows are the work, one of them a turn.

use std::{sync::Arc, time::Instant};

use super::{Job, Shared};
use crate::{
    error::{Error, ErrorKind, Result},
    pool::Work,
};

impl Shared {
    /// Lets the pool's threads decode for this pipeline, from now until its seat is left.
    pub(super) fn take_seat(self: &Arc<Self>) -> Result<()> {
        let work: Arc<dyn Work> = Arc::clone(self) as _;
        let seat = self.pool.join(work, self.options.n_threads())?;
        self.seat.get_or_init(|| seat);
        Ok(())
    }

    /// Hands a row that has been read to the decoders.
    pub(super) fn hand_over(&self, job: Job) {
        self.queue.push(job);
        if let Some(seat) = self.seat.get() {
            seat.wake();
        }
    }
}

impl Work for Shared {
    fn n_ready(&self) -> usize {
        // Closing waits for the readers first, and there is nothing to do meanwhile.
        if self.is_closed() { 0 } else { self.queue.n_read() }
    }

    fn is_over(&self) -> bool {
        self.queue.is_over()
    }

    fn turn(&self, began: Instant) {
        self.decode_next(began);
    }

    fn panicked(&self, message: String) {
        self.queue.fail(Error::new(ErrorKind::WorkerPanicked(message)));
    }
}
