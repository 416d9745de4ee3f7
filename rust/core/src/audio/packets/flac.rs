//! FLAC frames that a container delimits: length and checksum, RFC 9639 section 9.

use crate::audio::bytes::u8_at;

/// The frames that a FLAC frame holds, from its header.
pub(in crate::audio) fn block_len(packet: &[u8]) -> Option<u32> {
    if !matches!(packet, [0xFF, 0xF8 | 0xF9, ..]) {
        return None;
    }
    let after_number = 4 + match u8_at(packet, 4)? {
        0..=0x7F => 1,
        byte => byte.leading_ones() as usize,
    };
    let byte = |at| u8_at(packet, after_number + at).map(u32::from);
    match u8_at(packet, 2)? >> 4 {
        0 => None,
        1 => Some(192),
        code @ 2..=5 => Some(144 << code),
        6 => Some(byte(0)? + 1),
        7 => Some((byte(0)? << 8 | byte(1)?) + 1),
        code => Some(1 << code),
    }
}

/// Whether the checksum at the end of a frame is right. Symphonia's demuxer would check it.
pub(super) fn is_intact(packet: &[u8]) -> bool {
    // The sum over data and its own sum is zero.
    packet.iter().fold(0u16, |crc, &byte| {
        let at = usize::from(crc >> 8 ^ u16::from(byte));
        crc << 8 ^ TABLE.get(at).copied().unwrap_or_default()
    }) == 0
}

const TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    #[allow(clippy::indexing_slicing)] // evaluated by the compiler
    while i < 256 {
        let mut crc = (i as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x8005 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_checksums() {
        let head = |code: u8, rest: &[u8]| [&[0xFF, 0xF8, code << 4, 0][..], rest].concat();
        assert_eq!(block_len(&head(1, &[0])), Some(192));
        assert_eq!(block_len(&head(5, &[0])), Some(4608));
        assert_eq!(block_len(&head(12, &[0xC2, 0x80])), Some(4096));
        assert_eq!(block_len(&head(6, &[0xC2, 0x80, 99])), Some(100));
        assert_eq!(block_len(&head(7, &[0, 1, 0])), Some(257));
        assert_eq!(block_len(&head(7, &[0, 1])), None);
        assert_eq!(block_len(&head(0, &[0])), None);
        assert_eq!(block_len(b"RIFF"), None);
        // CRC-16/UMTS of "123456789" is 0xFEE8.
        assert!(is_intact(b"123456789\xFE\xE8") && !is_intact(b"123456788\xFE\xE8"));
    }
}
