//! A setup and packets of Vorbis in a valid Ogg file, so that mutants reach the decoder.

use crate::repair;

/// The most bytes of a packet: less than a page holds.
const MAX_LEN: usize = 60_000;

/// An Ogg file of the parts in `data`: two bytes for channels and block sizes, the setup without its
/// first seven bytes, and the packets, each after its length in two bytes.
pub(crate) fn file(data: &[u8]) -> Vec<u8> {
    let (&[channels, sizes], mut rest) =
        data.split_first_chunk().unwrap_or((&[0, 0], Default::default()));
    let short = 6 + sizes % 8;
    let long = short + (sizes >> 4) % (14 - short);
    let mut ident = b"\x01vorbis\0\0\0\0".to_vec();
    ident.push(1 + channels % 8);
    ident.extend(32_000u32.to_le_bytes());
    ident.extend([0; 12]);
    ident.extend([long << 4 | short, 1]);
    let setup = [b"\x05vorbis", next(&mut rest).unwrap_or_default()].concat();
    let mut file = page(2, 0, 0, &[&ident]);
    file.extend(page(0, 0, 1, &[b"\x03vorbis\0\0\0\0\0\0\0\0\x01", &setup]));
    let packets: Vec<_> = std::iter::from_fn(|| next(&mut rest)).collect();
    for (i, packet) in packets.iter().enumerate() {
        // At most the length of the blocks. Only the last page has an end, which may be earlier.
        let is_last = i + 1 == packets.len();
        let granule = if is_last { i as u64 * (1 << short >> 1) } else { u64::MAX };
        file.extend(page(if is_last { 4 } else { 0 }, granule, i as u32 + 2, &[packet]));
    }
    repair::ogg(&mut file);
    file
}

fn next<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, behind) = rest.split_first_chunk::<2>()?;
    let len = usize::from(u16::from_be_bytes(*len)).min(MAX_LEN).min(behind.len());
    let (part, behind) = behind.split_at(len);
    *rest = behind;
    Some(part)
}

/// A page of whole packets, without its checksum.
fn page(flags: u8, granule: u64, sequence: u32, packets: &[&[u8]]) -> Vec<u8> {
    let mut lacing = Vec::new();
    for packet in packets {
        lacing.extend(std::iter::repeat_n(255, packet.len() / 255));
        lacing.push((packet.len() % 255) as u8);
    }
    let mut page = b"OggS\0".to_vec();
    page.push(flags);
    page.extend(granule.to_le_bytes());
    page.extend(1u32.to_le_bytes());
    page.extend(sequence.to_le_bytes());
    page.extend([0; 4]);
    page.push(lacing.len() as u8);
    page.extend(lacing);
    page.extend(packets.concat());
    page
}
