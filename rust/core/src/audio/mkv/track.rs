//! The track entry: which codec, at which rate.

use crate::audio::{
    bytes::{from, u8_at},
    error::{Codec, Exceeded, Reason},
    ogg,
    opus::Head,
    packets::{Coding, Pcm, Track, limited},
};

/// What a track entry says, as far as it was read.
#[derive(Clone, Debug, Default)]
pub(super) struct Entry<'a> {
    pub(super) number: u64,
    /// 2 is audio.
    pub(super) kind: u64,
    pub(super) codec: &'a [u8],
    pub(super) private: &'a [u8],
    pub(super) rate_hz: Option<f64>,
    pub(super) output_rate_hz: Option<f64>,
    pub(super) n_channels: Option<u64>,
    pub(super) bits: Option<u64>,
    pub(super) delay_ns: u64,
    pub(super) is_encoded: bool,
    pub(super) is_encrypted: bool,
}

impl Entry<'_> {
    /// How the track is coded.
    pub(super) fn track(&self) -> Result<Track, Reason> {
        let id = String::from_utf8_lossy(self.codec);
        let unsupported = |name: &str| Err(Reason::UnsupportedCodec(name.to_owned()));
        if self.is_encrypted {
            return unsupported("an encrypted Matroska track");
        }
        if self.is_encoded {
            return unsupported("Matroska with compressed tracks");
        }
        match &*id {
            "A_AAC" if self.is_replicated() => unsupported("HE-AAC"),
            "A_AAC" => Track::aac(self.private),
            "A_ALAC" => Track::alac(self.private),
            "A_FLAC" if self.private.starts_with(b"fLaC") => Track::flac(from(self.private, 8)),
            "A_FLAC" => Err(Reason::malformed("there is no STREAMINFO")),
            "A_VORBIS" => self.vorbis(),
            "A_MPEG/L3" => self.plain(Codec::Mp3, Coding::Mp3),
            "A_MPEG/L2" => unsupported("MPEG layer II in Matroska"),
            "A_OPUS" => Head::read(self.private).map(Track::opus),
            id if id.starts_with("A_AAC/") && id.ends_with("SBR") => unsupported("HE-AAC"),
            id if id.starts_with("A_PCM/") => match Pcm::of_matroska(id, self.bits.unwrap_or(16)) {
                Some(pcm) => self.plain(Codec::Wav, Coding::Pcm(pcm)),
                None => unsupported(&format!("Matroska with {id}")),
            },
            id => unsupported(&format!("Matroska with {}", id.escape_debug())),
        }
    }

    /// Whether the rate of the sound is above that of its core: band replication makes the rest.
    fn is_replicated(&self) -> bool {
        self.output_rate_hz.zip(self.rate_hz).is_some_and(|(output, core)| output > 1.5 * core)
    }

    /// A codec whose rate and channels stand in the entry alone.
    fn plain(&self, codec: Codec, coding: Coding) -> Result<Track, Reason> {
        let rate = self.rate_hz.unwrap_or(8000.0);
        if !(1.0..=4e9).contains(&rate) {
            return Err(Exceeded::fixed("max_sample_rate", format!("a rate of {rate} Hz")));
        }
        let n_channels = limited(self.n_channels.unwrap_or(1))?;
        Ok(Track { codec, rate_hz: rate.round() as u32, n_channels, coding, frame_len: 0 })
    }

    /// Three headers, laced as in Ogg.
    fn vorbis(&self) -> Result<Track, Reason> {
        let headers = || {
            let mut at = 1;
            let mut lens = [0usize; 2];
            for len in &mut lens {
                loop {
                    let byte = u8_at(self.private, at)?;
                    at += 1;
                    *len += usize::from(byte);
                    if byte < 255 {
                        break;
                    }
                }
            }
            let [ident, comment] = lens;
            let rest = (u8_at(self.private, 0)? == 2).then(|| from(self.private, at))?;
            let (ident, rest) = rest.split_at_checked(ident)?;
            let (_, setup) = rest.split_at_checked(comment)?;
            Some((ident, setup))
        };
        let (ident, setup) =
            headers().ok_or_else(|| Reason::malformed("the Vorbis headers do not parse"))?;
        let shape = ogg::Ident::read(ident)?;
        let coding = Coding::Vorbis([ident, setup].concat().into());
        let (rate_hz, n_channels) = (shape.rate_hz, limited(shape.n_channels)?);
        Ok(Track { codec: Codec::Vorbis, rate_hz, n_channels, coding, frame_len: 0 })
    }
}
