//! Feeds Vorbis packets to the decoder, from just before the window on.

use symphonia::{
    core::{
        audio::{Audio, AudioBuffer, GenericAudioBufferRef},
        codecs::audio::{
            AudioCodecParameters, AudioDecoder, AudioDecoderOptions, well_known::CODEC_ID_VORBIS,
        },
        packet::PacketRef,
        units::{Duration, Timestamp},
    },
    default::codecs::VorbisDecoder,
};

use super::{
    chain::Place,
    packets::Joiner,
    page::{Page, PageRef},
    salvage::{self, Intact, Packets},
    stream::{Layout, Measure},
    walk::{Group, Walk},
};
use crate::audio::{cancel::Cancel, error::Reason, spec::MAX_CHANNELS};

/// Decoders by their headers, most recently used last. Making one takes 0.5 to 0.9 ms, as long as
/// decoding 2 s, and all files of one encoder setting share their headers.
#[derive(Default)]
pub(in crate::audio) struct VorbisCache(Vec<(Box<[u8]>, VorbisDecoder)>);

impl std::fmt::Debug for VorbisCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "VorbisCache({})", self.0.len())
    }
}

const MAX_CACHED: usize = 16;

impl VorbisCache {
    /// The decoder for these headers, as good as new.
    pub(in crate::audio) fn get(&mut self, headers: &[u8]) -> Result<&mut VorbisDecoder, Reason> {
        if let Some(at) = self.0.iter().position(|(key, _)| **key == *headers) {
            let hit = self.0.remove(at);
            self.0.push(hit);
        } else {
            let mut params = AudioCodecParameters::new();
            params.for_codec(CODEC_ID_VORBIS).with_extra_data(headers.into());
            let options = AudioDecoderOptions::default().gapless(false);
            let decoder = VorbisDecoder::try_new(&params, &options)
                .map_err(|e| Reason::malformed(e.to_string()))?;
            if self.0.len() == MAX_CACHED {
                self.0.remove(0);
            }
            self.0.push((headers.into(), decoder));
        }
        match self.0.last_mut() {
            Some((_, decoder)) => {
                decoder.reset();
                Ok(decoder)
            }
            None => Err(Reason::malformed("there is no decoder")),
        }
    }

    /// Forgets the decoder that was used last, after it met an error.
    pub(in crate::audio) fn drop_last(&mut self) {
        self.0.pop();
    }
}

/// Decodes from `entry` until the place is full or the stream ends.
///
/// A decoder that met an error is not kept: what the next row decodes to must not depend on it.
pub(super) fn decode(
    bytes: &[u8],
    layout: &Layout,
    group: Group,
    entry: Option<PageRef>,
    cache: &mut VorbisCache,
    place: &mut Place<'_, '_>,
    cancel: &Cancel,
) -> Result<(), Reason> {
    let result = if place.is_lenient() {
        salvage_cached(bytes, layout, group, cache, place, cancel)
    } else {
        cache.get(&layout.headers).and_then(|decoder| {
            let position = layout.origin;
            let mut run = Run { layout, decoder, is_primed: false, position, n_corrupt: 0 };
            run.pages(bytes, group, entry, place, cancel)
        })
    };
    if result.is_err() || place.is_lenient() {
        cache.drop_last();
    }
    result
}

fn salvage_cached(
    bytes: &[u8],
    layout: &Layout,
    group: Group,
    cache: &mut VorbisCache,
    place: &mut Place<'_, '_>,
    cancel: &Cancel,
) -> Result<(), Reason> {
    let mut salvage = Salvage {
        decoder: cache.get(&layout.headers)?,
        measure: Measure::new(layout),
        is_primed: false,
    };
    let mut walk = Walk::new(bytes, group, None);
    walk.headers(3)?;
    let (intact, counts) = (Intact::behind(&walk), !layout.is_salvaged);
    salvage::decode(intact, &mut salvage, layout.origin, counts, place, cancel)
}

