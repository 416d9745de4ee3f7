//! The track entry: which codec, at which rate.

use std::borrow::Cow;

use crate::{
    codec::{CODECS, Coding},
    demux::packets::{Track, limited},
    error::{Exceeded, Reason},
    names::Codec,
};

/// What a track entry says, as far as it was read.
#[derive(Clone, Debug, Default)]
pub(crate) struct TrackEntry<'a> {
    pub(super) number: u64,
    /// 2 is audio.
    pub(super) kind: u64,
    pub(super) codec: &'a [u8],
    /// The codec's own header.
    pub(crate) private: &'a [u8],
    pub(super) rate_hz: Option<f64>,
    pub(super) output_rate_hz: Option<f64>,
    pub(super) n_channels: Option<u64>,
    /// Bits of a sample.
    pub(crate) bits: Option<u64>,
    /// What the decoder must throw away at first.
    pub(crate) delay_ns: u64,
    pub(super) is_encoded: bool,
    pub(super) is_encrypted: bool,
}

impl TrackEntry<'_> {
    /// How the track is coded.
    pub(super) fn track(&self) -> Result<Track, Reason> {
        if self.is_encrypted {
            return Err(unsupported("an encrypted Matroska track"));
        }
        if self.is_encoded {
            return Err(unsupported("Matroska with compressed tracks"));
        }
        let track = CODECS.iter().find_map(|codec| codec.in_matroska(self));
        track.unwrap_or_else(|| {
            Err(unsupported(&format!("Matroska with {}", self.codec_id().escape_debug())))
        })
    }

    /// The identifier of the codec, such as `A_OPUS`.
    pub(crate) fn codec_id(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.codec)
    }

    /// Whether the rate of the sound is above that of its core: band replication makes the rest.
    pub(crate) fn is_replicated(&self) -> bool {
        self.output_rate_hz.zip(self.rate_hz).is_some_and(|(output, core)| output > 1.5 * core)
    }

    /// A track whose rate and channels stand in the entry alone.
    pub(crate) fn plain(
        &self,
        codec: Codec,
        coding: impl Coding + 'static,
    ) -> Result<Track, Reason> {
        let rate = self.rate_hz.unwrap_or(8000.0);
        if !(1.0..=4e9).contains(&rate) {
            return Err(Exceeded::fixed("max_sample_rate", format!("a rate of {rate} Hz")));
        }
        let n_channels = limited(self.n_channels.unwrap_or(1))?;
        Ok(Track::new(codec, rate.round() as u32, n_channels, coding))
    }
}

fn unsupported(name: &str) -> Reason {
    Reason::UnsupportedCodec(name.to_owned())
}
