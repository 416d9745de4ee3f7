//! Raw data blocks, ISO/IEC 14496-3 section 4.4.2.1: as much as tells what a packet begins with.

use crate::bits::BitReader;

/// PCM frames in one packet of AAC-LC.
pub(crate) const FRAME_LEN: u32 = 1024;

pub(crate) const SINGLE: u32 = 0;
pub(crate) const PAIR: u32 = 1;
pub(crate) const DATA: u32 = 4;
pub(crate) const FILL: u32 = 6;
pub(crate) const END: u32 = 7;

/// Whether a packet begins, data and fill elements aside, with the element that holds this many
/// channels. A packet without it would leave the decoder's last output in place.
pub(crate) fn check_block(packet: &[u8], n_channels: u16) -> bool {
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

#[cfg(test)]
mod tests {
    use super::{
        super::sbr::tests::{pack, packet},
        *,
    };

    #[test]
    fn packets_begin_with_the_channels() {
        let packet = |fills: &[(u32, usize)]| pack(&packet(fills));
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
