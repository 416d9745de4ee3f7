//! What reading and decoding rows refers to, in a stream as in random access.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering},
};

use crate::{
    engine::{
        cache::AudioIndexes,
        dataset::{Dataset, Options},
    },
    memory::Account,
    metrics::Metrics,
    store::Store,
};

/// The options, the data set, and a share of the process's resources.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) options: Options,
    /// Set once the shards are open.
    pub(crate) dataset: OnceLock<Dataset>,
    pub(crate) account: Arc<Account>,
    pub(crate) store: Arc<Store>,
    pub(crate) metrics: Metrics,
    pub(crate) audio_index: Arc<AudioIndexes>,
    pub(crate) closed: Arc<AtomicBool>,
}

impl Context {
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// That recordings are resampled to the rate of the features, if they are; once.
    pub(crate) fn take_rate_notice(&self) -> Option<String> {
        self.dataset.get()?.rate_notice.take(self.metrics.resample.count() > 0)
    }
}
