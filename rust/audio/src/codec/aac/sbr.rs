//! Spectral band replication that no header announced: HE-AAC under the name of AAC-LC.
//!
//! Decoded without it, such a stream has half its rate and bandwidth, and one channel of two where
//! parametric stereo goes with it. The replication is a fill element behind the channels, of the kind
//! `EXT_SBR_DATA` (ISO/IEC 14496-3, section 4.4.2.7). Where the channels end can be told only by
//! decoding them. So places are sought from the end of the packet, where chance gives few of them, and
//! the decoder is asked whether an element begins there.

use symphonia::{
    core::{
        audio::Channels,
        codecs::audio::{
            AudioCodecParameters, AudioDecoder, AudioDecoderOptions, well_known::CODEC_ID_AAC,
        },
        errors::Error,
        packet::PacketRef,
        units::{Duration, Timestamp},
    },
    default::codecs::AacDecoder,
};

use super::raw::{DATA, END, FILL, PAIR, SINGLE};
use crate::{bits::BitReader, contained, error::Reason, stream::Packet};

/// Packets that are looked at: the first ones, and as many spread over the stream.
const N_LOOKED_AT: usize = 8;

/// An element that the decoder refuses by a name of its own.
const COUPLING: u8 = 2;

/// Refuses a stream whose packets carry spectral band replication.
pub(crate) fn refuse_sbr(bytes: &[u8], packets: &[Packet], rate_hz: u32) -> Result<(), Reason> {
    let step = (packets.len() / N_LOOKED_AT).max(1);
    let spread = packets.iter().skip(N_LOOKED_AT).step_by(step).take(N_LOOKED_AT);
    let (mut n, mut n_found) = (0, 0);
    let mut prober = Prober::new(rate_hz);
    for packet in packets.iter().take(N_LOOKED_AT).chain(spread) {
        n += 1;
        n_found += usize::from(packet.data(bytes).is_some_and(|data| prober.finds_sbr(data)));
    }
    // Each of them has it. One that has may be damage.
    if n_found >= 2 || n_found == 1 && n == 1 {
        return Err(Reason::UnsupportedCodec("HE-AAC".to_owned()));
    }
    Ok(())
}

/// Asks a decoder for what it meets in a packet.
struct Prober {
    rate_hz: u32,
    /// For one channel and for two, made when they are needed: of the packets of AAC-LC few raise
    /// the question.
    decoders: [Option<Box<AacDecoder>>; 2],
}

impl Prober {
    fn new(rate_hz: u32) -> Self {
        Self { rate_hz, decoders: [None, None] }
    }

    fn finds_sbr(&mut self, packet: &[u8]) -> bool {
        let (begin, element) = match before_channels(packet) {
            Before::Sbr => return true,
            Before::Channels { at, element } => (at, element),
            Before::Nothing => return false,
        };
        let is_pair = match element {
            SINGLE => false,
            PAIR => true,
            _ => return false,
        };
        sbr_candidates(packet, begin).into_iter().any(|at| self.reaches(packet, at, is_pair))
    }

    /// Whether an element begins at this bit: the packet is cut there, and an element that the decoder
    /// refuses is put in its place.
    fn reaches(&mut self, packet: &[u8], at: usize, is_pair: bool) -> bool {
        let mut cut = packet.get(..at / 8).unwrap_or_default().to_vec();
        let next = packet.get(at / 8).copied().unwrap_or_default();
        let kept = u16::from(next) << 8 & !(0xFFFF >> (at % 8));
        let marked = kept | u16::from(COUPLING) << 13 >> (at % 8);
        cut.extend(marked.to_be_bytes());
        let decoder = self.decoders.get_mut(usize::from(is_pair));
        let Some(decoder) = decoder else { return false };
        if decoder.is_none() {
            let mut params = AudioCodecParameters::new();
            params.for_codec(CODEC_ID_AAC).with_sample_rate(self.rate_hz);
            params.with_channels(Channels::Discrete(1 + u16::from(is_pair)));
            *decoder =
                AacDecoder::try_new(&params, &AudioDecoderOptions::default()).ok().map(Box::new);
        }
        let Some(of_shape) = decoder else { return false };
        let cut = PacketRef::new(0, Timestamp::new(0), Duration::new(0), &cut);
        // Unwind safety: after a panic the decoder is dropped.
        let result = contained(|| match of_shape.decode_ref(&cut) {
            Err(Error::Unsupported(what)) => what.ends_with("coupling channel element"),
            _ => false,
        });
        result.unwrap_or_else(|_| {
            *decoder = None;
            false
        })
    }
}

