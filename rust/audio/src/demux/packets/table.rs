//! The seek table of packets that follow each other: where one in every second or two begins. They are
//! told apart by headers between them, by a table of sizes elsewhere, or by the elements that hold them.

use std::{ops::Range, sync::Arc};

use super::recording::{TrackLayout, Wanted, decode};
use crate::{
    bytes::be_u32,
    cancel::Cancel,
    codec::{aac, alac, opus},
    demux::{adts::header, mkv::part_blocks},
    error::Reason,
    info::AudioInfo,
    names::Codec,
    sink::Sink,
    stream::{
        About, Coding, List, Packet, Part, Point, Points, Reader, Recording, Scratch, SeekTable,
        ToldBy, WarmUp, put_number, unexpected,
    },
};

/// The kind of the table in entries.
pub(crate) const KIND: u8 = 6;

/// How packets are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Each has a header of ADTS in front.
    Adts,
    /// Their sizes are numbers of 32 bits from this byte on, and nothing is between them.
    Sizes(u64),
    /// They are those of the blocks of this track, in Matroska.
    Blocks(u64),
}

/// Points count packets.
#[derive(Debug)]
pub(super) struct PacketTable {
    framing: Framing,
    codec: Codec,
    /// What the coding is made from.
    header: Arc<[u8]>,
    delay: u64,
    frame_len: u32,
    points: Points,
}

impl PacketTable {
    /// The table of a recording all of whose packets but the last have one length.
    pub(super) fn new(
        bytes: &[u8],
        layout: &TrackLayout,
        framing: Framing,
        places: &[Point],
        packets: &[Packet],
    ) -> Option<Self> {
        let (first, last) = (packets.first()?, packets.last()?);
        let frame_len = first.n_frames;
        let is_even = |(i, packet): (usize, &Packet)| {
            packet.n_trimmed == 0
                && packet.start == i as u64 * u64::from(frame_len)
                && (packet.n_frames == frame_len || i + 1 == packets.len())
        };
        if last.n_frames > frame_len || !packets.iter().enumerate().all(is_even) {
            return None;
        }
        let behind = |packet: &Packet| packet.offset + packet.len as usize;
        // Between packets there is a header of one of two lengths, or nothing.
        let gaps: &[usize] = if framing == Framing::Adts { &[7, 9] } else { &[0] };
        let is_next = |pair: &[Packet]| match pair {
            [a, b] => gaps.iter().any(|gap| behind(a) + gap == b.offset),
            _ => false,
        };
        let places: Vec<Point> = match framing {
            Framing::Blocks(_) => {
                let unit = |frames: u64| frames / u64::from(frame_len.max(1));
                places.iter().map(|p| Point { unit: unit(p.unit), ..*p }).collect()
            }
            _ if !packets.windows(2).all(is_next) => return None,
            Framing::Sizes(_) => {
                let places = packets.iter().zip(0..);
                places.map(|(packet, unit)| Point { unit, byte: packet.offset as u64 }).collect()
            }
            Framing::Adts => {
                let first = header::header_of(bytes, first.offset)?;
                let starts = [first].into_iter().chain(packets.iter().map(behind));
                let places = starts.zip(0..).take(packets.len());
                places.map(|(start, unit)| Point { unit, byte: start as u64 }).collect()
            }
        };
        let end = Point { unit: packets.len() as u64, byte: behind(last) as u64 };
        let units_per_s = f64::from(layout.rate_hz) / f64::from(frame_len.max(1));
        let points = Points::choose(places, end, units_per_s)?;
        let header = layout.coding.seek_header()?.into();
        let TrackLayout { codec, delay, .. } = *layout;
        Some(Self { framing, codec, header, delay, frame_len, points })
    }
}

/// The coding of packets, from its codec and what [`Coding::seek_header`] gave.
fn coding(codec: Codec, header: &[u8], info: &AudioInfo) -> Option<Box<dyn Coding>> {
    match codec {
        Codec::Opus if info.rate_hz == opus::RATE_HZ => {
            opus::from_seek_header(header, info.n_channels)
        }
        Codec::Aac => header.is_empty().then(|| Box::new(aac::Coded) as _),
        Codec::Alac => {
            let config = alac::Config::read(header).ok()?;
            let is_same = (config.rate_hz, config.n_channels) == (info.rate_hz, info.n_channels);
            is_same.then(|| Box::new(config) as _)
        }
        _ => None,
    }
}

/// Reads the table.
pub(crate) fn read_table(
    reader: &mut Reader<'_>,
    headers: &[u8],
    about: &About,
) -> Option<Box<dyn SeekTable>> {
    let framing = match reader.byte()? {
        0 => Framing::Adts,
        1 => Framing::Sizes(reader.number()?),
        2 => Framing::Blocks(reader.number()?),
        _ => return None,
    };
    let delay = reader.number()?;
    let frame_len = u32::try_from(reader.number()?).ok().filter(|n| (1..=65_536).contains(n))?;
    let points = Points::read(reader, about.n_bytes)?;
    let info = &about.info;
    coding(info.codec, headers, info)?;
    let (start, end) = (points.start(), points.end());
    let n_coded = end.unit.checked_mul(u64::from(frame_len))?;
    let is_within = match framing {
        Framing::Adts => info.codec == Codec::Aac && frame_len == aac::raw::FRAME_LEN,
        Framing::Blocks(_) => true,
        Framing::Sizes(at) => {
            let behind = at.checked_add(end.unit.checked_mul(4)?)?;
            behind <= start.byte || end.byte <= at && behind <= about.n_bytes
        }
    };
    let is_right = is_within && start.unit == 0 && delay + info.n_frames <= n_coded;
    let (codec, header) = (info.codec, headers.into());
    let table = PacketTable { framing, codec, header, delay, frame_len, points };
    is_right.then(|| Box::new(table) as _)
}

