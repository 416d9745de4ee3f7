//! One row after another, as reading and decoding threads work: what has come of a row is reported,
//! and the next one claimed, under one lock.

use super::queue::{CompleteBatch, Items, Queue};

/// The work of a thread at a queue.
pub(crate) trait RowLoop {
    type Items: Items;
    /// What is worked on.
    type Claimed;
    /// What has come of it.
    type Outcome;

    /// Changes the queue, and wakes those that can go on.
    fn update<T>(&self, change: impl FnOnce(&mut Queue<Self::Items>) -> T) -> T;

    /// Claims what can be worked on next. Called under the queue's lock.
    fn claim(&self, queue: &mut Queue<Self::Items>) -> Option<Self::Claimed>;

    /// Works on it. Returns what is to be reported, if anything.
    fn work(&mut self, claimed: Self::Claimed) -> Option<Self::Outcome>;

    /// Reports what has come of it. Called under the queue's lock.
    fn report(
        outcome: Self::Outcome,
        queue: &mut Queue<Self::Items>,
    ) -> Option<CompleteBatch<Self::Items>>;

    /// Joins the rows of a batch that is complete.
    fn join(&self, complete: CompleteBatch<Self::Items>);

    /// Works until there is nothing to claim, or `goes_on` returns `false` after a row.
    fn run(&mut self, mut goes_on: impl FnMut() -> bool) {
        let (mut outcome, mut claims) = (None, true);
        while claims || outcome.is_some() {
            let reported = outcome.take();
            let (complete, next) = self.update(|queue| {
                let complete = reported.and_then(|outcome| Self::report(outcome, queue));
                // A batch that is complete is joined before the next row begins.
                let claims = claims && complete.is_none();
                let next = if claims { self.claim(queue) } else { None };
                (complete, next)
            });
            match (complete, next) {
                (Some(complete), _) => self.join(complete),
                (None, Some(claimed)) => {
                    outcome = self.work(claimed);
                    claims = goes_on();
                }
                (None, None) => return,
            }
        }
    }
}
