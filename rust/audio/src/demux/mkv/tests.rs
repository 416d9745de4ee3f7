//! Files made element by element.

use proptest::prelude::*;

use super::*;
use crate::Strict;

fn element(id: u32, body: &[u8]) -> Vec<u8> {
    let id: Vec<u8> = id.to_be_bytes().into_iter().skip_while(|&byte| byte == 0).collect();
    let size = 0x1000_0000 | body.len() as u32;
    [&id[..], &size.to_be_bytes(), body].concat()
}

fn number(id: u32, value: u64) -> Vec<u8> {
    element(id, &value.to_be_bytes())
}

/// A track of PCM, mono, 16 bits, 1000 Hz.
fn tracks(codec: &str, more: &[u8]) -> Vec<u8> {
    let audio = [
        element(id::RATE, &1000f64.to_be_bytes()),
        number(id::CHANNELS, 1),
        number(id::BIT_DEPTH, 16),
    ];
    let entry = [
        number(id::TRACK_NUMBER, 1),
        number(id::TRACK_TYPE, 2),
        element(id::CODEC_ID, codec.as_bytes()),
        element(id::AUDIO, &audio.concat()),
        more.to_vec(),
    ];
    element(id::TRACKS, &element(id::TRACK_ENTRY, &entry.concat()))
}

fn block(time: u16, n_frames: usize) -> Vec<u8> {
    let [a, b] = time.to_be_bytes();
    element(id::SIMPLE_BLOCK, &[&[0x81, a, b, 0x80][..], &vec![0x11; 2 * n_frames]].concat())
}

fn cluster(time: u64, blocks: &[Vec<u8>]) -> Vec<u8> {
    element(id::CLUSTER, &[number(id::CLUSTER_TIME, time), blocks.concat()].concat())
}

fn file(parts: &[Vec<u8>]) -> Vec<u8> {
    [element(0x1A45_DFA3, &[]), element(id::SEGMENT, &parts.concat())].concat()
}

fn good() -> Vec<u8> {
    let (one, two) = ([block(0, 100), block(100, 100)], [block(0, 100), block(100, 50)]);
    file(&[tracks("A_PCM/INT/LIT", &[]), cluster(0, &one), cluster(200, &two)])
}

fn open(bytes: &[u8]) -> Result<TrackLayout, Reason> {
    super::open(bytes, &mut Vec::new(), &mut Ledger::default()).map(|opened| opened.layout)
}

/// Why the file is an error where notes are errors.
fn pedantic(bytes: &[u8]) -> Reason {
    let mut ledger = Ledger::new(Strict::Pedantic);
    super::open(bytes, &mut Vec::new(), &mut ledger).map(|opened| opened.layout).unwrap_err()
}

#[test]
fn blocks_are_one_stream() {
    let layout = open(&good()).unwrap();
    assert_eq!((layout.rate_hz, layout.n_channels, layout.n_frames), (1000, 1, 350));
    // Sizes that are not known.
    let mut bytes = good();
    let segment = bytes.windows(4).position(|w| w == id::SEGMENT.to_be_bytes()).unwrap();
    bytes.splice(segment + 4..segment + 8, [0x1F, 0xFF, 0xFF, 0xFF]);
    assert_eq!(open(&bytes).unwrap().n_frames, 350);
    let delay = number(id::CODEC_DELAY, 30_000_000);
    let padding = number(id::DISCARD_PADDING, 20_000_000);
    let last =
        element(id::BLOCK_GROUP, &[element(id::BLOCK, &[0x81, 0, 0, 0, 1, 2]), padding].concat());
    let bytes = file(&[
        tracks("A_PCM/INT/LIT", &delay),
        cluster(0, &[block(0, 100)]),
        cluster(100, &[last]),
    ]);
    let layout = open(&bytes).unwrap();
    assert_eq!((layout.delay, layout.n_frames), (30, 51));
}

