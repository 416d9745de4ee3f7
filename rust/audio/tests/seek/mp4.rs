//! The packets of a recording in MP4 again and again: in MP4, and behind headers of ADTS.

use super::make::recording;

/// The packets, and the box that says how they are coded.
struct Source {
    packets: Vec<Vec<u8>>,
    stsd: Vec<u8>,
    rate_hz: u32,
}

fn be(bytes: &[u8], at: usize) -> usize {
    u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
}

/// Of a file with all packets in one piece.
fn source(name: &str) -> Source {
    let bytes = recording(name);
    let find = |kind: &[u8]| bytes.windows(4).rposition(|w| w == kind).unwrap();
    let (stsz, stsd, mut at) = (find(b"stsz"), find(b"stsd"), be(&bytes, find(b"stco") + 12));
    let mut packets = Vec::new();
    for i in 0..be(&bytes, stsz + 12) {
        let len = be(&bytes, stsz + 16 + 4 * i);
        packets.push(bytes[at..at + len].to_vec());
        at += len;
    }
    let rate_hz = gristmill_audio::probe(&bytes).unwrap().rate_hz;
    Source { packets, stsd: bytes[stsd - 4..stsd - 4 + be(&bytes, stsd - 4)].to_vec(), rate_hz }
}

impl Source {
    /// The packets so many times; the last one of all, which may be shorter, once.
    fn repeat(&self, n_times: usize) -> Vec<&[u8]> {
        let (last, rest) = self.packets.split_last().unwrap();
        let rest = std::iter::repeat_n(rest, n_times).flatten();
        rest.chain([last]).map(Vec::as_slice).collect()
    }
}

fn item(kind: [u8; 4], body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32 + 8).to_be_bytes()[..], &kind, body].concat()
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// A file whose tables come behind its packets, which begin after `delay` frames and have `frame_len`.
pub(crate) fn mp4(name: &str, n_times: usize, frame_len: u32, delay: u32) -> Vec<u8> {
    let source = source(name);
    let packets = source.repeat(n_times);
    let n = packets.len() as u32;
    let lens: Vec<u32> = packets.iter().map(|packet| packet.len() as u32).collect();
    let rate = source.rate_hz;
    let mut bytes = item(*b"ftyp", b"M4A \0\0\0\0");
    let audio = bytes.len() as u32 + 8;
    bytes.extend(item(*b"mdat", &packets.concat()));
    let stbl = [
        source.stsd.clone(),
        item(*b"stts", &words(&[0, 1, n, frame_len])),
        item(*b"stsc", &words(&[0, 1, 1, n, 1])),
        item(*b"stsz", &[words(&[0, 0, n]), words(&lens)].concat()),
        item(*b"stco", &words(&[0, 1, audio])),
    ];
    let minf = item(*b"minf", &item(*b"stbl", &stbl.concat()));
    let mdhd = item(*b"mdhd", &words(&[0, 0, 0, rate, n * frame_len, 0]));
    let hdlr = item(*b"hdlr", b"\0\0\0\0\0\0\0\0soun\0\0\0\0\0\0\0\0\0\0\0\0\0");
    let mdia = item(*b"mdia", &[mdhd, hdlr, minf].concat());
    let elst = item(*b"elst", &words(&[0, 1, 0, delay, 1 << 16]));
    let trak = item(*b"trak", &[item(*b"edts", &elst), mdia].concat());
    let mvhd = item(*b"mvhd", &words(&[0, 0, 0, rate, n * frame_len]));
    bytes.extend(item(*b"moov", &[mvhd, trak].concat()));
    bytes
}

/// A stream of AAC at 44.1 kHz in stereo.
pub(crate) fn adts(n_times: usize) -> Vec<u8> {
    let source = source("aac-stereo");
    assert_eq!(source.rate_hz, 44_100);
    let mut bytes = Vec::new();
    for packet in source.repeat(n_times) {
        let len = packet.len() + 7;
        bytes.extend([0xFF, 0xF1, 0x50, 0x80 | (len >> 11) as u8, (len >> 3) as u8]);
        bytes.extend([(len << 5) as u8 | 0x1F, 0xFC]);
        bytes.extend(packet);
    }
    bytes
}
