//! Packets of Opus in `WebM`.

use super::ogg;

fn element(id: &[u8], body: &[u8]) -> Vec<u8> {
    let size = 0x1000_0000 | body.len() as u32;
    [id, &size.to_be_bytes(), body].concat()
}

/// The packets of a file of Ogg, which have 20 ms each, half a second of them a cluster.
pub(crate) fn webm(opus: &[u8]) -> Vec<u8> {
    let packets = ogg::packets(opus);
    let (headers, audio) = packets.split_at(2);
    let entry = [
        element(&[0xD7], &[1]),
        element(&[0x83], &[2]),
        element(&[0x86], b"A_OPUS"),
        element(&[0x63, 0xA2], &headers[0]),
    ];
    let mut segment = element(&[0x16, 0x54, 0xAE, 0x6B], &element(&[0xAE], &entry.concat()));
    for (i, packets) in audio.chunks(25).enumerate() {
        let mut cluster = element(&[0xE7], &(i as u64 * 500).to_be_bytes());
        for (k, packet) in packets.iter().enumerate() {
            let [a, b] = (k as u16 * 20).to_be_bytes();
            let block = [&[0x81, a, b, 0x80], &packet[..]].concat();
            if k % 2 == 0 {
                cluster.extend(element(&[0xA3], &block));
            } else {
                // In a group, behind which its duration stands.
                let group = [element(&[0xA1], &block), element(&[0x9B], &[20])].concat();
                cluster.extend(element(&[0xA0], &group));
            }
        }
        segment.extend(element(&[0x1F, 0x43, 0xB6, 0x75], &cluster));
    }
    let head = element(&[0x1A, 0x45, 0xDF, 0xA3], &[]);
    [head, element(&[0x18, 0x53, 0x80, 0x67], &segment)].concat()
}
