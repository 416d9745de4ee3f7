//! The rate that the Hugging Face features name for a column: what audio is decoded at where no other
//! was asked for, as `datasets` does it.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::options::SourceOptions;
use crate::{
    error::{Error, Result},
    shard::Shard,
};
use gristmill_audio::RATES_HZ;

/// The rate in Hz at which this column, the n-th that is decoded, is decoded by its features; `None` where
/// the options say the rate, or where no features do.
///
/// # Errors
///
/// `Schema` where shards name several: recordings of one column have one rate.
pub(crate) fn features_rate(
    source: &SourceOptions,
    shards: &[Shard],
    (n, column): (usize, &str),
) -> Result<Option<u32>> {
    if !source.follows_features(n) {
        return Ok(None);
    }
    if let Some(rates) = &source.audio_rates {
        let rate = rates.iter().filter(|(name, _)| name == column).find_map(|(_, rate)| *rate);
        return Ok(rate.filter(|rate| RATES_HZ.contains(rate)));
    }
    let (mut found, mut last): (Option<(u32, &Shard)>, Option<&String>) = (None, None);
    for shard in shards {
        // Thousands of shards may have the same features: they are parsed once.
        let features = shard.features_json();
        if features.is_none() || features == last {
            continue;
        }
        last = features;
        let rate = shard.audio_rate(column).filter(|rate| RATES_HZ.contains(rate));
        match (rate, found) {
            (Some(rate), None) => found = Some((rate, shard)),
            (Some(rate), Some((first, of))) if rate != first => {
                return Err(Error::schema(
                    column,
                    format!(
                        "the features of {} name a rate of {first} Hz and those of {} {rate} Hz; \
                         write gm.Audio(sample_rate={first}), or sample_rate=None to keep each \
                         file's own",
                        of.name(),
                        shard.name()
                    ),
                ));
            }
            _ => {}
        }
    }
    Ok(found.map(|(rate, _)| rate))
}

/// What is said once of recordings that are resampled to the rate of the features.
#[derive(Debug, Default)]
pub(crate) struct RateNotice {
    text: Option<String>,
    is_told: AtomicBool,
}

impl RateNotice {
    /// That of a column that is decoded at `rate_hz`, if the features say so.
    pub(crate) fn new(shard: &Shard, column: &str, rate_hz: Option<u32>) -> Self {
        let text = rate_hz.map(|rate| {
            format!(
                "{}: recordings of column {column:?} are resampled to {rate} Hz, the rate that its \
                 Hugging Face features name; write gm.Audio(sample_rate={rate}) to confirm it, or \
                 sample_rate=None to keep each file's own",
                shard.name()
            )
        });
        Self { text, is_told: AtomicBool::new(false) }
    }

    /// It, if recordings were resampled, and only once.
    pub(crate) fn take(&self, is_resampling: bool) -> Option<String> {
        let text = self.text.as_ref().filter(|_| is_resampling)?;
        (!self.is_told.swap(true, Relaxed)).then(|| text.clone())
    }
}
