//! Crops equal slices, damage has a name, shapes are as promised.

// The lints let test functions unwrap; the functions that they share are tests as well.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

use std::path::PathBuf;

use gristmill_audio::{
    AudioSpec, Channels, Codec, Crop, DecodeError, Decoder, Limits, Pad, Reason, probe,
};
use proptest::prelude::*;

const WHOLE: AudioSpec = AudioSpec::WHOLE;

/// A 16-bit WAV file of noise, whose channels differ.
fn wav(rate_hz: u32, n_channels: u16, n_frames: usize) -> Vec<u8> {
    let mut state = 88_172_645_463_325_252u64;
    let data: Vec<u8> = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state as i16).to_le_bytes()
    })
    .take(n_frames * usize::from(n_channels))
    .flatten()
    .collect();
    wav_of(rate_hz, n_channels, 1, 2, &data)
}

fn wav_of(rate_hz: u32, n_channels: u16, tag: u16, width: u16, data: &[u8]) -> Vec<u8> {
    let block = n_channels * width;
    let mut bytes = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0".to_vec();
    bytes.extend(tag.to_le_bytes());
    bytes.extend(n_channels.to_le_bytes());
    bytes.extend(rate_hz.to_le_bytes());
    bytes.extend((rate_hz * u32::from(block)).to_le_bytes());
    bytes.extend(block.to_le_bytes());
    bytes.extend((width * 8).to_le_bytes());
    bytes.extend(b"data");
    bytes.extend((data.len() as u32).to_le_bytes());
    bytes.extend(data);
    bytes
}

fn decode(
    decoder: &mut Decoder,
    bytes: &[u8],
    spec: &AudioSpec,
    draw: u64,
) -> Result<Vec<f32>, DecodeError> {
    let plan = decoder.plan(bytes, spec, draw)?;
    let mut out = vec![f32::NAN; plan.n_samples()];
    decoder.render(bytes, &plan, &mut out)?;
    Ok(out)
}

fn reason(bytes: &[u8]) -> Reason {
    decode(&mut Decoder::default(), bytes, &WHOLE, 0).unwrap_err().reason
}

fn bits(samples: &[f32]) -> Vec<u32> {
    samples.iter().map(|x| x.to_bits()).collect()
}

/// Compares crops with slices of the whole, at several rates and channels.
fn check_crops(name: &str, bytes: &[u8], n_crops: u64) {
    let mut decoder = Decoder::default();
    for (rate_hz, channels) in [
        (None, Channels::Keep),
        (None, Channels::Mono),
        (Some(22_050), Channels::Keep),
        (Some(32_000), Channels::Mono),
        (Some(16_001), Channels::Mono),
    ] {
        let spec = AudioSpec { rate_hz, channels, ..WHOLE };
        let plan = decoder.plan(bytes, &spec, 0).expect(name);
        let n_frames = plan.n_frames();
        let whole = decode(&mut Decoder::default(), bytes, &spec, 0).expect(name);
        for i in 0..n_crops {
            let wanted = 1 + (i as usize * 7919) % 5000;
            let seconds = wanted as f64 / f64::from(plan.rate_hz());
            // The first and the last start are among them.
            let draw = if i == 0 { u64::MAX } else { (i - 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) };
            let spec = AudioSpec { crop: Crop::Random { seconds }, ..spec.clone() };
            let crop = decoder.plan(bytes, &spec, draw).expect(name).crop();
            let got = decode(&mut decoder, bytes, &spec, draw).expect(name);
            let range = crop.start as usize..crop.end as usize;
            let want: Vec<f32> =
                whole.chunks(n_frames).flat_map(|plane| &plane[range.clone()]).copied().collect();
            assert_eq!(bits(&got), bits(&want), "{name}, {rate_hz:?}, {channels:?}, {crop:?}");
        }
    }
}

#[test]
fn crops_of_wav_equal_slices() {
    check_crops("mono", &wav(44_100, 1, 20_000), 60);
    check_crops("stereo", &wav(32_000, 2, 9_999), 60);
    check_crops("six channels", &wav(8_000, 6, 3_000), 20);
}

