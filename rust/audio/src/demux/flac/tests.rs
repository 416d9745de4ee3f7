use std::{ops::Range, time::Duration};

use super::{
    test_frame, test_frame_of,
    walk::tests::{N_PARSED, bare_headers},
};
use crate::{
    AudioSpec, Crop, Decoder, Depth, Limits, Reason, cancel::Cancel, codec::flac::crc::crc_16,
    report::Ledger,
};

/// A stream of blocks of 256 samples, and no count of them in STREAMINFO.
fn stream(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = b"fLaC\x80\0\0\x22\x01\0\x01\0\0\0\0\0\0\0".to_vec();
    bytes.extend((44_100u64 << 44 | 15 << 36).to_be_bytes());
    bytes.extend([0; 16]);
    bytes.extend(frames.iter().flatten());
    bytes
}

/// Three frames.
fn uncounted() -> Vec<u8> {
    stream(&[0, 1, 2].map(|number| test_frame(number, -7)))
}

#[test]
fn a_frame_that_is_cut_is_told_where_nothing_is_promised() {
    let (whole, mut decoder) = (uncounted(), Decoder::default());
    assert_eq!(decoder.plan(&whole, &AudioSpec::WHOLE, 0).unwrap().n_samples(), 768);
    let mut broken = whole.clone();
    *broken.last_mut().unwrap() ^= 1;
    for bytes in [&broken, &whole[..whole.len() - 1]] {
        for depth in [Depth::Checksums, Depth::Decode] {
            let checked = decoder.check(bytes, Limits::default(), depth).unwrap();
            assert_eq!((checked.info.n_frames, checked.error), (512, None));
            assert_eq!(checked.report.damage.iter().collect::<Vec<_>>(), [("partial_frame", 1)]);
        }
    }
}

#[test]
fn a_cut_that_keeps_its_numbers_begins_with_its_first_frame() {
    let frames: Vec<_> = (50..90).map(|number| test_frame(number, i16::from(number))).collect();
    let (bytes, mut decoder) = (stream(&frames), Decoder::default());
    for depth in [Depth::Checksums, Depth::Decode] {
        let checked = decoder.check(&bytes, Limits::default(), depth).unwrap();
        assert_eq!((checked.info.n_frames, checked.error), (40 * 256, None), "{depth:?}");
    }
    let (whole, _) = lenient(&bytes, 0..40 * 256);
    let values = whole.iter().map(|x| (x * 32_768.0) as i32);
    assert!(values.eq((50..90).flat_map(|value| [value; 256])));
    assert_eq!(lenient(&bytes, 5000..5300), (whole[5000..5300].to_vec(), 0));
    // A count that the frames contradict changes nothing. Where metadata are broken, frames are missing.
    let mut promised = bytes.clone();
    promised[25] = 1;
    assert_eq!(lenient(&promised, 0..40 * 256), (whole, 0));
    let broken = with_a_wrong_length(&frames.concat());
    assert!(decoder.check(&broken, Limits::default(), Depth::Decode).unwrap().error.is_some());
}

/// A frame of 256 equal samples that are stored each, so that its length is plausible.
fn verbatim(number: u8) -> Vec<u8> {
    let mut frame = test_frame(number, 0)[..6].to_vec();
    frame.push(2);
    frame.extend(i16::from(number).to_be_bytes().repeat(256));
    let crc = crc_16(&frame);
    frame.extend(crc.to_be_bytes());
    frame
}

#[test]
fn frames_whose_numbers_begin_again_near_the_end_are_played() {
    let frames = |n: u8| (0..n).map(verbatim);
    for (n, n_again) in [(100, 5), (1, 1), (3, 1)] {
        let bytes = stream(&frames(n).chain(frames(n_again)).collect::<Vec<_>>());
        let n_frames = 256 * u64::from(n + n_again);
        for depth in [Depth::Checksums, Depth::Decode] {
            let checked = Decoder::default().check(&bytes, Limits::default(), depth).unwrap();
            assert_eq!((checked.info.n_frames, checked.error), (n_frames, None), "{depth:?}");
            assert_eq!(checked.report.notes.iter().collect::<Vec<_>>(), [("timestamps", 1)]);
        }
        let values = lenient(&bytes, 0..n_frames).0.into_iter().map(|x| (x * 32_768.0) as u8);
        assert!(values.eq((0..n).chain(0..n_again).flat_map(|value| [value; 256])));
    }
}

