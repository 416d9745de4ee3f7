//! Files made box by box: lengths, truncation, lies.

use proptest::prelude::*;

use super::*;
use crate::{Strict, names::Codec};

fn atom(kind: &str, body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32 + 8).to_be_bytes()[..], kind.as_bytes(), body].concat()
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// A sample entry of AAC-LC, mono, with this configuration.
fn mp4a(config: &[u8]) -> Vec<u8> {
    let specific = [&[5, config.len() as u8][..], config].concat();
    let config = [&[4, 13 + specific.len() as u8, 0x40][..], &[0; 12], &specific].concat();
    let stream = [&[3, 3 + config.len() as u8, 0, 0, 0][..], &config].concat();
    let esds = atom("esds", &[&[0; 4][..], &stream].concat());
    atom("mp4a", &[&[0; 28][..], &esds].concat())
}

const LC: [u8; 2] = [0x12, 0x08];
const N_PACKETS: u32 = 10;
const PACKET: u32 = 100;

/// The tables of a track; packets begin at `offset`.
fn stbl(entry: &[u8], stts: &[u32], stsz: &[u32], offset: u32) -> Vec<u8> {
    let stsd = [&words(&[0, 1])[..], entry].concat();
    let tables = [
        atom("stsd", &stsd),
        atom("stts", &words(stts)),
        atom("stsz", &words(stsz)),
        atom("stsc", &words(&[0, 1, 1, N_PACKETS, 1])),
        atom("stco", &words(&[0, 1, offset])),
    ];
    atom("stbl", &tables.concat())
}

fn moov(stbl: &[u8], duration: u32, elst: Option<&[u32]>, more: &[u8]) -> Vec<u8> {
    let hdlr = [&[0; 8][..], b"soun", &[0; 12]].concat();
    let mdia = [
        atom("mdhd", &words(&[0, 0, 0, 44_100, duration, 0])),
        atom("hdlr", &hdlr),
        atom("minf", stbl),
    ];
    let edts = elst.map_or_else(Vec::new, |elst| atom("edts", &atom("elst", &words(elst))));
    let tkhd = atom("tkhd", &words(&[0, 0, 0, 1, 0, 0]));
    let trak = [tkhd, edts, atom("mdia", &mdia.concat())].concat();
    let mvhd = atom("mvhd", &words(&[0, 0, 0, 1000, 0, 0]));
    atom("moov", &[mvhd, atom("trak", &trak), more.to_vec()].concat())
}

/// A plain file whose tables stand behind its packets.
fn file(entry: &[u8], stts: &[u32], stsz: &[u32], elst: Option<&[u32]>) -> Vec<u8> {
    let ftyp = atom("ftyp", b"M4A \0\0\0\0");
    let mdat = atom("mdat", &vec![0x11; (N_PACKETS * PACKET) as usize]);
    let tables = stbl(entry, stts, stsz, ftyp.len() as u32 + 8);
    [ftyp, mdat, moov(&tables, 0, elst, &[])].concat()
}

const STTS: [u32; 4] = [0, 1, N_PACKETS, 1024];
const STSZ: [u32; 3] = [0, PACKET, N_PACKETS];

fn open(bytes: &[u8]) -> Result<TrackLayout, Reason> {
    super::open(bytes, &mut Vec::new(), &mut Ledger::default()).map(|(layout, _)| layout)
}

fn shape(bytes: &[u8]) -> (u64, u64) {
    let layout = open(bytes).unwrap();
    assert_eq!((layout.rate_hz, layout.n_channels), (44_100, 1));
    (layout.delay, layout.n_frames)
}

#[test]
fn tables_become_packets() {
    let entry = mp4a(&LC);
    assert_eq!(shape(&file(&entry, &STTS, &STSZ, None)), (0, 10_240));
    let edit = [0, 1, 150, 1024, 0x1_0000];
    assert_eq!(shape(&file(&entry, &STTS, &STSZ, Some(&edit))), (1024, 6615));
    let stts = [0, 2, N_PACKETS - 1, 1024, 1, 500];
    assert_eq!(shape(&file(&entry, &stts, &STSZ, None)), (0, 9716));
    let each = [&[0, 0, N_PACKETS][..], &[PACKET; N_PACKETS as usize]].concat();
    assert_eq!(shape(&file(&entry, &STTS, &each, None)), (0, 10_240));
}