/// Test data of public projects, or nothing where it is absent.
fn corpus(folder: &str, extension: &str) -> Vec<(String, Vec<u8>)> {
    let root = std::env::var_os("GRISTMILL_CORPUS").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpora"),
        PathBuf::from,
    );
    let Ok(entries) = std::fs::read_dir(root.join(folder)) else {
        println!("skipped: there is no {folder}/ in {}; set GRISTMILL_CORPUS", root.display());
        return Vec::new();
    };
    let mut files: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == extension))
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read(path).unwrap())
        })
        .collect();
    files.sort();
    files
}

#[test]
fn crops_of_flac_equal_slices() {
    for (name, bytes) in corpus("flac", "flac") {
        if name.starts_with("subset") {
            check_crops(&name, &bytes, 20);
        } else {
            // Whatever is wrong with these, the end is frames or a reason.
            let _ = decode(&mut Decoder::default(), &bytes, &WHOLE, 0);
        }
    }
}

#[test]
fn crops_of_mp3_equal_slices() {
    for (name, bytes) in corpus("mp3", "bit") {
        match decode(&mut Decoder::default(), &bytes, &WHOLE, 0) {
            Ok(whole) if !whole.is_empty() => check_crops(&name, &bytes, 20),
            Ok(_) => {}
            Err(e) => println!("{name}: {e}"),
        }
    }
}

/// Streams that are known to differ from their reference: a frame with more samples than bits for
/// them and an invalid block type, which are refused, and a stream cut out of another, whose first
/// frames lack their reservoir: here they are silent, the reference leaves them out.
const KNOWN_TO_DIFFER: [&str; 4] = [
    "l2-nonstandard-test32-size.bit",
    "l3-nonstandard-compl-sideinfo-blocktype.bit",
    "l3-sin1k0db.bit",
    // Its reference takes the highest position of intensity stereo for none: docs/decisions/codecs.md.
    "l3-test46.bit",
];

#[test]
fn mp3_equals_the_reference_within_16_bits() {
    let references: std::collections::BTreeMap<_, _> = corpus("mp3", "pcm").into_iter().collect();
    for (name, bytes) in corpus("mp3", "bit") {
        // All of them, refusals too, are in tests/audio/test_formats_mpeg.py.
        let Ok(info) = probe(&bytes) else { continue };
        if KNOWN_TO_DIFFER.contains(&&*name) || info.n_frames == 0 {
            continue;
        }
        let samples = decode(&mut Decoder::default(), &bytes, &WHOLE, 0).expect(&name);
        let reference = &references[&name.replace(".bit", ".pcm")];
        let n_channels = usize::from(info.n_channels);
        let n_frames = samples.len() / n_channels;
        for (i, pair) in reference.chunks_exact(2).enumerate().take(samples.len()) {
            let want = f32::from(i16::from_le_bytes([pair[0], pair[1]]));
            let got = samples[i % n_channels * n_frames + i / n_channels] * 32_768.0;
            // The reference's converter makes all between -1.5 and 0.5 a 0.
            // A clipped reference says no more than the sign.
            let clipped = want.abs() >= 32_767.0 && got.abs() >= 32_766.0;
            assert!(clipped || (got - want).abs() <= 1.51, "{name}, sample {i}: {got}, not {want}");
        }
    }
}

#[test]
fn wav_widths_have_the_scale_of_their_bits() {
    let one = |tag, width, data: &[u8]| {
        decode(&mut Decoder::default(), &wav_of(8000, 1, tag, width, data), &WHOLE, 0).unwrap()
    };
    assert_eq!(one(1, 1, &[0, 128, 255]), [-1.0, 0.0, 127.0 / 128.0]);
    assert_eq!(one(1, 2, &[0, 0x80, 1, 0]), [-1.0, 1.0 / 32_768.0]);
    assert_eq!(one(1, 3, &[0, 0, 0x80, 1, 0, 0]), [-1.0, 1.0 / 8_388_608.0]);
    assert_eq!(one(1, 4, &i32::MIN.to_le_bytes()), [-1.0]);
    assert_eq!(one(3, 4, &1.5f32.to_le_bytes()), [1.5]);
    assert_eq!(one(3, 8, &(-2.5f64).to_le_bytes()), [-2.5]);
}

