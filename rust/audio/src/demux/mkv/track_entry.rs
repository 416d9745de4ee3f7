//! The track entry: which codec, at which rate.

use std::borrow::Cow;

/// What a track entry says, as far as it was read.
#[derive(Clone, Debug, Default)]
pub(super) struct TrackEntry<'a> {
    pub(super) number: u64,
    /// 2 is audio.
    pub(super) kind: u64,
    pub(super) codec: &'a [u8],
    /// The codec's own header.
    pub(super) private: &'a [u8],
    pub(super) rate_hz: Option<f64>,
    pub(super) output_rate_hz: Option<f64>,
    pub(super) n_channels: Option<u64>,
    /// Bits of a sample.
    pub(super) bits: Option<u64>,
    /// What the decoder must throw away at first.
    pub(super) delay_ns: u64,
    pub(super) is_encoded: bool,
    pub(super) is_encrypted: bool,
}

impl TrackEntry<'_> {
    /// The identifier of the codec, such as `A_OPUS`.
    pub(super) fn codec_id(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.codec)
    }

    /// Whether the rate of the sound is above that of its core: band replication makes the rest.
    pub(super) fn is_replicated(&self) -> bool {
        self.output_rate_hz.zip(self.rate_hz).is_some_and(|(output, core)| output > 1.5 * core)
    }
}
