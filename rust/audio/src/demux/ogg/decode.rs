//! Feeds Vorbis packets to the decoder, from just before the window on.

use super::{
    link_sink::LinkSink,
    packets::Joiner,
    page::{Page, PageRef},
    salvage::{self, Intact, Packets},
    stream::{Measure, VorbisLayout},
    walk::{Group, Walk},
};
use crate::{cancel::Cancel, codec::vorbis, error::Reason};

/// Decodes from `entry` until the place is full or the stream ends.
pub(super) fn decode(
    bytes: &[u8],
    layout: &VorbisLayout,
    group: Group,
    entry: Option<PageRef>,
    cache: &mut vorbis::Cache,
    place: &mut LinkSink<'_, '_>,
    cancel: &Cancel,
) -> Result<(), Reason> {
    if place.is_lenient() {
        return salvage_cached(bytes, layout, group, cache, place, cancel);
    }
    let decoder = cache.get(&layout.headers)?;
    let mut run = PageDecoder { layout, decoder, position: layout.origin, n_corrupt: 0 };
    run.pages(bytes, group, entry, place, cancel)
}

fn salvage_cached(
    bytes: &[u8],
    layout: &VorbisLayout,
    group: Group,
    cache: &mut vorbis::Cache,
    place: &mut LinkSink<'_, '_>,
    cancel: &Cancel,
) -> Result<(), Reason> {
    let decoder = cache.get(&layout.headers)?;
    let mut salvage = Salvage { decoder, measure: Measure::new(layout) };
    let mut walk = Walk::new(bytes, group, None);
    walk.headers(3)?;
    let (intact, counts) = (Intact::behind(&walk), (!layout.is_salvaged, layout.is_counted));
    salvage::decode(intact, &mut salvage, layout.origin, counts, place, cancel)
}

/// Decodes a damaged stream.
struct Salvage<'a> {
    decoder: &'a mut vorbis::Decoder,
    measure: Measure,
}

impl Packets for Salvage<'_> {
    fn reset(&mut self) {
        self.decoder.reset();
        self.measure.reset();
    }

    fn measure(&mut self, packet: &[u8]) -> Option<u64> {
        self.measure.measure(packet)
    }

    fn decode(&mut self, packet: &[u8], granule: i64, place: &mut LinkSink<'_, '_>) -> Option<u64> {
        // Packets that are empty or no audio carry no time.
        if packet.first().is_none_or(|first| first & 1 != 0) {
            return Some(0);
        }
        let planes = self.decoder.decode(packet)?;
        place.push(granule, planes);
        Some(planes.first()?.len() as u64)
    }
}

struct PageDecoder<'a> {
    layout: &'a VorbisLayout,
    decoder: &'a mut vorbis::Decoder,
    /// The granule of the next decoded frame.
    position: i64,
    n_corrupt: u64,
}

impl PageDecoder<'_> {
    fn pages(
        &mut self,
        bytes: &[u8],
        group: Group,
        entry: Option<PageRef>,
        place: &mut LinkSink<'_, '_>,
        cancel: &Cancel,
    ) -> Result<(), Reason> {
        let at = entry.map_or(self.layout.audio, |page| page.offset);
        let mut walk = Walk::new(bytes, group, Some(at));
        let mut skip = match entry {
            Some(page) => self.enter(bytes, page, place.next())?,
            None => 0,
        };
        let mut joiner = Joiner::default();
        while let Ok(page) = walk.next() {
            cancel.check()?;
            if !page.is_intact() {
                return Err(Reason::CorruptPackets { count: page.n_packets().max(1) as u64 });
            }
            for (i, piece) in page.pieces().enumerate() {
                let Some(packet) = joiner.add(&page, i, piece)? else { continue };
                if skip > 0 {
                    skip -= 1;
                    continue;
                }
                self.packet(packet, place);
                if place.is_full() {
                    return self.finish();
                }
            }
            self.page_end(&page)?;
            // A mark of the end may be false.
            if page.is_last() && !(self.layout.is_counted && walk.goes_on()) {
                break;
            }
        }
        self.finish()
    }

    /// Finds out how many of the packets that begin on the entry page are not needed, and where
    /// the first one that is decoded leaves off. It is listed where its last packet ends.
    fn enter(&mut self, bytes: &[u8], entry: PageRef, wanted: u64) -> Result<usize, Reason> {
        let lost = || Reason::malformed("an Ogg page cannot be entered");
        let page = Page::read(bytes, entry.offset).map_err(|_| lost())?;
        let modes = self.layout.modes.ok_or_else(lost)?;
        let pieces = page.pieces().skip(usize::from(page.is_continued()));
        let lens: Vec<_> = pieces
            .filter(|&(_, ends)| ends)
            .map(|(packet, _)| modes.block_len(packet, &self.layout.ident))
            .collect();
        let mut position = entry.end as i64;
        let mut after = None;
        for (i, len) in lens.iter().enumerate().rev() {
            let Some(len) = *len else { continue };
            position -= after.map_or(0, |after| i64::from((after + len) / 4));
            if position <= wanted as i64 {
                self.position = position;
                return Ok(i);
            }
            after = Some(len);
        }
        Err(lost())
    }

    fn packet(&mut self, data: &[u8], place: &mut LinkSink<'_, '_>) {
        // Packets that are empty or no audio carry no time.
        if data.first().is_none_or(|first| first & 1 != 0) {
            return;
        }
        let Some(planes) = self.decoder.decode(data) else {
            self.n_corrupt += 1;
            return;
        };
        place.push(self.position, planes);
        self.position += planes.first().map_or(0, Vec::len) as i64;
    }

    /// Checks that as many frames came as the page says. The last page may promise fewer.
    fn page_end(&mut self, page: &Page<'_>) -> Result<(), Reason> {
        let Some(granule) = page.granule.filter(|_| !self.layout.is_counted) else {
            return Ok(());
        };
        let is_right = self.position == granule as i64
            || page.is_last() && self.position > granule as i64
            || self.n_corrupt > 0;
        if is_right {
            return Ok(());
        }
        Err(Reason::malformed(format!(
            "the Ogg page at byte {} says frame {granule}, its packets end at frame {}",
            page.offset, self.position
        )))
    }

    fn finish(&self) -> Result<(), Reason> {
        match self.n_corrupt {
            0 => Ok(()),
            count => Err(Reason::CorruptPackets { count }),
        }
    }
}