#[test]
fn channels_are_mixed_as_documented() {
    let data: Vec<u8> =
        [100i16, 200, 300, -1, -2, -3].iter().flat_map(|x| x.to_le_bytes()).collect();
    let bytes = wav_of(8000, 3, 1, 2, &data);
    let with =
        |channels| decode(&mut Decoder::default(), &bytes, &AudioSpec { channels, ..WHOLE }, 0);
    let unit = 1.0f32 / 32_768.0;
    let mean = |a: f32, b: f32, c: f32| ((a * unit + b * unit) + c * unit) * (1.0 / 3.0);
    assert_eq!(with(Channels::Mono).unwrap(), [mean(100., 200., 300.), mean(-1., -2., -3.)]);
    assert_eq!(with(Channels::Exact(2)).unwrap(), [100., -1., 200., -2.].map(|x: f32| x * unit));
    let error = with(Channels::Exact(4)).unwrap_err();
    assert_eq!(error.reason, Reason::TooFewChannels { found: 3, wanted: 4 });
    let mono = wav_of(8000, 1, 1, 2, &data);
    let spec = AudioSpec { channels: Channels::Exact(2), ..WHOLE };
    let twice = decode(&mut Decoder::default(), &mono, &spec, 0).unwrap();
    assert_eq!(twice[..6], twice[6..]);
}

#[test]
fn short_recordings_are_padded() {
    let bytes = wav(1000, 1, 4);
    let crop = Crop::Random { seconds: 0.01 };
    let padded =
        |pad| decode(&mut Decoder::default(), &bytes, &AudioSpec { crop, pad, ..WHOLE }, 9);
    let whole = decode(&mut Decoder::default(), &bytes, &WHOLE, 0).unwrap();
    assert_eq!(padded(Pad::None).unwrap(), whole);
    assert_eq!(padded(Pad::Zero).unwrap(), [&whole[..], &[0.0; 6]].concat());
    assert_eq!(padded(Pad::Repeat).unwrap(), [&whole[..], &whole, &whole[..2]].concat());
}

#[test]
fn crops_start_as_late_as_a_recording_may_be_long() {
    let at = |start| {
        let limits = Limits { max_seconds: Limits::LONGEST_S, ..Limits::DEFAULT };
        AudioSpec { crop: Crop::At { start, seconds: Some(2.0) }, limits, ..WHOLE }
    };
    let bytes = wav(1, 1, 100_000);
    let part = decode(&mut Decoder::default(), &bytes, &at(90_000.0), 0).unwrap();
    let spec = AudioSpec { crop: Crop::Whole, ..at(0.0) };
    let whole = decode(&mut Decoder::default(), &bytes, &spec, 0).unwrap();
    assert_eq!(part, whole[90_000..90_002]);
    assert!(at(Limits::LONGEST_S).validate().is_ok());
    let message = at(Limits::LONGEST_S + 1.0).validate().unwrap_err();
    assert_eq!(message, "the crop must start within 0 and 2592000 s, not at 2592001");
    assert!(at(-1.0).validate().is_err());
}

#[test]
fn fixed_shapes_are_known_from_the_options() {
    let spec = AudioSpec {
        rate_hz: Some(32_000),
        channels: Channels::Mono,
        crop: Crop::Random { seconds: 5.0 },
        pad: Pad::Zero,
        ..WHOLE
    };
    assert_eq!(spec.fixed_shape(), Some((1, 160_000)));
    assert_eq!(AudioSpec { pad: Pad::None, ..spec.clone() }.fixed_shape(), None);
    assert_eq!(AudioSpec { rate_hz: None, ..spec.clone() }.fixed_shape(), None);
    assert_eq!(AudioSpec { channels: Channels::Keep, ..spec.clone() }.fixed_shape(), None);
    let plan = Decoder::default().plan(&wav(44_100, 2, 100), &spec, 7).unwrap();
    assert_eq!((plan.n_channels(), plan.n_frames()), (1, 160_000));
    for seconds in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let crop = Crop::Center { seconds };
        assert!(AudioSpec { crop, ..spec.clone() }.validate().is_err());
    }
    assert!(AudioSpec { rate_hz: Some(0), ..spec.clone() }.validate().is_err());
    assert!(AudioSpec { channels: Channels::Exact(0), ..spec.clone() }.validate().is_err());
    assert!(spec.validate().is_ok());
}

