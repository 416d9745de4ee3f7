//! ADTS, ISO/IEC 13818-7 section 6.2: a header in front of every packet, and nothing else.

pub(super) mod header;

use header::Header;

use crate::{
    bytes::from,
    codec::aac::{
        Coded,
        config::{Config, RATES_HZ},
        raw::FRAME_LEN,
    },
    demux::{
        container::{Container, Input, OpenResult},
        packets::{Framing, Listed, TrackLayout},
        tags::{id3v2_size, is_lost_sound, is_tag, tag_size, unexplained},
    },
    error::Reason,
    names::Codec,
    report::{Damage, Ledger, Note},
    stream::{Coding, List, Packet, Scratch},
};

/// The longest that a frame can be.
const MAX_FRAME: usize = 0x1FFF;

/// So many headers that agree are no chance.
const N_SURE: usize = 6;

/// AAC in an audio data transport stream.
pub(crate) struct Adts;

impl Container for Adts {
    /// Headers that agree must follow each other. A broadcast that was joined late begins inside a frame.
    fn find(&self, bytes: &[u8], at: usize) -> Option<usize> {
        if is_run(bytes, at, 3) {
            return Some(at);
        }
        let end = bytes.len().min(at.saturating_add(MAX_FRAME));
        (at + 1..end).find(|&at| is_long_run(bytes, at, N_SURE))
    }

    fn codec(&self, _: &[u8], _: usize) -> Option<Codec> {
        Some(Codec::Aac)
    }

    fn open(&self, input: Input<'_>, scratch: &mut Scratch, ledger: &mut Ledger) -> OpenResult {
        if input.at > 0 && id3v2_size(input.bytes).is_none() {
            let reason = Reason::malformed("the stream begins inside a frame");
            ledger.remark(Note::LateStart, 1, reason)?;
        }
        let layout = open(input.bytes, input.at, &mut scratch.packets, ledger)?;
        Ok(Box::new(Listed::framed(layout, Some(Framing::Adts), Vec::new())))
    }
}

/// Whether `n` headers that agree follow each other, or fewer up to the end.
fn is_run(bytes: &[u8], offset: usize, n: usize) -> bool {
    let Some(first) = Header::read(bytes, offset) else { return false };
    let mut at = offset + first.len;
    for _ in 1..n {
        if at >= bytes.len() || is_tag(from(bytes, at)) {
            return true;
        }
        match Header::read(bytes, at) {
            Some(next) if next.agrees_with(&first) => at += next.len,
            // The last header may be cut as well.
            None => return bytes.len() - at < 7,
            Some(_) => return false,
        }
    }
    true
}

/// Whether `n` headers that agree follow each other from `offset` on, and no fewer.
fn is_long_run(bytes: &[u8], offset: usize, n: usize) -> bool {
    let Some(first) = Header::read(bytes, offset) else { return false };
    let mut at = offset + first.len;
    (1..n).all(|_| {
        let next = Header::read(bytes, at).filter(|next| next.agrees_with(&first));
        next.inspect(|next| at += next.len).is_some()
    })
}

