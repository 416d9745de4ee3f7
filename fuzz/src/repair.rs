//! Corrects the checksums of damaged files, so that mutants reach the decoders.

use std::ops::Range;

use gristmill_core::hash::xxh3;

/// Corrects the CRC of every whole Ogg page.
pub(crate) fn ogg(bytes: &mut [u8]) {
    let mut at = 0;
    while let Some(found) = find(bytes, at, b"OggS") {
        at = found + 4;
        let Some(&n_segments) = bytes.get(found + 26) else { return };
        let body = found + 27 + usize::from(n_segments);
        let Some(lacing) = bytes.get(found + 27..body) else { continue };
        let end = body + lacing.iter().map(|&n| usize::from(n)).sum::<usize>();
        let Some(page) = bytes.get_mut(found..end) else { continue };
        page[22..26].fill(0);
        let sum = checksum(page);
        page[22..26].copy_from_slice(&sum);
        at = end;
    }
}

/// The checksum of an Ogg page, and of an entry of a seek table.
pub(crate) fn checksum(bytes: &[u8]) -> [u8; 4] {
    (crc::<32>(0x04C1_1DB7, bytes) as u32).to_le_bytes()
}

/// Corrects the two CRCs of every FLAC frame, which ends where the next one begins.
pub(crate) fn flac(bytes: &mut [u8]) {
    let mut starts: Vec<Range<usize>> = Vec::new();
    let mut at = 42;
    while let Some(header) = flac_header(bytes, at) {
        at = header.end;
        // Bytes inside a frame may look like a header, but rarely like the first one.
        let like = |i: usize| [bytes[i + 1], bytes[i + 2] & 15, bytes[i + 3] & 15];
        if starts.first().is_none_or(|first| like(first.start) == like(header.start)) {
            starts.push(header);
        }
    }
    for (i, header) in starts.iter().enumerate() {
        let end = starts.get(i + 1).map_or(bytes.len(), |next| next.start);
        let crc8 = crc::<8>(0x07, &bytes[header.start..header.end - 1]) as u8;
        bytes[header.end - 1] = crc8;
        if let Some(body) = end.checked_sub(2).filter(|&body| body >= header.end) {
            let crc16 = crc::<16>(0x8005, &bytes[header.start..body]) as u16;
            bytes[body..end].copy_from_slice(&crc16.to_be_bytes());
        }
    }
}

/// The next plausible frame header from `at` on, its CRC included: RFC 9639, section 9.1.
fn flac_header(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let mut at = at;
    loop {
        let start = find(bytes, at, &[0xFF])?;
        at = start + 1;
        let (Some(&sync), Some(&sizes), Some(&shape)) =
            (bytes.get(start + 1), bytes.get(start + 2), bytes.get(start + 3))
        else {
            return None;
        };
        if sync & 0xFE != 0xF8 || sizes >> 4 == 0 || sizes & 15 == 15 || shape >> 4 > 10 {
            continue;
        }
        // The coded number, as long as its first byte says, as in UTF-8.
        let number = usize::from(bytes.get(start + 4)?.leading_ones() as u8).max(1);
        let block = match sizes >> 4 {
            6 => 1,
            7 => 2,
            _ => 0,
        };
        let rate = match sizes & 15 {
            12 => 1,
            13 | 14 => 2,
            _ => 0,
        };
        let end = start + 4 + number + block + rate + 1;
        return (end <= bytes.len()).then_some(start..end);
    }
}

/// Corrects the checksum of every whole block of an index file.
pub(crate) fn blocks(bytes: &mut [u8]) {
    let mut at = 0;
    while let Some(found) = find(bytes, at, b"GMBL") {
        at = found + 4;
        let Some(len) = bytes.get(found + 12..).and_then(|rest| rest.first_chunk()) else { return };
        let body = found + 20;
        let len = usize::try_from(u64::from_le_bytes(*len)).unwrap_or(usize::MAX);
        let end = body.saturating_add(len);
        let Some(payload) = bytes.get(body..end) else { continue };
        let sum = xxh3(payload).to_le_bytes();
        bytes[found + 4..found + 12].copy_from_slice(&sum);
        at = end;
    }
}

fn find(bytes: &[u8], at: usize, what: &[u8]) -> Option<usize> {
    let rest = bytes.get(at..)?;
    rest.windows(what.len()).position(|w| w == what).map(|i| at + i)
}

/// A CRC of `BITS` bits from 0, most significant bit first, not inverted.
fn crc<const BITS: u32>(polynomial: u64, bytes: &[u8]) -> u64 {
    let (top, mask) = (1 << (BITS - 1), (1 << BITS) - 1);
    bytes.iter().fold(0, |crc: u64, &byte| {
        (0..8).fold(crc ^ u64::from(byte) << (BITS - 8), |crc, _| {
            (if crc & top != 0 { crc << 1 ^ polynomial } else { crc << 1 }) & mask
        })
    })
}

#[cfg(test)]
mod tests {
    use crate::corpus::{Seed, seeds};

    /// Valid files have correct checksums.
    #[test]
    fn sound_files_stay_as_they_are() {
        for (target, repair) in [
            ("ogg_vorbis", super::ogg as fn(&mut [u8])),
            ("flac", super::flac),
            ("audio_index", super::blocks),
        ] {
            for seed in seeds(target).into_iter().filter(Seed::is_sound) {
                let mut bytes = seed.bytes.clone();
                repair(&mut bytes);
                assert!(bytes == seed.bytes, "{target}/{}", seed.name);
            }
        }
    }
}
