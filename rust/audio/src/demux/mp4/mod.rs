//! MP4, M4A and `QuickTime`, ISO/IEC 14496-12 and -14: from boxes to packets and a timeline.
//!
//! Symphonia's demuxer drops edit lists, so that what it gives begins with encoder delay, and it
//! knows no length of fragmented files. The packets are few bytes of tables; here they are read
//! directly, and go to the decoder without a copy.

mod boxes;
mod codecs;
mod fragments;
mod sample_entry;
mod tables;
mod timeline;

use boxes::{AtomBox, Boxes, find, find_path};
use sample_entry::SampleEntry;
use tables::Times;
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

/// What the boxes of a file show.
#[allow(clippy::struct_excessive_bools)] // each is a finding of its own
struct Top<'a> {
    /// The body of the `moov` box.
    moov: &'a [u8],
    is_fragmented: bool,
    /// Whether a box reaches over the end of the file.
    is_cut: bool,
    /// Whether something else than a box is between the boxes, or fragments are inside another box.
    is_torn: bool,
    /// Whether the size of the `moov` box is too long, which costs nothing.
    is_long: bool,
}

impl<'a> Top<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, Reason> {
        let mut top =
            Self { moov: &[], is_fragmented: false, is_cut: false, is_torn: false, is_long: false };
        let mut moov: Option<AtomBox<'a>> = None;
        let mut boxes = Boxes::new(bytes);
        for item in boxes.by_ref() {
            if item.is_cut && &item.kind == b"moov" && is_whole(item.body) {
                top.is_long = true;
                moov = moov.or(Some(AtomBox { is_cut: false, ..item }));
                continue;
            }
            top.is_cut |= item.is_cut;
            // Zeros are a box without a name that goes to the end.
            top.is_torn |= !item.kind.iter().all(|byte| (0x20..0x7F).contains(byte));
            let is_moof = &item.kind == b"moof";
            let is_around = item.is_open && (is_moof || top.is_fragmented);
            top.is_torn |= is_around && fragments::are_inside(item.body);
            top.is_fragmented |= is_moof;
            if &item.kind == b"moov" {
                moov = moov.or(Some(item));
            }
        }
        top.is_torn |= !boxes.is_done();
        top.moov = match moov {
            Some(moov) if !moov.is_cut => moov.body,
            // Without the tables at the end nothing can be found.
            _ if top.is_cut => return Err(Reason::Truncated { decoded: 0, expected: None }),
            _ => return Err(Reason::malformed("there is no moov box")),
        };
        Ok(top)
    }
}

