//! Which codecs Matroska carries, and where it keeps their headers.

use super::track_entry::TrackEntry;
use crate::{
    bytes::{from, u8_at},
    codec::{aac, alac, flac, mp3, opus, pcm::Pcm, vorbis},
    error::{Exceeded, Reason},
    names::Codec,
    stream::{Coding, Track, limited},
};

/// How the track of an entry is coded.
pub(super) fn track(entry: &TrackEntry<'_>) -> Result<Track, Reason> {
    if entry.is_encrypted {
        return refused("an encrypted Matroska track");
    }
    if entry.is_encoded {
        return refused("Matroska with compressed tracks");
    }
    match &*entry.codec_id() {
        "A_AAC" if entry.is_replicated() => refused("HE-AAC"),
        "A_AAC" => aac::track(entry.private),
        id if id.starts_with("A_AAC/") && id.ends_with("SBR") => refused("HE-AAC"),
        "A_ALAC" => alac::track(entry.private),
        "A_FLAC" => {
            let is_whole = entry.private.starts_with(b"fLaC");
            flac::track(if is_whole { from(entry.private, 8) } else { &[] })
        }
        "A_MPEG/L3" => plain(entry, Codec::Mp3, mp3::Coded),
        "A_MPEG/L2" => refused("MPEG layer II in Matroska"),
        "A_OPUS" => {
            let head = opus::Head::read(entry.private)?;
            // Less than half a frame says nothing.
            let delay = (entry.delay_ns < 10_417).then_some(head.pre_skip);
            Ok(Track { delay, ..opus::track(head, entry.private) })
        }
        id if id.starts_with("A_PCM/") => match Pcm::of_matroska(id, entry.bits.unwrap_or(16)) {
            Some(pcm) => plain(entry, Codec::Wav, pcm),
            None => refused(&format!("Matroska with {id}")),
        },
        "A_VORBIS" => {
            let headers = unlace(entry.private);
            let (ident, setup) =
                headers.ok_or_else(|| Reason::malformed("the Vorbis headers do not parse"))?;
            // The codec delay is what the first packet does not give. FFmpeg ignores it too.
            Ok(Track { delay: Some(0), ..vorbis::track(ident, setup)? })
        }
        id => refused(&format!("Matroska with {}", id.escape_debug())),
    }
}

fn refused(name: &str) -> Result<Track, Reason> {
    Err(Reason::UnsupportedCodec(name.to_owned()))
}

/// A track whose rate and channels are in the entry alone.
fn plain(
    entry: &TrackEntry<'_>,
    codec: Codec,
    coding: impl Coding + 'static,
) -> Result<Track, Reason> {
    let rate = entry.rate_hz.unwrap_or(8000.0);
    if !(1.0..=4e9).contains(&rate) {
        return Err(Exceeded::fixed("max_sample_rate", format!("a rate of {rate} Hz")));
    }
    let n_channels = limited(entry.n_channels.unwrap_or(1))?;
    Ok(Track::new(codec, rate.round() as u32, n_channels, coding))
}

/// Identification and setup header of the three that are laced as in Ogg.
fn unlace(headers: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut at = 1;
    let mut lens = [0usize; 2];
    for len in &mut lens {
        loop {
            let byte = u8_at(headers, at)?;
            at += 1;
            *len += usize::from(byte);
            if byte < 255 {
                break;
            }
        }
    }
    let [ident, comment] = lens;
    let rest = (u8_at(headers, 0)? == 2).then(|| from(headers, at))?;
    let (ident, rest) = rest.split_at_checked(ident)?;
    let (_, setup) = rest.split_at_checked(comment)?;
    Some((ident, setup))
}