#[test]
fn damage_has_a_name() {
    assert_eq!(reason(b""), Reason::Empty);
    assert_eq!(reason(b"no audio at all, but long enough to look at"), Reason::UnknownFormat);
    assert_eq!(reason(&[0; 5000]), Reason::UnknownFormat);
    let good = wav(8000, 2, 1000);
    let cut = &good[..good.len() - 400];
    assert_eq!(reason(cut), Reason::Truncated { decoded: 900, expected: Some(1000) });
    assert!(matches!(reason(&good[..30]), Reason::MalformedHeader(_)));
    let nan = wav_of(8000, 1, 3, 4, &f32::NAN.to_le_bytes());
    assert_eq!(reason(&nan), Reason::NonFinite);
    for (bytes, name) in
        [(&b"FORM\0\0\0\0ILBM"[..], "IFF without AIFF"), (b"\x56\xE0\x20\x11", "AAC in LOAS")]
    {
        assert_eq!(reason(bytes), Reason::UnsupportedCodec(name.to_owned()));
    }
}

#[test]
fn unknown_lengths_go_to_the_end() {
    for len in [0u32, u32::MAX] {
        let mut bytes = wav(8000, 1, 1000);
        bytes[40..44].copy_from_slice(&len.to_le_bytes());
        assert_eq!(probe(&bytes).unwrap().n_frames, 1000);
    }
}

#[test]
fn a_wrong_slot_and_cancelling_are_errors() {
    let bytes = wav(8000, 1, 100_000);
    let mut decoder = Decoder::default();
    let plan = decoder.plan(&bytes, &WHOLE, 0).unwrap();
    let error = decoder.render(&bytes, &plan, &mut [0.0; 3]).unwrap_err();
    assert_eq!(error.reason, Reason::WrongSlot { expected: 100_000, found: 3 });
    decoder.set_cancel(std::sync::Arc::new(true.into()));
    let error = decoder.render(&bytes, &plan, &mut vec![0.0; 100_000]).unwrap_err();
    assert_eq!((error.codec, error.reason), (Some(Codec::Wav), Reason::Cancelled));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Random bytes behind every magic number end in frames or a reason, and a panic is neither.
    #[test]
    fn hostile_bytes_end_in_a_reason(
        magic in prop::sample::select(vec![
            &b"RIFF\0\0\0\0WAVEfmt "[..], b"FORM\0\0\0\0AIFFCOMM\0\0\0\x12", b"caff\0\x01\0\0desc", b"fLaC\0\0\0\x22", b"OggS\0\x02", b"ID3\x03\0\0\0\0\0\x01",
            b"\xFF\xFB\x90\0", b"\0\0\0\x08ftyp\0\0\x04\0moov", b"\x1A\x45\xDF\xA3\x80\x18\x53\x80\x67\xFF",
            b"\xFF\xF1\x50\x40\x04\x1F\xFC", b"",
        ]),
        body in prop::collection::vec(any::<u8>(), 0..2000),
    ) {
        let bytes = [magic, &body].concat();
        let mut decoder = Decoder::default();
        if let Ok(plan) = decoder.plan(&bytes, &WHOLE, 0) {
            prop_assert!(plan.n_samples() < 100_000_000);
            let mut out = vec![0.0; plan.n_samples()];
            if let Err(error) = decoder.render(&bytes, &plan, &mut out) {
                prop_assert!(!matches!(error.reason, Reason::DecoderPanic(_)));
            }
        }
    }
}