/// Lists the packets of the stream at `offset`.
///
/// Nothing tells how much of it is encoder delay, so nothing is trimmed.
///
/// Where bytes between packets are lost, as many packets are taken for lost as fit them at the mean
/// length of those before.
fn open(
    bytes: &[u8],
    offset: usize,
    packets: &mut Vec<Packet>,
    ledger: &mut Ledger,
) -> Result<TrackLayout, Reason> {
    let first = Header::read(bytes, offset);
    let first = first.ok_or_else(|| Reason::malformed("there is no ADTS header"))?;
    if first.object != 2 {
        let name = ["AAC Main", "AAC-LC", "AAC-SSR", "AAC-LTP"];
        let name = name.get(first.object as usize - 1).copied().unwrap_or_default();
        return Err(Reason::UnsupportedCodec(name.to_owned()));
    }
    let rate_hz = RATES_HZ.get(first.rate_index as usize).copied().unwrap_or_default();
    let config = Config::checked(rate_hz, first.channels, false)?;
    let frames_per_s = f64::from(rate_hz) / f64::from(FRAME_LEN);
    let mut list = List::new(packets, bytes);
    let mut at = offset;
    let mut n_gaps = 0;
    loop {
        let rest = from(bytes, at);
        match Header::read(bytes, at) {
            Some(header) if header.agrees_with(&first) => {
                if header.n_blocks > 1 {
                    let name = "ADTS with several blocks a frame".to_owned();
                    return Err(Reason::UnsupportedCodec(name));
                }
                let len = header.len - header.body;
                list.push(at + header.body, len, FRAME_LEN)?;
                at += header.len;
            }
            _ if rest.is_empty() => break,
            _ => {
                if let Some(size) = tag_size(rest) {
                    at = at.saturating_add(size);
                    continue;
                }
                let next = (at + 1..bytes.len()).find(|&at| {
                    Header::read(bytes, at).is_some_and(|h| h.agrees_with(&first))
                        && is_run(bytes, at, 3)
                });
                let is_other = Header::read(bytes, at).is_some_and(|h| !h.agrees_with(&first))
                    && is_run(bytes, at, 3);
                let is_other_behind =
                    || next.is_none() && (at..bytes.len()).any(|at| is_long_run(bytes, at, 3));
                let changed = is_other || is_other_behind();
                if changed {
                    ledger.lose(Damage::ParamsChanged, 1, Reason::ParamsChanged)?;
                }
                let mean = list.mean_len() + first.body;
                let n_bytes = next.map_or_else(|| unexplained(bytes, at), |next| next - at);
                // Junk and another stream between are not ignored, and behind the last frame only a
                // little junk is.
                if next.is_some() || !changed && is_lost_sound(n_bytes, mean, frames_per_s) {
                    n_gaps += 1;
                    list.skip(((n_bytes + mean / 2) / mean).max(1) as u64 * u64::from(FRAME_LEN));
                }
                let Some(next) = next else { break };
                at = next;
            }
        }
    }
    if n_gaps > 0 {
        ledger.lose(Damage::Junk, n_gaps, Reason::CorruptPackets { count: n_gaps })?;
    }
    let n_frames = list.n_frames();
    list.check(None, ledger)?;
    Coded.settle(bytes, packets, rate_hz)?;
    Ok(TrackLayout {
        codec: Codec::Aac,
        rate_hz: config.rate_hz,
        n_channels: config.n_channels,
        n_frames,
        delay: 0,
        coding: Box::new(Coded),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A header of AAC-LC, 44.1 kHz, mono, before a body that nobody decodes here.
    fn frame(body: usize) -> Vec<u8> {
        let len = (body + 7) as u32;
        let head = [0xFF, 0xF1, 0x50, 0x40 | (len >> 11) as u8, (len >> 3) as u8];
        let mut frame = head.to_vec();
        frame.extend([(len << 5) as u8 | 0x1F, 0xFC]);
        frame.resize(body + 7, 0x11);
        frame
    }

    fn open(bytes: &[u8]) -> Result<TrackLayout, Reason> {
        super::open(bytes, 0, &mut Vec::new(), &mut Ledger::default())
    }

    #[test]
    fn frames_are_counted_and_damage_is_seen() {
        let good = frame(200).repeat(10);
        assert_eq!(Adts.find(&good, 0), Some(0));
        assert_eq!(open(&good).unwrap().n_frames, 10_240);
        let tagged = [&good[..], b"TAG", &[0; 125]].concat();
        assert_eq!(open(&tagged).unwrap().n_frames, 10_240);
        assert_eq!(
            open(&good[..good.len() - 50]).unwrap_err(),
            Reason::Truncated { decoded: 9216, expected: Some(10_240) }
        );
        let torn = [&good[..], &[0x55; 99], &good].concat();
        assert_eq!(open(&torn).unwrap_err(), Reason::CorruptPackets { count: 1 });
        let mut stereo = frame(200);
        stereo[3] = stereo[3] & 0x3F | 0x80;
        assert_eq!(open(&[good, stereo.repeat(9)].concat()).unwrap_err(), Reason::ParamsChanged);
    }

    #[test]
    fn what_lies_behind_a_tag_or_the_last_frame_is_not_lost_unseen() {
        let good = frame(200).repeat(60);
        let tagged = [&good[..], b"TAG", &[0; 125]].concat();
        assert_eq!(open(&tagged.repeat(2)).unwrap().n_frames, 120 * 1024);
        let mut stereo = frame(200);
        stereo[3] = stereo[3] & 0x3F | 0x80;
        let other = [&tagged[..], &stereo.repeat(9)].concat();
        assert_eq!(open(&other).unwrap_err(), Reason::ParamsChanged);
        let half = [&good[..], &vec![0; good.len()]].concat();
        assert_eq!(open(&half).unwrap_err(), Reason::CorruptPackets { count: 1 });
        let mut ledger = Ledger::LENIENT;
        let layout = super::open(&half, 0, &mut Vec::new(), &mut ledger).unwrap();
        assert_eq!(layout.n_frames, 120 * 1024);
        assert_eq!(ledger.counts().iter().collect::<Vec<_>>(), [("junk", 1)]);
        let padded = [&good[..], &[0; 4096]].concat();
        assert_eq!(open(&padded).unwrap().n_frames, 60 * 1024);
    }

    #[test]
    fn other_objects_are_refused_by_name() {
        let mut main = frame(100);
        main[2] &= 0x3F;
        assert_eq!(open(&main).unwrap_err(), Reason::UnsupportedCodec("AAC Main".to_owned()));
        let mut many = frame(100);
        many[6] |= 3;
        assert!(matches!(open(&many), Err(Reason::UnsupportedCodec(_))));
    }

    proptest! {
        #[test]
        fn hostile_bytes_end_in_a_list_or_an_error(
            mut bytes in prop::collection::vec(any::<u8>(), 0..2000),
            headers in prop::collection::vec((0usize..2000, 1usize..300), 0..20),
        ) {
            for (at, len) in headers {
                if let Some(slot) = bytes.get_mut(at..at + 7) {
                    slot.copy_from_slice(&frame(len)[..7]);
                }
            }
            let mut packets = Vec::new();
            for at in 0..bytes.len() {
                if Adts.find(&bytes, at).is_some() {
                    let _ = super::open(&bytes, at, &mut packets, &mut Ledger::default());
                    prop_assert!(packets.len() <= bytes.len());
                }
            }
        }
    }
}
