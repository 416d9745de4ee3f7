//! Ogg made here: Opus from its encoder, Vorbis from a recording that is played again and again.

use opus_pure::{Application, OggOpusWriter, OpusEncoder, OpusHead};

use super::make::{checksum, recording};

/// Chirps in packets of 20 ms.
pub(crate) fn opus(seconds: usize, bits_per_s: i32, application: Application) -> Vec<u8> {
    let mut encoder = OpusEncoder::new(48_000, 1, application).unwrap();
    encoder.bitrate_bps = bits_per_s;
    let head = OpusHead::for_encoder(&encoder, 48_000);
    let mut bytes = Vec::new();
    let mut writer = OggOpusWriter::new(&mut bytes, head).unwrap();
    let mut packet = vec![0; 4000];
    let samples: Vec<f32> = (0..seconds * 48_000)
        .map(|i| {
            let t = i as f32 / 48_000.0;
            0.4 * (t * 2000.0 + (t * 9.0).sin() * 400.0).sin() * (t * 3.0).sin().abs()
        })
        .collect();
    for block in samples.chunks_exact(960) {
        let len = encoder.encode(block, 960, &mut packet).unwrap();
        writer.write_packet(&packet[..len]).unwrap();
    }
    writer.finish().unwrap();
    bytes
}

/// A recording of Vorbis with its packets so many times, `per_page` of them a page.
pub(crate) fn vorbis(n_times: usize, per_page: usize) -> Vec<u8> {
    let packets = packets(&recording("vorbis-stereo"));
    let (headers, audio) = packets.split_at(3);
    let exponents = headers[0][28];
    let lens = [1u64 << (exponents & 15), 1 << (exponents >> 4)];
    let (mut granule, mut before) = (0, None);
    let mut bytes = page(0, 2, 0, &headers[..1]);
    bytes.extend(page(1, 0, 0, &headers[1..]));
    let all: Vec<Vec<u8>> = std::iter::repeat_n(audio, n_times).flatten().cloned().collect();
    let n_pages = all.len().div_ceil(per_page);
    for (i, packets) in all.chunks(per_page).enumerate() {
        for packet in packets {
            // libvorbis has two modes, the second of long blocks.
            let len = lens[usize::from(packet[0] >> 1 & 1)];
            granule += before.replace(len).map_or(0, |before| (before + len) / 4);
        }
        let flags = if i + 1 == n_pages { 4 } else { 0 };
        bytes.extend(page(i as u32 + 2, flags, granule, packets));
    }
    bytes
}

/// All packets of a file of one stream.
pub(crate) fn packets(bytes: &[u8]) -> Vec<Vec<u8>> {
    let (mut at, mut found, mut open) = (0, Vec::new(), Vec::new());
    while at < bytes.len() {
        let n = usize::from(bytes[at + 26]);
        let lacing = &bytes[at + 27..at + 27 + n];
        at += 27 + n;
        for &len in lacing {
            open.extend(&bytes[at..at + usize::from(len)]);
            at += usize::from(len);
            if len < 255 {
                found.push(std::mem::take(&mut open));
            }
        }
    }
    found
}

fn page(sequence: u32, flags: u8, granule: u64, packets: &[Vec<u8>]) -> Vec<u8> {
    let mut lacing = Vec::new();
    for packet in packets {
        lacing.extend(vec![255; packet.len() / 255]);
        lacing.push((packet.len() % 255) as u8);
    }
    let mut page = [b"OggS\0", &[flags][..], &granule.to_le_bytes()].concat();
    page.extend([7u32, sequence, 0].iter().flat_map(|n| n.to_le_bytes()));
    page.push(lacing.len().try_into().expect("few packets"));
    page.extend(lacing);
    page.extend(packets.concat());
    let sum = checksum(&page);
    page[22..26].copy_from_slice(&sum);
    page
}