#[test]
fn sizes_may_be_short_numbers() {
    let sizes = [9u8, 15, 1, 12, 3, 8, 2, 7, 5, 4];
    let with = |n_bits: u32, each: &[u8]| {
        let stz2 = atom("stz2", &[&words(&[0, n_bits, N_PACKETS])[..], each].concat());
        let ftyp = atom("ftyp", b"M4A \0\0\0\0");
        let mut tables = stbl(&mp4a(&LC), &STTS, &STSZ, ftyp.len() as u32 + 8);
        let at = tables.windows(4).position(|kind| kind == b"stsz").unwrap() - 4;
        tables.splice(at..at + 20, stz2);
        let tables = atom("stbl", &tables[8..]);
        [ftyp, atom("mdat", &[0x11; 80]), moov(&tables, 0, None, &[])].concat()
    };
    for (n_bits, each) in [
        (4, sizes.chunks(2).map(|two| two[0] << 4 | two[1]).collect::<Vec<_>>()),
        (8, sizes.to_vec()),
        (16, sizes.iter().flat_map(|&size| [0, size]).collect()),
    ] {
        let mut packets = Vec::new();
        let bytes = with(n_bits, &each);
        let (_, at) = super::open(&bytes, &mut packets, &mut Ledger::default()).unwrap();
        let found = packets.iter().map(|packet| packet.data(&bytes).unwrap().len());
        assert!(found.eq(sizes.map(usize::from)), "{n_bits}");
        assert_eq!(at, None);
    }
    assert!(open(&with(5, &sizes)).is_err());
}

#[test]
fn tables_that_lie_are_found_out() {
    let entry = mp4a(&LC);
    let malformed = |bytes: &[u8]| assert!(matches!(open(bytes), Err(Reason::MalformedHeader(_))));
    let lost = open(&file(&entry, &STTS, &[0, PACKET, u32::MAX], None)).unwrap_err();
    assert_eq!(lost, Reason::LostPackets { count: u64::from(u32::MAX - N_PACKETS) });
    malformed(&file(&entry, &STTS, &[0, 0, N_PACKETS, 1, 2], None));
    malformed(&file(&entry, &STTS, &[0, 0, 2, 0, 0], None));
    let long = file(&entry, &[0, 1, N_PACKETS, 4096], &STSZ, None);
    // Times that are too long are no packets: all of those are there.
    assert_eq!(shape(&long), (0, 10_240));
    let mut pedantic = Ledger::new(Strict::Pedantic);
    assert_eq!(
        super::open(&long, &mut Vec::new(), &mut pedantic).unwrap_err(),
        Reason::malformed("the durations of the packets are not theirs")
    );
    let outside = file(&entry, &STTS, &[0, 1000, N_PACKETS], None);
    assert!(matches!(open(&outside), Err(Reason::Truncated { expected: Some(10_240), .. })));
}

#[test]
fn every_cut_is_seen() {
    let whole = file(&mp4a(&LC), &STTS, &STSZ, None);
    for len in 16..whole.len() {
        let found = open(&whole[..len]);
        assert!(found.is_err(), "{len} of {}: {found:?}", whole.len());
    }
    // The tables in front: the packets behind them tell.
    let ftyp = atom("ftyp", b"M4A \0\0\0\0");
    let n_front = ftyp.len() + moov(&stbl(&mp4a(&LC), &STTS, &STSZ, 0), 0, None, &[]).len();
    let front = moov(&stbl(&mp4a(&LC), &STTS, &STSZ, n_front as u32 + 8), 0, None, &[]);
    let packets = atom("mdat", &vec![0x11; (N_PACKETS * PACKET) as usize]);
    let front = [ftyp, front, packets].concat();
    assert_eq!(shape(&front), (0, 10_240));
    let found = open(&front[..front.len() - 250]).unwrap_err();
    assert_eq!(found, Reason::Truncated { decoded: 7 * 1024, expected: Some(10_240) });
}

/// A sample entry of Opus with this `dOps` box.
fn opus(specific: &[u8]) -> Vec<u8> {
    atom("Opus", &[&[0; 28][..], &atom("dOps", specific)].concat())
}

#[test]
fn packets_of_opus_tell_their_lengths() {
    // Each begins with 0x11: SILK of 40 ms, two frames of one length.
    let entry = opus(&[0, 2, 0x01, 0x38, 0, 0, 0xBB, 0x80, 0, 0, 0]);
    let stts = [0, 1, N_PACKETS, 3528]; // at 44.1 kHz: 3840 frames of 48 kHz
    let data = file(&entry, &stts, &STSZ, None);
    let layout = open(&data).unwrap();
    assert_eq!((layout.codec, layout.rate_hz, layout.n_channels), (Codec::Opus, 48_000, 2));
    // Without an edit list the pre-skip of the header holds, in ticks of the timescale.
    let delay = (312 * 44_100 / 48_000 * 48_000 + 22_050) / 44_100;
    assert_eq!((layout.delay, layout.n_frames), (delay, 10 * 3840 - delay));
    for cut in 0..11 {
        assert!(open(&file(&opus(&[0; 11][..cut]), &stts, &STSZ, None)).is_err());
    }
}