impl SeekTable for PacketTable {
    fn kind(&self) -> u8 {
        KIND
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self.framing {
            Framing::Adts => out.push(0),
            Framing::Sizes(at) => {
                out.push(1);
                put_number(out, at);
            }
            Framing::Blocks(track) => {
                out.push(2);
                put_number(out, track);
            }
        }
        put_number(out, self.delay);
        put_number(out, self.frame_len.into());
        self.points.write(out);
    }

    fn headers(&self) -> &[u8] {
        &self.header
    }

    fn part(&self, about: &About, window: &Range<u64>) -> Option<Part> {
        let frame_len = u64::from(self.frame_len);
        let coding = coding(self.codec, &self.header, &about.info)?;
        let from = window.start + self.delay;
        let first = match coding.warm_up() {
            WarmUp::Packets(n) => (from / frame_len).saturating_sub(n as u64),
            WarmUp::Frames(n) => from.saturating_sub(n) / frame_len,
            WarmUp::All => return None,
        };
        let from = self.points.before(first);
        let to = self.points.behind((window.end + self.delay).div_ceil(frame_len));
        let audio = from.byte..to.byte;
        let ranges = match self.framing {
            Framing::Adts | Framing::Blocks(_) => std::iter::once(audio).collect(),
            Framing::Sizes(at) => vec![at + 4 * from.unit..at + 4 * to.unit, audio],
        };
        let AudioInfo { codec, rate_hz, n_channels, n_frames } = about.info;
        let delay = self.delay;
        let layout = TrackLayout { codec, rate_hz, n_channels, n_frames, delay, coding };
        let part = PacketPart {
            layout,
            framing: self.framing,
            frame_len: self.frame_len,
            window: window.clone(),
            is_last: to == self.points.end(),
            from,
            to,
        };
        Some(Part { ranges, recording: Box::new(part) })
    }
}

/// The packets from one point to another.
#[derive(Debug)]
struct PacketPart {
    layout: TrackLayout,
    framing: Framing,
    frame_len: u32,
    window: Range<u64>,
    is_last: bool,
    from: Point,
    to: Point,
}

impl PacketPart {
    /// Lists the packets, which must be those that the table speaks of, and no others.
    fn list(&self, bytes: &[u8], packets: &mut Vec<Packet>) -> Result<(), Reason> {
        let mut list = List::new(packets, bytes);
        list.skip(self.from.unit.saturating_mul(u64::from(self.frame_len)));
        let n_packets = usize::try_from(self.to.unit - self.from.unit).map_err(|_| unexpected())?;
        let end = match self.framing {
            Framing::Adts => header::list(bytes, &self.layout.info(), n_packets, &mut list)?,
            Framing::Blocks(track) => {
                part_blocks::packets(bytes, track, |at, len| list.push(at, len, self.frame_len))?
            }
            Framing::Sizes(_) => {
                // The sizes come first.
                let mut at = n_packets.checked_mul(4).ok_or_else(unexpected)?;
                for i in 0..n_packets {
                    let len = be_u32(bytes, 4 * i).ok_or_else(unexpected)? as usize;
                    list.push(at, len, self.frame_len)?;
                    at = at.saturating_add(len);
                }
                at
            }
        };
        let n_listed = list.len();
        if end != bytes.len() || n_listed != n_packets || packets.len() != n_packets {
            return Err(unexpected());
        }
        let coding = &self.layout.coding;
        let len = |packet: &Packet| packet.data(bytes).and_then(|data| coding.packet_len(data));
        let n_equal = if self.is_last { n_packets.saturating_sub(1) } else { n_packets };
        let is_equal = |packet: &Packet| len(packet) == Some(self.frame_len);
        if coding.told_by() == ToldBy::Each && !packets.iter().take(n_equal).all(is_equal) {
            return Err(unexpected());
        }
        if let Some(last) = packets.last_mut().filter(|_| self.is_last) {
            last.n_frames = len(last).unwrap_or(self.frame_len).min(self.frame_len);
        }
        Ok(())
    }
}

impl Recording for PacketPart {
    fn info(&self) -> AudioInfo {
        self.layout.info()
    }

    fn decode(
        &self,
        bytes: &[u8],
        _: bool,
        scratch: &mut Scratch,
        sink: &mut Sink<'_>,
        cancel: &Cancel,
    ) -> Result<(), Reason> {
        self.list(bytes, &mut scratch.packets)?;
        let Range { start, end } = self.window;
        let wanted = Wanted::find(&self.layout, &scratch.packets, start, end - start)?;
        decode(bytes, &self.layout, &wanted, &mut scratch.decoders, sink, cancel)
    }
}
