//! MP4, M4A and `QuickTime`, ISO/IEC 14496-12 and -14: from boxes to packets and a timeline.
//!
//! Symphonia's demuxer drops edit lists, so that what it gives begins with encoder delay, and it
//! knows no length of fragmented files. The packets are few bytes of tables; here they are read
//! directly, and go to the decoder from where they lie.

mod boxes;
mod codecs;
mod fragments;
mod sample_entry;
mod tables;
mod timeline;

use boxes::{Boxes, find, find_path};
use sample_entry::SampleEntry;
use timeline::{Edit, Gapless, Timeline};

use crate::{
    bytes::{be_u32, be_u64, from, u8_at},
    codec::opus,
    demux::{
        container::{Container, Input, OpenResult},
        packets::{Framing, Listed, TrackLayout},
    },
    error::Reason,
    names::Codec,
    report::{Damage, Ledger, Note},
    stream::{List, Packet, Scratch, Track},
};

/// MP4, M4A and `QuickTime`.
pub(crate) struct Mp4;

impl Container for Mp4 {
    fn find(&self, bytes: &[u8], at: usize) -> Option<usize> {
        (at == 0 && is_first_box(bytes)).then_some(at)
    }

    fn codec(&self, _: &[u8], _: usize) -> Option<Codec> {
        None
    }

    fn open(&self, input: Input<'_>, scratch: &mut Scratch, ledger: &mut Ledger) -> OpenResult {
        let (layout, sizes) = open(input.bytes, &mut scratch.packets, ledger)?;
        Ok(Box::new(Listed::framed(layout, sizes.map(Framing::Sizes), Vec::new())))
    }
}

/// Whether a file may begin with a box of this kind.
fn is_first_box(bytes: &[u8]) -> bool {
    let size = be_u32(bytes, 0);
    let kind = bytes.get(4..8).unwrap_or_default();
    kind == b"ftyp"
        || size.is_some_and(|size| size == 1 || size >= 8)
            && [&b"moov"[..], b"mdat", b"wide", b"free", b"skip", b"styp", b"pnot"].contains(&kind)
}

/// The audio track of a `moov` box.
struct Trak<'a> {
    id: u32,
    timescale: u32,
    /// Length of the media in its own timescale.
    duration: u64,
    stbl: &'a [u8],
    edits: Option<Edit>,
}

/// Lists the packets of the first audio track. Also gives where their sizes stand in the file, if no
/// fragments follow them.
fn open(
    bytes: &[u8],
    listed: &mut Vec<Packet>,
    ledger: &mut Ledger,
) -> Result<(TrackLayout, Option<u64>), Reason> {
    let mut is_cut = false;
    let mut moov = None;
    let mut is_fragmented = false;
    let mut is_torn = false;
    let mut boxes = Boxes::new(bytes);
    for item in boxes.by_ref() {
        is_cut |= item.is_cut;
        // Zeros are a box without a name that goes to the end.
        is_torn |= !item.kind.iter().all(|byte| (0x20..0x7F).contains(byte));
        match &item.kind {
            b"moov" => moov = moov.or(Some(item)),
            b"moof" => is_fragmented = true,
            _ => {}
        }
    }
    is_torn |= !boxes.is_done();
    let moov = match moov {
        Some(moov) if !moov.is_cut => moov.body,
        // Without the tables at the end nothing can be found.
        _ if is_cut => return Err(Reason::Truncated { decoded: 0, expected: None }),
        _ => return Err(Reason::malformed("there is no moov box")),
    };
    let (trak, mut track, n_skipped) = Trak::find(moov)?;
    if n_skipped > 0 {
        let reason = "MP4 whose first audio track cannot be decoded".to_owned();
        ledger.remark(Note::SkippedTracks, n_skipped, Reason::UnsupportedCodec(reason))?;
    }
    let mut edit = trak.edits;
    if let Some(delay) = track.delay {
        edit = edit.or(Some(Edit::from_start(trak.times_of(delay))));
    }
    if track.codec == Codec::Opus {
        // Packets that are not there cannot tell it, and damaged ones tell it wrong.
        if let Some(frame_len) = trak.first_len() {
            track.frame_len = frame_len;
            track.is_uniform = tables::is_uniform(trak.stbl);
        }
    }
    let mut list = List::new(listed, bytes);
    let mut duration =
        tables::list(trak.stbl, track.frame_len, &mut list, is_fragmented)?.unwrap_or(0);
    let mut is_gappy = false;
    if is_fragmented {
        let defaults = fragments::Defaults::all(moov);
        let run = fragments::list(bytes, trak.id, &defaults, track.frame_len, &mut list)?;
        duration = duration.saturating_add(run.duration);
        is_gappy = run.is_gappy;
    }
    let n_packets = list.len();
    if n_packets == 0 {
        // A fragmented file that broke off in its first fragment.
        return Err(if is_cut {
            Reason::Truncated { decoded: 0, expected: None }
        } else {
            Reason::malformed("the audio track has no packets")
        });
    }
    list.measure(bytes, &track, ledger)?;
    let mut timeline = Timeline {
        rate_hz: track.rate_hz,
        timescale: trak.timescale,
        n_coded: list.n_frames(),
        frame_len: track.frame_len.max(list.longest()),
        duration,
    };
    list.check(None, ledger)?;
    if is_torn && is_fragmented {
        // What follows may have been fragments; whatever follows tables is not needed.
        ledger.lose(Damage::Junk, 1, Reason::CorruptPackets { count: 1 })?;
    }
    if is_gappy {
        ledger.lose(Damage::LostPackets, 1, Reason::LostPackets { count: 1 })?;
    }
    if is_cut && is_fragmented {
        let reason = Reason::Truncated { decoded: list.n_frames(), expected: None };
        ledger.lose(Damage::Truncated, 1, reason)?;
    }
    match timeline.missing(trak.duration) {
        // A file that was cut between fragments has nothing else that tells.
        promised if is_fragmented => list.check(promised, ledger)?,
        // Tables say where each packet lies, and all are there.
        Some(promised) => {
            let reason = Reason::Truncated { decoded: list.n_frames(), expected: Some(promised) };
            ledger.remark(Note::HeaderLength, 1, reason)?;
        }
        None => {}
    }
    timeline.n_coded = list.n_frames();
    let gapless = find_gapless(moov);
    let (delay, n_frames) = timeline.playable(edit.as_ref(), gapless.as_ref());
    let Track { codec, rate_hz, n_channels, mut coding, .. } = track;
    coding.settle(bytes, listed, rate_hz)?;
    let sizes = if is_fragmented { None } else { tables::sizes_at(bytes, trak.stbl) };
    Ok((TrackLayout { codec, rate_hz, n_channels, n_frames, delay, coding }, sizes))
}