#[test]
fn what_is_not_decoded_is_refused_by_name() {
    let refused = |entry: &[u8]| match open(&file(entry, &STTS, &STSZ, None)) {
        Err(Reason::UnsupportedCodec(name)) => name,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(&mp4a(&[0x2B, 0x92, 0x08, 0x00])), "HE-AAC");
    assert_eq!(refused(&mp4a(&[0xEB, 0x8A, 0x08, 0x00])), "HE-AAC v2");
    assert_eq!(refused(&mp4a(&[0x13, 0x90, 0x56, 0xE5, 0xA0])), "HE-AAC");
    assert_eq!(refused(&mp4a(&[0xF9, 0x48, 0x40, 0x00])), "xHE-AAC");
    let sinf = atom("sinf", &atom("schm", b"\0\0\0\0cenc\0\0\0\0"));
    let enca = atom("enca", &[&[0; 28][..], &sinf].concat());
    assert_eq!(refused(&enca), "an encrypted MP4 track (cenc)");
    assert_eq!(refused(&atom("drms", &[0; 28])), "a track under iTunes DRM (FairPlay)");
    let ambisonics = [0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 2];
    assert_eq!(refused(&opus(&ambisonics)), "Opus with mapping family 2");
    assert_eq!(refused(&opus(&[1, 2, 0, 0])), "another version of Opus in MP4");
    assert_eq!(refused(&atom("\u{1}bc\n", &[0; 28])), "MP4 with \\x01bc\\n");
    let two = [0, 2, 50, 0, 0x1_0000, 50, 4096, 0x1_0000];
    let found = open(&file(&mp4a(&LC), &STTS, &STSZ, Some(&two)));
    assert!(matches!(found, Err(Reason::UnsupportedCodec(_))));
}

/// A fragment of `n` packets at this time.
fn fragment(time: u32, n: u32) -> Vec<u8> {
    let traf = |offset: u32| {
        let tfhd = atom("tfhd", &words(&[0x2_0038, 1, 1024, PACKET, 0]));
        let tfdt = atom("tfdt", &words(&[0, time]));
        let trun = atom("trun", &words(&[1, n, offset]));
        atom("traf", &[tfhd, tfdt, trun].concat())
    };
    let moof_len = atom("moof", &traf(0)).len() as u32;
    let mdat = atom("mdat", &vec![0x11; (n.min(50) * PACKET) as usize]);
    [atom("moof", &traf(moof_len + 8)), mdat].concat()
}

fn fragmented(fragments: &[Vec<u8>]) -> Vec<u8> {
    let empty = stbl(&mp4a(&LC), &[0, 0], &[0, 0, 0], 0);
    let trex = atom("trex", &words(&[0, 1, 1, 1024, 0, 0]));
    let moov = moov(&empty, 0, None, &atom("mvex", &trex));
    [atom("ftyp", b"iso5\0\0\0\0"), moov, fragments.concat()].concat()
}

#[test]
fn fragments_are_one_stream() {
    let whole = fragmented(&[fragment(0, 4), fragment(4096, 5)]);
    assert_eq!(shape(&whole), (0, 9 * 1024));
    assert_eq!(
        open(&fragmented(&[fragment(0, 4), fragment(8192, 5)])).unwrap_err(),
        Reason::LostPackets { count: 1 }
    );
    assert_eq!(
        open(&whole[..whole.len() - 1]).unwrap_err(),
        Reason::Truncated { decoded: 8 * 1024, expected: Some(9 * 1024) }
    );
    // Inside the second moof.
    let cut = fragmented(&[fragment(0, 4)]).len() + 20;
    let found = open(&whole[..cut]).unwrap_err();
    assert_eq!(found, Reason::Truncated { decoded: 4096, expected: None });
    let lie = fragmented(&[fragment(0, u32::MAX)]);
    assert!(open(&lie).is_err());
}

#[test]
fn a_track_without_a_base_begins_where_the_one_before_it_ends() {
    let traf = |track: u32, size: u32, trun: &[u32]| {
        let tfhd = atom("tfhd", &words(&[0x38, track, 1024, size, 0]));
        atom("traf", &[tfhd, atom("trun", &words(trun))].concat())
    };
    // Of the picture sizes stand in the run, or one for all packets elsewhere.
    for video in [&[0x301, 2, 0, 40, 7, 40, 20][..], &[1, 3, 0]] {
        let moof = |offset: u32| {
            let video = [&video[..2], &[offset], &video[3..]].concat();
            let audio = traf(1, PACKET, &[1, 4, 0]);
            atom("moof", &[traf(2, 9, &video), audio].concat())
        };
        let len = moof(0).len() as u32;
        let video_len = 27;
        let mdat = atom("mdat", &vec![0x11; (video_len + 4 * PACKET) as usize]);
        let bytes = fragmented(&[moof(len + 8), mdat]);
        let mut packets = Vec::new();
        super::open(&bytes, &mut packets, &mut Ledger::default()).unwrap();
        let begin = bytes.len() - 4 * PACKET as usize;
        let of_first = packets.first().and_then(|packet| packet.data(&bytes)).unwrap();
        assert_eq!(of_first.as_ptr(), bytes[begin..].as_ptr());
        assert_eq!((packets.len(), of_first.len()), (4, PACKET as usize));
    }
}