/// What comes before the channels of a packet.
#[derive(Debug, PartialEq, Eq)]
enum Before {
    Sbr,
    /// Where the element with the channels begins.
    Channels {
        at: usize,
        element: u32,
    },
    Nothing,
}

fn before_channels(packet: &[u8]) -> Before {
    let mut bits = BitReader::new(packet);
    loop {
        let at = bits.position();
        match bits.read(3) {
            None | Some(END) => return Before::Nothing,
            Some(FILL) => match fill(packet, at) {
                Some(Fill { is_sbr: true, .. }) => return Before::Sbr,
                Some(Fill { end, .. }) => bits = BitReader::starting_at(packet, end),
                None => return Before::Nothing,
            },
            Some(DATA) => match data_end(packet, at) {
                Some(end) => bits = BitReader::starting_at(packet, end),
                None => return Before::Nothing,
            },
            Some(element) => return Before::Channels { at, element },
        }
    }
}

struct Fill {
    end: usize,
    is_sbr: bool,
}

/// The fill element at bit `at`, if one can be there.
fn fill(packet: &[u8], at: usize) -> Option<Fill> {
    let mut bits = BitReader::starting_at(packet, at);
    if bits.read(3)? != FILL {
        return None;
    }
    let n = match bits.read(4)? {
        15 => 14 + bits.read(8)?,
        n => n,
    };
    let end = bits.position() + 8 * n as usize;
    let kind = if n > 0 { bits.read(4)? } else { 0 };
    (end <= packet.len() * 8).then_some(Fill { end, is_sbr: matches!(kind, 0xD | 0xE) })
}

/// Where the data element at bit `at` ends, if one can be there.
fn data_end(packet: &[u8], at: usize) -> Option<usize> {
    let mut bits = BitReader::starting_at(packet, at);
    if bits.read(3)? != DATA {
        return None;
    }
    bits.read(4)?;
    let is_aligned = bits.read(1)? == 1;
    let n = match bits.read(8)? {
        255 => 255 + bits.read(8)?,
        n => n,
    };
    let begin = bits.position();
    let begin = if is_aligned { begin.next_multiple_of(8) } else { begin };
    let end = begin + 8 * n as usize;
    (end <= packet.len() * 8).then_some(end)
}

/// Bits at the end of a packet within which its last element ends, zeros behind it aside.
const END_WITHIN: usize = 16;

/// The longest fill element, and more than its header.
const LONGEST_FILL: usize = 15 + 8 * 269;

/// Where fill elements with band replication may begin behind bit `begin`, from which elements that
/// carry no sound lead to the end of the packet.
fn sbr_candidates(packet: &[u8], begin: usize) -> Vec<usize> {
    let zeros = packet.iter().rev().take_while(|&&byte| byte == 0).count();
    let n_bits = (packet.len() - zeros) * 8;
    // Which of the last bits are the beginning of an element from which the end can be come to.
    let first = n_bits.saturating_sub(N_TRAILING * LONGEST_FILL).max(begin);
    let mut leads = vec![false; n_bits.saturating_sub(first)];
    let mut found = Vec::new();
    for at in (first..n_bits).rev() {
        let leads_on =
            |end: usize| end.checked_sub(first).and_then(|i| leads.get(i)) == Some(&true);
        let mut bits = BitReader::starting_at(packet, at);
        let is_lead = match bits.read(3) {
            Some(END) => n_bits - at <= END_WITHIN,
            Some(FILL) => fill(packet, at).is_some_and(|fill| {
                let is_lead = leads_on(fill.end);
                if is_lead && fill.is_sbr {
                    found.push(at);
                }
                is_lead
            }),
            Some(DATA) => data_end(packet, at).is_some_and(leads_on),
            _ => false,
        };
        if let Some(lead) = leads.get_mut(at - first) {
            *lead = is_lead;
        }
    }
    // The first element of those that are there leads to the others.
    found.truncate(MAX_CANDIDATES);
    found
}

