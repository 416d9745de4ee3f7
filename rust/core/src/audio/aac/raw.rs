//! Raw data blocks, ISO/IEC 14496-3 section 4.4.2.1: as much as tells AAC-LC from HE-AAC.

use crate::audio::{bits::BitReader, error::Reason, packets::Packet};

/// PCM frames in one packet of AAC-LC.
pub(in crate::audio) const FRAME_LEN: u32 = 1024;

const SINGLE: u32 = 0;
const PAIR: u32 = 1;
const DATA: u32 = 4;
const FILL: u32 = 6;
const END: u32 = 7;

/// Whether a packet begins, data and fill elements aside, with the element that holds this many
/// channels. A packet without it would leave the decoder's last output in place.
pub(in crate::audio) fn check_block(packet: &[u8], n_channels: u16) -> bool {
    let mut bits = BitReader::new(packet);
    (|| {
        loop {
            match bits.read(3)? {
                DATA => {
                    bits.read(4)?;
                    let is_aligned = bits.read(1)? == 1;
                    let mut n = bits.read(8)?;
                    if n == 255 {
                        n += bits.read(8)?;
                    }
                    if is_aligned {
                        bits.skip(bits.left() % 8);
                    }
                    bits.skip(8 * n as usize);
                }
                FILL => {
                    let n = match bits.read(4)? {
                        15 => 14 + bits.read(8)?,
                        n => n,
                    };
                    bits.skip(8 * n as usize);
                }
                element => return Some(element == if n_channels == 1 { SINGLE } else { PAIR }),
            }
        }
    })()
    .unwrap_or(false)
}

/// Packets that are looked at for spectral band replication, spread over the stream.
const N_LOOKED_AT: usize = 9;

/// Refuses a stream whose packets carry spectral band replication that no header announced.
///
/// Decoded without it, such a stream has half its rate and bandwidth. The element is the last or
/// last but one of every packet. Where it begins can be told only by decoding what comes before,
/// so it is looked for backwards: chance finds it in about one packet of a hundred that do not have it.
pub(in crate::audio) fn refuse_sbr(bytes: &[u8], packets: &[Packet]) -> Result<(), Reason> {
    let step = (packets.len() / N_LOOKED_AT).max(1);
    let looked_at = packets.iter().step_by(step).take(N_LOOKED_AT);
    let (mut n, mut n_found) = (0, 0);
    for packet in looked_at {
        n += 1;
        n_found += usize::from(packet.data(bytes).is_some_and(ends_in_sbr));
    }
    if n_found * 2 > n {
        return Err(Reason::UnsupportedCodec("HE-AAC".to_owned()));
    }
    Ok(())
}

/// Whether a packet seems to end in a fill element with band replication, and perhaps one more.
fn ends_in_sbr(packet: &[u8]) -> bool {
    let Some(last) = packet.iter().rposition(|&byte| byte != 0) else { return false };
    let zeros = packet.get(last).map_or(0, |byte| byte.trailing_zeros() as usize);
    let Some(end) = (last * 8 + 8 - zeros).checked_sub(3) else { return false };
    if BitReader::starting_at(packet, end).read(3) != Some(END) {
        return false;
    }
    fills_before(packet, end).any(|(at, kind)| {
        is_sbr(kind) || fills_before(packet, at).any(|(_, before)| is_sbr(before))
    })
}

fn is_sbr(kind: u32) -> bool {
    matches!(kind, 0xD | 0xE)
}

/// Where fill elements that end at bit `end` may begin, and the kind of their content.
fn fills_before(packet: &[u8], end: usize) -> impl Iterator<Item = (usize, u32)> {
    (1..=269usize).filter_map(move |n| {
        let header = if n < 15 { 7 } else { 15 };
        let at = end.checked_sub(8 * n + header)?;
        let mut bits = BitReader::starting_at(packet, at);
        let expected =
            if n < 15 { FILL << 4 | (n as u32) } else { (FILL << 4 | 15) << 8 | (n as u32 - 14) };
        if bits.read(header)? == expected { Some((at, bits.read(4)?)) } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packs (value, bits) pairs and fills the last byte with zeros.
    fn pack(fields: &[(u32, usize)]) -> Vec<u8> {
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

    /// A packet that ends in fill elements, each of a kind and a length.
    fn packet(fills: &[(u32, usize)]) -> Vec<u8> {
        let mut fields = vec![(SINGLE, 3), (0x155, 11), (0x2AAA, 15)];
        for &(kind, n) in fills {
            fields.push((FILL, 3));
            if n < 15 {
                fields.push((n as u32, 4));
            } else {
                fields.extend([(15, 4), (n as u32 - 14, 8)]);
            }
            fields.push((kind, 4));
            fields.push((0, 4));
            fields.extend(vec![(0x55, 8); n - 1]);
        }
        fields.push((END, 3));
        pack(&fields)
    }

    #[test]
    fn band_replication_is_found_at_the_end() {
        for n in [2, 14, 15, 16, 40, 269] {
            assert!(ends_in_sbr(&packet(&[(0xD, n)])), "{n}");
            assert!(ends_in_sbr(&packet(&[(0xE, n), (0, 5)])), "{n}");
            assert!(!ends_in_sbr(&packet(&[(0, n)])), "{n}");
        }
        assert!(!ends_in_sbr(&[]) && !ends_in_sbr(&[0; 9]) && !ends_in_sbr(&[0xFF; 3]));
    }

    #[test]
    fn packets_begin_with_the_channels() {
        assert!(check_block(&packet(&[]), 1) && !check_block(&packet(&[]), 2));
        let pair = pack(&[(DATA, 3), (0, 4), (1, 1), (2, 8), (0xFFFF, 16), (PAIR, 3), (0, 9)]);
        assert!(check_block(&pair, 2) && !check_block(&pair, 1));
        let fill = pack(&[(FILL, 3), (1, 4), (0, 8), (SINGLE, 3)]);
        assert!(check_block(&fill, 1));
        for no_block in [&[][..], &[0xE0], &[0xFF; 4], &[0xDF; 2]] {
            assert!(!check_block(no_block, 1));
        }
    }
}