/// Decodes a damaged stream.
struct Salvage<'a> {
    decoder: &'a mut VorbisDecoder,
    measure: Measure,
    is_primed: bool,
}

impl Packets for Salvage<'_> {
    fn reset(&mut self) {
        self.decoder.reset();
        self.measure.reset();
        self.is_primed = false;
    }

    fn measure(&mut self, packet: &[u8]) -> Option<u64> {
        self.measure.measure(packet)
    }

    fn decode(&mut self, packet: &[u8], granule: i64, place: &mut Place<'_, '_>) -> Option<u64> {
        // Packets that are empty or no audio carry no time.
        if packet.first().is_none_or(|first| first & 1 != 0) {
            return Some(0);
        }
        let packet = PacketRef::new(0, Timestamp::new(granule), Duration::new(0), packet);
        let Ok(GenericAudioBufferRef::F32(pcm)) = self.decoder.decode_ref(&packet) else {
            return None;
        };
        if !std::mem::replace(&mut self.is_primed, true) {
            return Some(0);
        }
        push(granule, pcm, place);
        Some(pcm.frames() as u64)
    }
}

fn push(granule: i64, pcm: &AudioBuffer<f32>, place: &mut Place<'_, '_>) {
    let mut planes = [&[][..]; MAX_CHANNELS as usize];
    for (slice, plane) in planes.iter_mut().zip(pcm.iter_planes()) {
        *slice = plane;
    }
    place.push(granule, planes.get(..pcm.num_planes()).unwrap_or_default());
}

struct Run<'a> {
    layout: &'a Layout,
    decoder: &'a mut VorbisDecoder,
    /// Whether a packet came before: the output of the first one is dropped.
    is_primed: bool,
    /// The granule of the next decoded frame.
    position: i64,
    n_corrupt: u64,
}

impl Run<'_> {
    fn pages(
        &mut self,
        bytes: &[u8],
        group: Group,
        entry: Option<PageRef>,
        place: &mut Place<'_, '_>,
        cancel: &Cancel,
    ) -> Result<(), Reason> {
        let at = entry.map_or(self.layout.audio, |page| page.offset);
        let mut walk = Walk::new(bytes, group, Some(at));
        let mut skip = match entry {
            Some(page) => self.enter(bytes, page.offset, place.next())?,
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
            if page.is_last() {
                break;
            }
        }
        self.finish()
    }

    /// Finds out how many of the packets that begin on the entry page are not needed, and where
    /// the first one that is decoded leaves off. The page's granule is where its last packet ends.
    fn enter(&mut self, bytes: &[u8], at: usize, wanted: u64) -> Result<usize, Reason> {
        let lost = || Reason::malformed("an Ogg page cannot be entered");
        let page = Page::read(bytes, at).map_err(|_| lost())?;
        let modes = self.layout.modes.ok_or_else(lost)?;
        let pieces = page.pieces().skip(usize::from(page.is_continued()));
        let lens: Vec<_> = pieces
            .filter(|&(_, ends)| ends)
            .map(|(packet, _)| modes.block_len(packet, &self.layout.ident))
            .collect();
        let mut position = page.granule.ok_or_else(lost)? as i64;
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

    fn packet(&mut self, data: &[u8], place: &mut Place<'_, '_>) {
        // Packets that are empty or no audio carry no time.
        if data.first().is_none_or(|first| first & 1 != 0) {
            return;
        }
        let packet = PacketRef::new(0, Timestamp::new(self.position), Duration::new(0), data);
        let Ok(GenericAudioBufferRef::F32(pcm)) = self.decoder.decode_ref(&packet) else {
            self.n_corrupt += 1;
            return;
        };
        if !std::mem::replace(&mut self.is_primed, true) {
            return;
        }
        push(self.position, pcm, place);
        self.position += pcm.frames() as i64;
    }

    /// Checks that as many frames came as the page says. The last page may promise fewer.
    fn page_end(&mut self, page: &Page<'_>) -> Result<(), Reason> {
        let Some(granule) = page.granule else { return Ok(()) };
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
