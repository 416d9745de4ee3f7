//! What the headers of a recording say.

use crate::{error::Reason, names::Codec, resample::Ratio};

/// What the headers say of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AudioInfo {
    /// The codec.
    pub codec: Codec,
    /// Frames a second.
    pub rate_hz: u32,
    /// Channels, at least 1.
    pub n_channels: u16,
    /// Playable frames: encoder delay and padding are not counted.
    pub n_frames: u64,
}

impl AudioInfo {
    /// Length in seconds.
    pub fn duration_s(&self) -> f64 {
        self.n_frames as f64 / f64::from(self.rate_hz)
    }

    /// Its length in frames at another rate, as decoding it at that rate gives.
    ///
    /// # Errors
    ///
    /// [`Reason::Limit`] for a ratio of rates that is not resampled.
    pub fn frames_at(&self, rate_hz: u32) -> Result<u64, Reason> {
        let ratio = Ratio::of(self.rate_hz, rate_hz)?;
        Ok(ratio.map_or(self.n_frames, |ratio| ratio.n_out(self.n_frames)))
    }
}