#[test]
fn padding_of_another_track_is_not_ours() {
    let group = |track: u8, padding_ms: u64| {
        let block = element(id::BLOCK, &[&[0x80 | track, 0, 0, 0][..], &[0x11; 200]].concat());
        let padding = number(id::DISCARD_PADDING, padding_ms * 1_000_000);
        let padding = if padding_ms > 0 { padding } else { Vec::new() };
        element(id::BLOCK_GROUP, &[block, padding].concat())
    };
    let n_frames = |blocks: &[Vec<u8>]| {
        let parts = [tracks("A_PCM/INT/LIT", &[]), cluster(0, blocks)];
        open(&file(&parts)).unwrap().n_frames
    };
    assert_eq!(n_frames(&[group(1, 0), group(2, 30)]), 100);
    assert_eq!(n_frames(&[group(1, 20), group(2, 30)]), 80);
    assert_eq!(n_frames(&[group(1, 20), group(2, 0)]), 80);
    assert_eq!(n_frames(&[group(2, 30), group(1, 20)]), 80);
    assert_eq!(n_frames(&[block(0, 100), group(2, 30)]), 100);
}

#[test]
fn damage_is_seen() {
    let bytes = good();
    for len in 5..bytes.len() {
        assert!(open(&bytes[..len]).is_err(), "{len}");
    }
    let gap = [block(0, 100), block(200, 100)];
    let gap = file(&[tracks("A_PCM/INT/LIT", &[]), cluster(0, &gap)]);
    assert_eq!(open(&gap).unwrap_err(), Reason::LostPackets { count: 1 });
    let ended = element(id::INFO, &element(id::DURATION, &2000f64.to_be_bytes()));
    let short = file(&[ended, tracks("A_PCM/INT/LIT", &[]), cluster(0, &[block(0, 100)])]);
    // A length that no block bears out, in a file that ends behind one, is a note.
    assert_eq!(open(&short).unwrap().n_frames, 100);
    let truncated = Reason::Truncated { decoded: 100, expected: Some(2000) };
    assert_eq!(pedantic(&short), truncated);
}

#[test]
fn durations_count_from_the_first_block_or_from_0() {
    let open = |start: u64, info: &[Vec<u8>]| {
        let blocks = cluster(start, &[block(0, 1000), block(1000, 1000)]);
        let info = element(id::INFO, &info.concat());
        open(&file(&[info, tracks("A_PCM/INT/LIT", &[]), blocks])).map(|layout| layout.n_frames)
    };
    let duration = |ms: f64| element(id::DURATION, &ms.to_be_bytes());
    for ms in [2000.0, 7000.0] {
        assert_eq!(open(5000, &[duration(ms)]), Ok(2000), "{ms}");
    }
    assert_eq!(open(5000, &[duration(8000.0)]), Ok(2000));
    // The timescale may come behind the duration that it is for.
    let scale = number(id::TIMESTAMP_SCALE, 500_000);
    assert_eq!(open(0, &[duration(4000.0), scale]), Ok(2000));
}

#[test]
fn what_is_not_decoded_is_refused_by_name() {
    let refused = |codec: &str, more: &[u8]| match open(&file(&[tracks(codec, more)])) {
        Err(Reason::UnsupportedCodec(name)) => name,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused("A_AC3", &[]), "Matroska with A_AC3");
    assert_eq!(refused("A_AAC/MPEG4/LC/SBR", &[]), "HE-AAC");
    let asc = element(id::CODEC_PRIVATE, &[0x2B, 0x92, 0x08, 0x00]);
    assert_eq!(refused("A_AAC", &asc), "HE-AAC");
    let encoding = |body: &[u8]| element(id::ENCODINGS, &element(id::ENCODING, body));
    assert_eq!(refused("A_AAC", &encoding(&[])), "Matroska with compressed tracks");
    let encrypted = encoding(&element(id::ENCRYPTION, &[]));
    assert_eq!(refused("A_AAC", &encrypted), "an encrypted Matroska track");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn hostile_bytes_end_in_a_list_or_a_reason(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<[u8; 2]>()), 0..6),
        tail in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut bytes = good();
        for (at, change) in changes {
            let at = at.index(bytes.len() - 2);
            bytes[at..at + 2].copy_from_slice(&change);
        }
        bytes.extend(tail);
        let mut packets = Vec::new();
        let _ = super::open(&bytes, &mut packets, &mut Ledger::default());
        prop_assert!(packets.len() <= bytes.len());
        prop_assert!(packets.iter().all(|packet| packet.data(&bytes).is_some()));
    }
}