/// A fragment of packets with these durations at this time; no box has a default.
fn timed_fragment(time: u32, durations: &[u32]) -> Vec<u8> {
    let n = durations.len() as u32;
    let traf = |offset: u32| {
        let tfhd = atom("tfhd", &words(&[0x2_0030, 1, PACKET, 0]));
        let tfdt = atom("tfdt", &words(&[0, time]));
        let trun = atom("trun", &words(&[&[0x101, n, offset], durations].concat()));
        atom("traf", &[tfhd, tfdt, trun].concat())
    };
    let moof_len = atom("moof", &traf(0)).len() as u32;
    let mdat = atom("mdat", &vec![0x11; (n * PACKET) as usize]);
    [atom("moof", &traf(moof_len + 8)), mdat].concat()
}

/// Without durations in `trex`.
fn without_default(fragments: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = fragmented(fragments);
    let trex = bytes.windows(4).position(|kind| kind == b"trex").unwrap();
    bytes[trex + 16..trex + 20].fill(0);
    bytes
}

/// The frames with `strict=False`, and whether packets are missing.
fn salvaged(bytes: &[u8]) -> (u64, bool) {
    let mut ledger = Ledger::LENIENT;
    let (layout, _) = super::open(bytes, &mut Vec::new(), &mut ledger).unwrap();
    (layout.n_frames, ledger.counts().get(Damage::LostPackets) > 0)
}

#[test]
fn durations_of_packets_alone_tell_what_is_missing() {
    let file = |times: [u32; 3], durations: [&[u32]; 3]| {
        let parts: Vec<_> = times.into_iter().zip(durations).collect();
        without_default(
            &parts.iter().map(|(at, each)| timed_fragment(*at, each)).collect::<Vec<_>>(),
        )
    };
    let (four, short) = ([1024; 4], [500]);
    assert_eq!(shape(&file([0, 4096, 8192], [&four; 3])), (0, 12 * 1024));
    // A clock that drifts loses nothing.
    assert_eq!(shape(&file([0, 4098, 8194], [&four; 3])), (0, 12 * 1024));
    let lost = file([0, 4096, 12_288], [&four; 3]);
    assert_eq!(open(&lost).unwrap_err(), Reason::LostPackets { count: 1 });
    assert_eq!(salvaged(&lost), (16 * 1024, true));
    // The last packet is short, and alone behind the gap.
    let lost = file([0, 4096, 12_288], [&four, &four, &short]);
    assert_eq!(salvaged(&lost), (12 * 1024 + 500, true));
    // Durations are rounded, and the lost ones came to less than as many of the first.
    let rounded = [1024, 1023, 1023, 1023];
    let lost = file([0, 4093, 8186 + 4092], [&rounded; 3]);
    assert_eq!(salvaged(&lost), (3 * 4093 + 4092, true));
    // Where nothing tells how long packets are, times say nothing.
    assert_eq!(shape(&file([0, 4096, 8192], [&[0; 4]; 3])), (0, 12 * 1024));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Files with random bytes here and there end in a list or a reason, soon and small.
    #[test]
    fn hostile_bytes_end_in_a_list_or_a_reason(
        is_fragmented in any::<bool>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<[u8; 4]>()), 0..6),
        cut in any::<prop::sample::Index>(),
        is_cut in any::<bool>(),
    ) {
        let mut bytes = if is_fragmented {
            fragmented(&[fragment(0, 4), fragment(4096, 5)])
        } else {
            file(&mp4a(&LC), &STTS, &STSZ, Some(&[0, 1, 150, 1024, 0x1_0000]))
        };
        for (at, change) in changes {
            let at = at.index(bytes.len() - 4);
            bytes[at..at + 4].copy_from_slice(&change);
        }
        if is_cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let mut packets = Vec::new();
        let _ = super::open(&bytes, &mut packets, &mut Ledger::default());
        prop_assert!(packets.len() <= bytes.len());
        prop_assert!(packets.iter().all(|packet| packet.data(&bytes).is_some()));
    }
}