/// Lists the packets of the first audio track. Also returns where their sizes are in the file, if no
/// fragments follow them.
fn open(
    bytes: &[u8],
    listed: &mut Vec<Packet>,
    ledger: &mut Ledger,
) -> Result<(TrackLayout, Option<u64>), Reason> {
    let Top { moov, is_fragmented, is_cut, is_torn, is_long } = Top::read(bytes)?;
    let (mut trak, mut track, n_skipped) = Trak::find(moov)?;
    if n_skipped > 0 {
        let reason = "MP4 whose first audio track cannot be decoded".to_owned();
        ledger.remark(Note::SkippedTracks, n_skipped, Reason::UnsupportedCodec(reason))?;
    }
    let times = Times::read(trak.stbl);
    let mut is_lie = false;
    if track.codec == Codec::Opus {
        is_lie = trak.ask_packets(&mut track, &times, bytes, listed)?;
    }
    let mut list = List::new(listed, bytes);
    let odd = tables::list(trak.stbl, track.frame_len, &mut list, is_fragmented)?;
    let mut duration = times.sum;
    let (mut is_gappy, mut packet) = (false, times.first);
    if is_fragmented {
        let defaults = fragments::Defaults::all(moov);
        let run = fragments::list(bytes, trak.id, &defaults, track.frame_len, &mut list)?;
        duration = duration.saturating_add(run.duration);
        is_gappy = run.is_gappy;
        is_lie |= run.is_late && !run.is_gappy;
        packet = if packet == 0 { run.packet } else { packet };
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
    let first_len = list.first_len();
    list.skip(odd.n_unplaced.saturating_mul(first_len.into()));
    trak.settle_timescale(track.rate_hz, packet == u64::from(first_len), ledger)?;
    let n_counted = n_packets as u64 + odd.n_unplaced;
    let is_miscounted = !is_fragmented && times.n_packets != n_counted;
    if odd.is_overcounted && is_miscounted {
        return Err(Reason::malformed("the stsz box is cut"));
    }
    let is_odd = is_long || odd.is_overcounted || is_miscounted;
    let reason = Reason::malformed("a box counts more than it has, or not what others count");
    ledger.remark(Note::HeaderLength, is_odd.into(), reason)?;
    is_lie |= times.is_uniform && !trak.is_duration(times.first, first_len, track.rate_hz);
    let reason = Reason::malformed("the durations of the packets are not theirs");
    ledger.remark(Note::Timestamps, is_lie.into(), reason)?;
    if is_lie && !is_fragmented || is_miscounted {
        duration = 0;
    }
    let edit = trak.edit(track.delay);
    let mut timeline = Timeline {
        rate_hz: track.rate_hz,
        timescale: trak.timescale,
        n_coded: list.n_frames(),
        frame_len: track.frame_len.max(list.longest()),
        duration,
    };
    list.check(None, ledger)?;
    if odd.n_unplaced > 0 {
        let count = odd.n_unplaced;
        ledger.lose(Damage::LostPackets, 1, Reason::LostPackets { count })?;
    }
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
        // The tables give the place of each packet, and all are in the file.
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
        let stbl = find_path(trak, &[*b"mdia", *b"minf", *b"stbl"]).ok_or_else(missing("stbl"))?;
        let edits = match find_path(trak, &[*b"edts", *b"elst"]) {
            Some(elst) => Edit::read(elst, movie_timescale, timescale)?,
            None => None,
        };
        Ok(Self { id, timescale, duration, stbl, edits })
    }

    /// Has the tables say how long packets of Opus are, which those that are lost cannot tell and damaged ones tell
    /// wrong; or the packets, if most of the first ones contradict the tables. Whether they do.
    fn ask_packets(
        &self,
        track: &mut Track,
        times: &Times,
        bytes: &[u8],
        listed: &mut Vec<Packet>,
    ) -> Result<bool, Reason> {
        if let Some(frame_len) = self.first_len(times) {
            (track.frame_len, track.is_uniform) = (frame_len, times.is_uniform);
        }
        let mut list = List::new(listed, bytes);
        tables::list(self.stbl, track.frame_len, &mut list, true)?;
        let told = list.contradicts(bytes, track);
        if let Some(frame_len) = told {
            (track.frame_len, track.is_uniform) = (frame_len, false);
        }
        Ok(told.is_some())
    }

    /// Corrects a timescale that is false: packets whose duration is their number of frames are counted in frames.
    fn settle_timescale(
        &mut self,
        rate_hz: u32,
        is_in_frames: bool,
        ledger: &mut Ledger,
    ) -> Result<(), Reason> {
        if self.timescale != 0 && (self.timescale == rate_hz || !is_in_frames) {
            return Ok(());
        }
        self.timescale = rate_hz;
        let reason = Reason::malformed("the timescale of the track is false");
        ledger.remark(Note::HeaderFields, 1, reason)
    }

    /// What is played. An edit of everything says nothing of the delay of the codec.
    fn edit(&self, delay: Option<u64>) -> Option<Edit> {
        let Some(delay) = delay else { return self.edits };
        let start = self.times_of(delay);
        match self.edits {
            Some(edit) if edit.start == 0 => Some(Edit { start, ..edit }),
            edit => edit.or(Some(Edit::from_start(start))),
        }
    }

    /// Frames of Opus in the track's timescale, which is that of Opus in all files that are right.
    fn times_of(&self, n_frames: u64) -> u64 {
        n_frames * u64::from(self.timescale) / u64::from(opus::RATE_HZ)
    }

    /// Whether so many frames of this track last so long, but for rounding to its timescale.
    fn is_duration(&self, duration: u64, n_frames: u32, rate_hz: u32) -> bool {
        let [timescale, rate_hz] = [self.timescale, rate_hz].map(u64::from);
        let expected = u64::from(n_frames) * timescale;
        duration.saturating_mul(rate_hz).abs_diff(expected) < rate_hz
    }

    /// Frames of the first packet of Opus, as the tables say, if it can have as many.
    fn first_len(&self, times: &Times) -> Option<u32> {
        let n_frames = times.first * u64::from(opus::RATE_HZ);
        let n_frames = n_frames.checked_div(self.timescale.into())?;
        u32::try_from(n_frames).ok().filter(|n| (120..=5760).contains(n))
    }
}

/// Whether all of these bytes are boxes that are whole.
fn is_whole(bytes: &[u8]) -> bool {
    let mut boxes = Boxes::new(bytes);
    boxes.by_ref().all(|item| !item.is_cut) && boxes.is_done()
}

/// Timescale and duration of `mvhd` and `mdhd`; an unknown duration is 0.
fn header_timescale(body: &[u8]) -> Option<(u32, u64)> {
    let (timescale, duration) = if u8_at(body, 0)? == 1 {
        (be_u32(body, 20)?, be_u64(body, 24))
    } else {
        (be_u32(body, 12)?, be_u32(body, 16).map(u64::from))
    };
    // The highest numbers, signed and unsigned, are placeholders.
    let unknown = [u64::MAX, u64::MAX >> 1, u64::from(u32::MAX), u64::from(u32::MAX >> 1)];
    Some((timescale, duration.filter(|duration| !unknown.contains(duration)).unwrap_or(0)))
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