impl<'a> Trak<'a> {
    /// The first audio track that can be decoded, and how many come before it that cannot.
    fn find(moov: &'a [u8]) -> Result<(Self, Track, u64), Reason> {
        let movie_timescale = find(moov, *b"mvhd").and_then(header_timescale);
        let movie_timescale = movie_timescale.map_or(0, |(timescale, _)| timescale);
        let is_audio = |trak: &&[u8]| {
            let handler = find_path(trak, &[*b"mdia", *b"hdlr"]);
            handler.and_then(|body| body.get(8..12)) == Some(b"soun")
        };
        let trak = Boxes::new(moov).filter(|item| &item.kind == b"trak").map(|item| item.body);
        let mut refusal = None;
        for (n_skipped, trak) in (0..).zip(trak.filter(is_audio)) {
            let found = Self::read(trak, movie_timescale).and_then(|trak| {
                let track = codecs::track(&SampleEntry::read(trak.stbl)?)?;
                Ok((trak, track, n_skipped))
            });
            match found {
                Err(reason @ Reason::UnsupportedCodec(_)) => refusal = refusal.or(Some(reason)),
                found => return found.map_err(|reason| refusal.unwrap_or(reason)),
            }
        }
        Err(refusal.unwrap_or_else(|| Reason::malformed("there is no audio track")))
    }

    fn read(trak: &'a [u8], movie_timescale: u32) -> Result<Self, Reason> {
        let missing = |what| move || Reason::malformed(format!("there is no {what} box"));
        let tkhd = find(trak, *b"tkhd").unwrap_or_default();
        let id = be_u32(tkhd, if u8_at(tkhd, 0) == Some(1) { 20 } else { 12 }).unwrap_or(0);
        let mdhd = find_path(trak, &[*b"mdia", *b"mdhd"]).and_then(header_timescale);
        let (timescale, duration) = mdhd.ok_or_else(missing("mdhd"))?;
        if timescale == 0 {
            return Err(Reason::malformed("the timescale is 0"));
        }
        let stbl = find_path(trak, &[*b"mdia", *b"minf", *b"stbl"]).ok_or_else(missing("stbl"))?;
        let edits = match find_path(trak, &[*b"edts", *b"elst"]) {
            Some(elst) => Edit::read(elst, movie_timescale, timescale)?,
            None => None,
        };
        Ok(Self { id, timescale, duration, stbl, edits })
    }

    /// Frames of Opus in the track's timescale, which is that of Opus in all files that are right.
    fn times_of(&self, n_frames: u64) -> u64 {
        n_frames * u64::from(self.timescale) / u64::from(opus::RATE_HZ)
    }

    /// Frames of the first packet of Opus, as the tables say, if it can have as many.
    fn first_len(&self) -> Option<u32> {
        let delta = u64::from(tables::first_duration(self.stbl)?);
        let n_frames = delta * u64::from(opus::RATE_HZ) / u64::from(self.timescale);
        u32::try_from(n_frames).ok().filter(|n| (120..=5760).contains(n))
    }
}

/// Timescale and duration of `mvhd` and `mdhd`; an unknown duration is 0.
fn header_timescale(body: &[u8]) -> Option<(u32, u64)> {
    let (timescale, duration) = if u8_at(body, 0)? == 1 {
        (be_u32(body, 20)?, be_u64(body, 24).filter(|&d| d != u64::MAX))
    } else {
        (be_u32(body, 12)?, be_u32(body, 16).filter(|&d| d != u32::MAX).map(u64::from))
    };
    Some((timescale, duration.unwrap_or(0)))
}

/// What iTunes wrote about encoder delay, among its tags.
fn find_gapless(moov: &[u8]) -> Option<Gapless> {
    let meta = find_path(moov, &[*b"udta", *b"meta"])?;
    // A full box in MP4, a plain one in `QuickTime`.
    let ilst = find(from(meta, 4), *b"ilst").or_else(|| find(meta, *b"ilst"))?;
    Boxes::new(ilst).filter(|item| &item.kind == b"----").find_map(|item| {
        let name = find(item.body, *b"name")?;
        let data = find(item.body, *b"data")?;
        if name.get(4..)? == b"iTunSMPB" { Gapless::read(data.get(8..)?) } else { None }
    })
}

#[cfg(test)]
mod tests;
