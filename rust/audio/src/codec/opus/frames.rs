//! The frames of a packet, RFC 6716 section 3.2.

use super::packet_len;

/// The longest frame.
const MAX_BYTES: usize = 1_275;

/// The frames of a packet; `None` if its lengths do not add up.
pub(super) fn frames(packet: &[u8]) -> Option<Vec<&[u8]>> {
    split(packet, false).map(|(frames, _)| frames)
}

/// The frames of a packet that says where it ends, and what is behind it: appendix B.
pub(super) fn delimited(packet: &[u8]) -> Option<(Vec<&[u8]>, &[u8])> {
    split(packet, true)
}

fn split(packet: &[u8], is_delimited: bool) -> Option<(Vec<&[u8]>, &[u8])> {
    packet_len(packet)?;
    let (&toc, mut rest) = packet.split_first()?;
    let (mut n, mut n_padding, mut is_equal) = (1, 0, true);
    match toc & 3 {
        0 => {}
        1 => n = 2,
        2 => (n, is_equal) = (2, false),
        _ => {
            let flags = take(&mut rest)?;
            n = usize::from(flags & 63);
            if flags & 0x40 != 0 {
                n_padding = take_padding(&mut rest)?;
            }
            is_equal = flags & 0x80 == 0;
        }
    }
    let mut lens = Vec::new();
    if !is_equal {
        for _ in 1..n {
            lens.push(take_len(&mut rest)?);
        }
    }
    // The last length is what is left, unless it is said.
    let left = rest.len().checked_sub(n_padding)?;
    let last = if is_delimited {
        take_len(&mut rest)?
    } else if is_equal {
        left.is_multiple_of(n).then(|| left / n)?
    } else {
        left.checked_sub(lens.iter().sum())?
    };
    lens.resize(n, last);
    let mut found = Vec::new();
    for len in lens {
        let (frame, behind) = rest.split_at_checked(len).filter(|_| len <= MAX_BYTES)?;
        found.push(frame);
        rest = behind;
    }
    Some((found, rest.get(n_padding..)?))
}

fn take(rest: &mut &[u8]) -> Option<u8> {
    let (&byte, behind) = rest.split_first()?;
    *rest = behind;
    Some(byte)
}

/// The length of a frame, in one byte or two.
fn take_len(rest: &mut &[u8]) -> Option<usize> {
    let first = usize::from(take(rest)?);
    Some(if first < 252 { first } else { first + 4 * usize::from(take(rest)?) })
}

/// How many bytes of padding are at the end.
fn take_padding(rest: &mut &[u8]) -> Option<usize> {
    let mut n_padding = 0;
    loop {
        let n = usize::from(take(rest)?);
        if n < 255 {
            return Some(n_padding + n);
        }
        n_padding += 254;
    }
}

#[cfg(test)]
mod tests {
    use opus_pure::OpusDecoder;

    use super::*;

    #[test]
    fn packets_are_taken_or_left_as_another_decoder_does() {
        let mut noise = 3u32;
        let mut next = move || {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            noise >> 16
        };
        let (mut n_taken, mut pcm) = (0, vec![0.0; 5_760]);
        for _ in 0..3_000 {
            let len = [next() % 8, next() % 60, next() % 4_000][next() as usize % 3] as usize;
            let mut packet: Vec<u8> = (0..=len).map(|_| next() as u8).collect();
            packet[0] |= 0x80;
            // Few frames and short paddings are likelier to add up.
            if let Some(second) = packet.get_mut(1).filter(|_| next() % 2 == 0) {
                *second &= 0xc7;
            }
            let theirs = OpusDecoder::new(48_000, 1).unwrap().decode(&packet, 5_760, &mut pcm);
            let ours = frames(&packet);
            assert_eq!(ours.is_some(), theirs.is_ok(), "{packet:?}");
            let Some(ours) = ours else { continue };
            n_taken += 1;
            let n_frames = packet_len(&packet).unwrap() as usize;
            assert_eq!(theirs.unwrap(), n_frames);
            assert_eq!(n_frames % ours.len(), 0);
        }
        assert!(n_taken > 500);
    }

    #[test]
    fn frames_are_where_their_lengths_say() {
        let of = |packet: &'static [u8]| frames(packet);
        assert_eq!(of(&[0xf8, 1, 2]), Some(vec![&[1, 2][..]]));
        assert_eq!(of(&[0xf9, 1, 2]), Some(vec![&[1][..], &[2]]));
        assert_eq!(of(&[0xf9, 1, 2, 3]), None);
        assert_eq!(of(&[0xfa, 1, 2, 3]), Some(vec![&[2][..], &[3]]));
        assert_eq!(of(&[0xfa, 4, 2, 3]), None);
        assert_eq!(of(&[0xfb, 0x82, 0, 1]), Some(vec![&[][..], &[1]]));
        assert_eq!(of(&[0xfb, 0x43, 2, 7, 8, 9, 0, 0]), Some(vec![&[7][..], &[8], &[9]]));
        assert_eq!(of(&[0xfb, 0x41, 9, 7]), None);
    }
}
