//! Movie fragments: `moof`, `traf` and `trun`, ISO/IEC 14496-12 section 8.8.

use std::collections::BTreeMap;

use super::boxes::{AtomBox, Boxes, find, find_path};
use crate::{
    bytes::{be_u32, be_u64, from, u8_at},
    error::Reason,
    memory,
    stream::List,
};

/// What packets are like where a fragment does not say it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Defaults {
    duration: u32,
    size: u32,
}

impl Defaults {
    /// The `trex` boxes, by their tracks.
    pub(super) fn all(moov: &[u8]) -> BTreeMap<u32, Self> {
        let mvex = find(moov, *b"mvex").unwrap_or_default();
        let mut all = BTreeMap::new();
        for trex in Boxes::new(mvex).filter(|item| &item.kind == b"trex").map(|item| item.body) {
            let number = |at| be_u32(trex, at).unwrap_or(0);
            let defaults = Self { duration: number(12), size: number(16) };
            all.entry(number(4)).or_insert(defaults);
        }
        all
    }
}

/// What all fragments hold together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    /// In the track's timescale.
    pub(super) duration: u64,
    /// The duration of the first packet.
    pub(super) packet: u64,
    /// Whether a fragment begins later than the one before ends.
    pub(super) is_gappy: bool,
    /// Whether one is late by no more than a packet.
    pub(super) is_late: bool,
}

/// Lists the packets of a track in all fragments.
pub(super) fn list(
    bytes: &[u8],
    track: u32,
    defaults: &BTreeMap<u32, Defaults>,
    frame_len: u32,
    list: &mut List<'_>,
) -> Result<Sum, Reason> {
    let mut duration = 0u64;
    let mut timed = Vec::new();
    // One that is cut shows that the file is; what is left of it says nothing.
    let whole = |item: &AtomBox<'_>| &item.kind == b"moof" && !item.is_cut;
    for moof in Boxes::new(bytes).filter(whole) {
        // Without a base of its own a track follows the one before it.
        let mut end = moof.offset;
        for traf in Boxes::new(moof.body).filter(|item| &item.kind == b"traf") {
            let Some(head) = Head::read(traf.body, defaults) else {
                return Err(Reason::malformed("there is no tfhd box"));
            };
            let base = match head.base {
                Some(base) => usize::try_from(base).unwrap_or(usize::MAX),
                None if head.is_from_moof => moof.offset,
                None => end,
            };
            end = base;
            let truns = Boxes::new(traf.body).filter(|item| &item.kind == b"trun");
            if head.track != track {
                // The next track may begin behind it.
                truns.for_each(|trun| skip(trun.body, base, &mut end, head.defaults));
                continue;
            }
            let time = find_path(traf.body, &[*b"tfdt"]).and_then(|body| {
                let is_wide = u8_at(body, 0) == Some(1);
                if is_wide { be_u64(body, 4) } else { be_u32(body, 4).map(u64::from) }
            });
            let (due, before) = (duration, list.n_frames());
            let mut packet = 0;
            for trun in truns {
                let run = run(trun.body, base, &mut end, head.defaults, frame_len, list)?;
                duration = duration.saturating_add(run.duration);
                packet = if packet == 0 { run.packet } else { packet };
            }
            packet = if packet == 0 { u64::from(head.defaults.duration) } else { packet };
            // Where nothing says how long packets are, a time cannot be held against them.
            if let Some(time) = time.filter(|_| packet > 0) {
                memory::push(&mut timed, Timed { time, due, before, packet })?;
            }
        }
    }
    let Gaps { gaps, is_late } = gaps(&timed, frame_len)?;
    let lost = gaps.iter().map(|gap| gap.duration).fold(0, u64::saturating_add);
    let frames: Vec<_> = gaps.iter().map(|gap| (gap.before, gap.n_frames)).collect();
    list.spread(&frames);
    let packet = timed.first().map_or(0, |timed| timed.packet);
    let (duration, is_gappy) = (duration.saturating_add(lost), !gaps.is_empty());
    Ok(Sum { duration, packet, is_gappy, is_late })
}

/// Whether fragments begin inside these bytes of a box, whose size is false then.
pub(super) fn are_inside(body: &[u8]) -> bool {
    body.windows(16).any(|window| window.get(4..8) == Some(b"moof") && window.ends_with(b"mfhd"))
}

/// When a fragment says that it begins.
struct Timed {
    time: u64,
    /// When it would if nothing were missing and the first one began at 0.
    due: u64,
    /// Frames of the packets before it.
    before: u64,
    /// The duration of its first packet.
    packet: u64,
}

/// A place where packets are missing.
struct Gap {
    before: u64,
    n_frames: u64,
    duration: u64,
}

/// Where packets are missing, and whether a fragment is late by no more than one.
#[derive(Default)]
struct Gaps {
    gaps: Vec<Gap>,
    is_late: bool,
}