/// How many of the longest fill elements from the end on are looked at.
const N_TRAILING: usize = 4;

/// Places that are tried in a packet: what bytes of an attacker can cost.
const MAX_CANDIDATES: usize = 32;

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Packs (value, bits) pairs and fills the last byte with zeros.
    pub(crate) fn pack(fields: &[(u32, usize)]) -> Vec<u8> {
        let bits: Vec<bool> = fields
            .iter()
            .flat_map(|&(value, n)| (0..n).rev().map(move |i| value >> i & 1 == 1))
            .collect();
        bits.chunks(8)
            .map(|byte| {
                byte.iter().enumerate().fold(0, |sum, (i, &bit)| sum | u8::from(bit) << (7 - i))
            })
            .collect()
    }

    /// The fields of a packet that ends in fill elements, each of a kind and a length.
    pub(crate) fn packet(fills: &[(u32, usize)]) -> Vec<(u32, usize)> {
        // One channel without a section: silence.
        let mut fields = vec![(SINGLE, 3), (0, 4), (100, 8), (0, 1), (0, 2), (0, 1), (0, 6)];
        fields.extend([(0, 1), (0, 1), (0, 1), (0, 1)]);
        for &(kind, n) in fills {
            fields.push((FILL, 3));
            if n < 15 {
                fields.push((n as u32, 4));
            } else {
                fields.extend([(15, 4), (n as u32 - 14, 8)]);
            }
            if n > 0 {
                fields.extend([(kind, 4), (0, 4)]);
                fields.extend(vec![(0x55, 8); n - 1]);
            }
        }
        fields.push((END, 3));
        fields
    }

    fn finds(fields: &[(u32, usize)]) -> bool {
        let mut prober = Prober::new(22_050);
        prober.finds_sbr(&pack(fields))
    }

    #[test]
    fn band_replication_is_found_behind_the_channels() {
        for n in [2, 13, 14, 15, 16, 40, 269] {
            assert!(finds(&packet(&[(0xD, n)])), "{n}");
            assert!(finds(&packet(&[(0xE, n), (0, 5)])), "{n}");
            assert!(finds(&packet(&[(0, 3), (0xD, n), (0, 0), (0, 200), (1, 9)])), "{n}");
            assert!(!finds(&packet(&[(0, n)])), "{n}");
        }
        assert!(!finds(&[]) && !finds(&[(0, 72)].map(|_| (0, 8))) && !finds(&[(0xFF, 8); 3]));
    }

    #[test]
    fn what_ends_and_begins_otherwise_is_found_as_well() {
        // Ones behind the end, and a data element between.
        let mut ones = packet(&[(0xD, 20)]);
        ones.push((0x3F, 6));
        assert!(finds(&ones));
        let mut data = packet(&[(0xD, 20)]);
        data.pop();
        data.extend([(DATA, 3), (0, 4), (0, 1), (2, 8), (0x1234, 16), (END, 3)]);
        assert!(finds(&data));
        let mut ahead = vec![(FILL, 3), (2, 4), (0xD, 4), (0, 12)];
        ahead.extend(packet(&[]));
        assert!(finds(&ahead));
    }

    #[test]
    fn what_only_looks_like_it_is_not_taken_for_it() {
        // Within a fill element: the end can be come to from there, and no element begins there.
        let inner = [(FILL, 3), (3, 4), (0xD, 4), (0, 20)];
        let mut fields = packet(&[]);
        fields.pop();
        fields.extend([(FILL, 3), (6, 4), (0, 4), (0, 4)]);
        fields.extend(inner);
        fields.extend([(END, 3)]);
        fields.extend([(0, 6), (END, 3)]);
        let bytes = pack(&fields);
        let candidates = sbr_candidates(&bytes, 0);
        assert!(!candidates.is_empty());
        assert!(!finds(&fields));
    }

    proptest::proptest! {
        #[test]
        fn hostile_bytes_end_in_an_answer(
            bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..400),
        ) {
            let mut prober = Prober::new(24_000);
            prober.finds_sbr(&bytes);
        }
    }
}