#[test]
fn a_frame_that_comes_twice_is_a_note() {
    let numbers = (0..=30).chain(30..100);
    let bytes = stream(&numbers.map(verbatim).collect::<Vec<_>>());
    for depth in [Depth::Checksums, Depth::Decode] {
        let checked = Decoder::default().check(&bytes, Limits::default(), depth).unwrap();
        assert_eq!((checked.info.n_frames, checked.error), (25_600, None), "{depth:?}");
        let n_notes = checked.report.notes.iter().map(|(_, n)| n).sum::<u64>();
        assert_eq!(n_notes, u64::from(depth == Depth::Decode), "{depth:?}");
    }
}

/// A stream whose last block of metadata says that it is longer than the file.
fn with_a_wrong_length(behind: &[u8]) -> Vec<u8> {
    let mut bytes = stream(&[]);
    bytes[4] = 0;
    bytes.extend([0x81, 0xFF, 0xFF, 0xFF]);
    bytes.extend(behind);
    bytes
}

#[test]
fn headers_without_frames_are_not_looked_at_again_and_again() {
    let n = 10_000;
    let bytes = with_a_wrong_length(&bare_headers((0..n).map(|_| 5)));
    let before = N_PARSED.get();
    let opened = super::open(&bytes, 0, &Cancel::default(), &mut Ledger::default());
    assert_eq!(opened.unwrap_err(), Reason::malformed("no audio follows"));
    let n_parsed = N_PARSED.get() - before;
    assert!(n_parsed <= 60 * n as usize, "{n_parsed}");
}

#[test]
fn the_search_for_the_first_frame_can_be_cancelled() {
    let bytes = with_a_wrong_length(&[0, 1, 2].map(|number| test_frame(number, -7)).concat());
    let (mut cancel, mut ledger) = (Cancel::default(), Ledger::default());
    assert_eq!(super::open(&bytes, 0, &cancel, &mut ledger).unwrap().n_frames, 768);
    cancel.begin(Some(Duration::ZERO));
    let opened = super::open(&bytes, 0, &cancel, &mut ledger);
    assert!(matches!(opened.unwrap_err(), Reason::Limit(_)));
}

/// The crop `range` of a stream, without `strict`, and how many packets were corrupt.
fn lenient(bytes: &[u8], range: Range<u64>) -> (Vec<f32>, u64) {
    let seconds = |n: u64| n as f64 / 44_100.0;
    let (start, len) = (seconds(range.start), seconds(range.end - range.start));
    let crop = Crop::At { start, seconds: Some(len) };
    let spec = AudioSpec { crop, strict: false.into(), ..AudioSpec::WHOLE };
    let mut decoder = Decoder::default();
    let plan = decoder.plan(bytes, &spec, 0).unwrap();
    let mut samples = vec![0.0; plan.n_samples()];
    let report = decoder.render(bytes, &plan, &mut samples).unwrap();
    (samples, report.damage.iter().find(|(name, _)| *name == "corrupt_packets").map_or(0, |d| d.1))
}

#[test]
fn a_frame_that_reaches_into_the_next_is_damage() {
    let frames = [test_frame(0, 1), test_frame_of(9, 1, 2), test_frame(2, 3), test_frame(3, 4)];
    let (bytes, mut decoder) = (stream(&frames), Decoder::default());
    for depth in [Depth::Checksums, Depth::Decode] {
        let error = decoder.check(&bytes, Limits::default(), depth).unwrap().error.unwrap();
        assert_eq!(error.reason, Reason::CorruptPackets { count: 1 }, "{depth:?}");
    }
    let (whole, n_corrupt) = lenient(&bytes, 0..1024);
    assert_eq!(n_corrupt, 1);
    let values = whole.iter().map(|x| (x * 32_768.0) as i32);
    assert!(values.eq([1, 0, 3, 4].into_iter().flat_map(|value| [value; 256])));
    // Whether decoding begins with it or behind it, crops are those of the whole.
    assert_eq!(lenient(&bytes, 600..700), (whole[600..700].to_vec(), 0));
    assert_eq!(lenient(&bytes, 400..700), (whole[400..700].to_vec(), 1));
}