/// Where fragments begin later than those before them end, and the next one bears it out: a time that
/// it falls behind is false, and so is one that goes back.
fn gaps(timed: &[Timed], frame_len: u32) -> Result<Gaps, Reason> {
    let next = timed.iter().skip(1).map(Some).chain([None]);
    let is_false = |one: &Timed, next: Option<&Timed>| {
        next.is_some_and(|next| next.time.saturating_add(next.packet) < one.end(next.due))
    };
    let mut found = Gaps::default();
    let mut last: Option<&Timed> = None;
    for (one, next) in timed.iter().zip(next) {
        if is_false(one, next) {
            continue;
        }
        let expected = last.map_or(one.time, |last| last.end(one.due));
        if one.time.saturating_add(one.packet) < expected {
            continue;
        }
        let late = one.time.saturating_sub(expected);
        found.is_late |= late > one.packet / 2;
        if late > one.packet {
            // Whole packets: times of a coarser clock are rounded. The one behind the gap may be the
            // last of the file, and short.
            let packet = last.map_or(one.packet, |last| last.packet);
            let n_packets = late.saturating_add(packet / 2) / packet;
            let n_frames = n_packets.saturating_mul(u64::from(frame_len));
            memory::push(&mut found.gaps, Gap { before: one.before, n_frames, duration: late })?;
        }
        last = Some(one);
    }
    // If each fragment is late, their clock is wrong.
    if found.gaps.len() >= 4 && found.gaps.len() + 2 >= timed.len() {
        found = Gaps { gaps: Vec::new(), is_late: true };
    }
    Ok(found)
}

impl Timed {
    /// When what is due later comes, if nothing is missing between.
    fn end(&self, due: u64) -> u64 {
        self.time.saturating_add(due.saturating_sub(self.due))
    }
}

/// The `tfhd` box.
struct Head {
    track: u32,
    base: Option<u64>,
    is_from_moof: bool,
    defaults: Defaults,
}

impl Head {
    fn read(traf: &[u8], defaults: &BTreeMap<u32, Defaults>) -> Option<Self> {
        let tfhd = find(traf, *b"tfhd")?;
        let track = be_u32(tfhd, 4)?;
        let mut defaults = defaults.get(&track).copied().unwrap_or_default();
        let flags = be_u32(tfhd, 0)?;
        let has = |flag: u32| flags & flag != 0;
        let mut at = 8;
        let base = if has(1) { be_u64(tfhd, at) } else { None };
        at += if has(1) { 8 } else { 0 };
        at += if has(2) { 4 } else { 0 };
        if has(8) {
            defaults.duration = be_u32(tfhd, at)?;
            at += 4;
        }
        if has(0x10) {
            defaults.size = be_u32(tfhd, at)?;
        }
        Some(Self { track, base, is_from_moof: has(0x2_0000), defaults })
    }
}

/// What a `trun` box says of time.
#[derive(Default)]
struct TrunTimes {
    /// Of all its packets.
    duration: u64,
    /// Of the first one that has a duration.
    packet: u64,
}

/// What a `trun` box begins with.
struct TrunHead<'a> {
    flags: u32,
    count: u32,
    /// Those of all packets.
    fields: &'a [u8],
}

impl<'a> TrunHead<'a> {
    /// Also sets `end` to where the packets begin.
    fn read(trun: &'a [u8], base: usize, end: &mut usize) -> Option<Self> {
        let flags = be_u32(trun, 0)?;
        let mut at = 8;
        if flags & 1 != 0 {
            let offset = be_u32(trun, at)?.cast_signed();
            *end = base.saturating_add_signed(offset as isize);
            at += 4;
        }
        at += if flags & 4 != 0 { 4 } else { 0 };
        Some(Self { flags, count: be_u32(trun, 4)?, fields: from(trun, at) })
    }
}

/// Moves `end` behind the packets of a `trun` box of another track.
fn skip(trun: &[u8], base: usize, end: &mut usize, defaults: Defaults) {
    let Some(TrunHead { flags, count, fields }) = TrunHead::read(trun, base, end) else { return };
    let count = count as usize;
    let n_bytes = if flags & 0x200 == 0 {
        count.saturating_mul(defaults.size as usize)
    } else {
        let size_at = if flags & 0x100 == 0 { 0 } else { 4 };
        let each = fields.chunks_exact(4 * (flags & 0xF00).count_ones() as usize).take(count);
        let sizes = each.map(|fields| be_u32(fields, size_at).unwrap_or(0) as usize);
        sizes.fold(0, usize::saturating_add)
    };
    *end = end.saturating_add(n_bytes);
}

/// Lists the packets of a `trun` box. `end` is where the one before ended.
fn run(
    trun: &[u8],
    base: usize,
    end: &mut usize,
    defaults: Defaults,
    frame_len: u32,
    list: &mut List<'_>,
) -> Result<TrunTimes, Reason> {
    let cut = || Reason::malformed("a trun box is cut");
    let TrunHead { flags, count, mut fields } = TrunHead::read(trun, base, end).ok_or_else(cut)?;
    let has = |flag: u32| flags & flag != 0;
    let mut found = TrunTimes::default();
    for _ in 0..count {
        // Each packet takes a byte of the file at least, whatever the count.
        let mut field = |flag: u32, default: u32| {
            if !has(flag) {
                return Ok(default);
            }
            let value = be_u32(fields, 0).ok_or_else(cut)?;
            fields = from(fields, 4);
            Ok(value)
        };
        let duration = u64::from(field(0x100, defaults.duration)?);
        found.duration = found.duration.saturating_add(duration);
        found.packet = if found.packet == 0 { duration } else { found.packet };
        let len = field(0x200, defaults.size)? as usize;
        field(0x400, 0)?;
        field(0x800, 0)?;
        list.push(*end, len, frame_len)?;
        *end = end.saturating_add(len);
    }
    Ok(found)
}
