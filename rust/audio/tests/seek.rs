//! What is decoded from parts of a recording equals what is decoded from all of it.

// The lints let test functions unwrap; the functions that they share are tests as well.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

#[path = "seek/make.rs"]
mod make;
#[path = "seek/mkv.rs"]
mod mkv;
#[path = "seek/mp4.rs"]
mod mp4;
#[path = "seek/ogg.rs"]
mod ogg;

use std::{ops::Range, path::PathBuf};

use gristmill_audio::{
    AudioSpec, Channels, Codec, Crop, Decoder, Entry, Pad, Resampler, SampleType, Strict,
};
use opus_pure::Application;
use proptest::prelude::*;

const WHOLE: AudioSpec = AudioSpec::WHOLE;

/// What pipelines ask for: rates, channels, sample types, damage passed over or not.
fn specs() -> Vec<AudioSpec> {
    let lenient = AudioSpec { strict: Strict::Lenient, ..WHOLE };
    vec![
        WHOLE,
        AudioSpec { channels: Channels::Mono, pad: Pad::Zero, ..lenient.clone() },
        AudioSpec {
            rate_hz: Some(32_000),
            channels: Channels::Mono,
            sample_type: SampleType::I16,
            resampler: Resampler::Torchaudio,
            ..lenient
        },
        AudioSpec { rate_hz: Some(16_000), channels: Channels::Exact(2), ..WHOLE },
    ]
}

/// The entry of a recording, once through its bytes.
fn entry_of(bytes: &[u8]) -> Option<Entry> {
    let (_, entry) = Decoder::default().plan_and_learn(bytes, &WHOLE, 0).unwrap();
    let entry = entry?;
    let same = Entry::from_bytes(&entry.to_bytes(), entry.headers()).expect("its own bytes");
    assert_eq!(same.to_bytes(), entry.to_bytes());
    Some(same)
}

/// Whether the crop came out of a part; that it did not is no error. What came is compared with what comes
/// out of all of the bytes.
fn check(
    name: &str,
    decoder: &mut Decoder,
    bytes: &[u8],
    entry: &Entry,
    spec: &AudioSpec,
    draw: u64,
) -> bool {
    let Some(part) = decoder.plan_part(entry, spec, draw) else { return false };
    let ranges: Vec<&[u8]> = part
        .ranges()
        .iter()
        .map(|range| bytes.get(range.start as usize..range.end as usize).expect("within"))
        .collect();
    let mut got = vec![u32::MAX; part.plan().n_bytes().div_ceil(4)];
    let n_bytes = part.plan().n_bytes();
    let got = &mut bytemuck::cast_slice_mut(&mut got)[..n_bytes];
    let Some(report) = decoder.render_part(&ranges, &part, got).unwrap() else { return false };
    let plan = decoder.plan(bytes, spec, draw).expect(name);
    let mut want = vec![0u32; n_bytes.div_ceil(4)];
    let want = &mut bytemuck::cast_slice_mut(&mut want)[..n_bytes];
    let same = decoder.render_bytes(bytes, &plan, want).expect(name);
    assert_eq!((part.plan().crop(), part.plan().info()), (plan.crop(), plan.info()), "{name}");
    assert_eq!(report, same, "{name}, {spec:?}");
    assert!(got == want, "{name}, {spec:?}: other samples of {:?}", plan.crop());
    true
}

fn mixed(i: u64) -> u64 {
    if i == 0 { u64::MAX } else { (i - 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) }
}

/// Compares crops of many lengths, and asks that most of them come out of parts.
fn check_crops(name: &str, bytes: &[u8], n_crops: u64) {
    let entry = entry_of(bytes).unwrap_or_else(|| panic!("{name}: no entry"));
    let mut decoder = Decoder::default();
    for spec in specs() {
        let mut n_parts = 0;
        for i in 0..n_crops {
            let seconds = 0.004 * (1 + i * 37 % 100) as f64;
            let spec = AudioSpec { crop: Crop::Random { seconds }, ..spec.clone() };
            let is_part = check(name, &mut decoder, bytes, &entry, &spec, mixed(i));
            n_parts += u64::from(is_part);
        }
        assert!(n_parts * 10 >= n_crops * 9, "{name}: {n_parts} of {n_crops}, {spec:?}");
    }
}

/// Recordings that are long enough to be read in parts.
fn recordings() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("wav", make::wav(44_100, 2, 1, 2, 60_000)),
        ("wav, floats", make::wav(32_000, 1, 3, 4, 60_000)),
        ("wav, 24 bits", make::wav(48_000, 3, 1, 3, 40_000)),
        ("aiff", make::aiff(44_100, 2, 60_000)),
        ("caf", make::caf(44_100.0, 1, 90_000)),
        ("sphere", make::sphere(16_000, 2, 60_000)),
        ("mp3", make::mp3(4)),
        ("mp3 behind a tag, cut within a frame", make::odd_mp3(4)),
        ("flac", make::flac(100)),
        ("vorbis", ogg::vorbis(6, 7)),
        ("opus", ogg::opus(20, 96_000, Application::Audio)),
        ("aac", mp4::mp4("aac-stereo", 5, 1024, 1024)),
        ("adts", mp4::adts(5)),
        ("alac", mp4::mp4("alac-mono", 4, 4096, 0)),
        ("webm", mkv::webm(&ogg::opus(20, 96_000, Application::Audio))),
        ("opus, speech", ogg::opus(35, 28_000, Application::Voip)),
    ]
}

#[test]
fn parts_give_the_same_samples_and_reports() {
    for (name, bytes) in files() {
        // Speech is decoded from five seconds before each crop on.
        check_crops(name, bytes, if name.contains("speech") { 15 } else { 60 });
    }
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
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|e| e == extension))
        .map(|path| (path.display().to_string(), std::fs::read(path).unwrap()))
        .collect();
    files.sort();
    files
}

/// Whatever the files are, a crop out of parts is the same. How many files had one.
fn check_corpus(folder: &str, extension: &str) -> usize {
    let mut decoder = Decoder::default();
    let mut n_files = 0;
    for (name, bytes) in corpus(folder, extension) {
        let Ok((_, Some(entry))) = decoder.plan_and_learn(&bytes, &WHOLE, 0) else { continue };
        let mut n_parts = 0;
        for i in 0..40 {
            let spec = &specs()[i % 4];
            let crop = Crop::Random { seconds: 0.004 * (1 + i * 37 % 100) as f64 };
            let spec = AudioSpec { crop, ..spec.clone() };
            if spec.channels == Channels::Exact(2) && entry.info().n_channels > 2 {
                continue;
            }
            n_parts +=
                usize::from(check(&name, &mut decoder, &bytes, &entry, &spec, mixed(i as u64)));
        }
        n_files += usize::from(n_parts > 0);
    }
    n_files
}

#[test]
fn parts_of_mp3_vectors_give_the_same() {
    let n_files = check_corpus("mp3", "bit");
    println!("{n_files} files in parts");
}

#[test]
fn parts_of_flac_vectors_give_the_same() {
    let n_files = check_corpus("flac", "flac");
    println!("{n_files} files in parts");
}

#[test]
fn short_recordings_and_most_of_one_are_read_whole() {
    let mut decoder = Decoder::default();
    let short = make::wav(8000, 1, 1, 2, 30_000);
    let entry = entry_of(&short).unwrap();
    assert_eq!((entry.n_bytes(), entry.info().n_frames), (60_044, 30_000));
    let spec = AudioSpec { crop: Crop::Start { seconds: 0.1 }, ..WHOLE };
    assert!(entry.has_table() && decoder.plan_part(&entry, &spec, 0).is_none());
    let long = entry_of(&make::wav(8000, 1, 1, 2, 80_000)).unwrap();
    assert!(decoder.plan_part(&long, &WHOLE, 0).is_none());
    let part = decoder.plan_part(&long, &spec, 0).unwrap();
    assert_eq!((part.ranges().len(), part.n_bytes()), (1, 1600));
    assert_eq!(part.ranges()[0], 44..1644);
    // Parts of another length are no parts.
    let mut out = vec![0; part.plan().n_bytes()];
    for parts in [&[][..], &[&[0; 1599][..]], &[&[0; 1600], &[]]] {
        assert_eq!(decoder.render_part(parts, &part, &mut out).unwrap(), None);
    }
}

#[test]
fn damaged_recordings_have_no_entry() {
    let whole = make::wav(8000, 1, 1, 2, 80_000);
    let cut = &whole[..100_000];
    let lenient = AudioSpec { strict: Strict::Lenient, ..WHOLE };
    let (plan, entry) = Decoder::default().plan_and_learn(cut, &lenient, 0).unwrap();
    assert!(plan.info().n_frames == 80_000 && entry.is_none());
}

/// Recordings that are made once.
fn files() -> &'static [(&'static str, Vec<u8>)] {
    static FILES: std::sync::OnceLock<Vec<(&'static str, Vec<u8>)>> = std::sync::OnceLock::new();
    FILES.get_or_init(recordings)
}

/// Changes to bytes: where, and to what.
fn changes() -> impl Strategy<Value = Vec<(prop::sample::Index, u8)>> {
    prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Bytes of an entry that anything was done to are no entry, or give the same.
    #[test]
    fn mutated_entries_give_the_same_or_nothing(
        kind in any::<prop::sample::Index>(),
        changes in changes(),
        draw: u64,
    ) {
        let (name, bytes) = kind.get(files());
        let entry = entry_of(bytes).unwrap();
        let mut mutated = entry.to_bytes();
        for (at, value) in changes {
            let at = at.index(mutated.len());
            mutated[at] = value;
        }
        if let Some(entry) = Entry::from_bytes(&mutated, entry.headers()) {
            let spec = AudioSpec { crop: Crop::Random { seconds: 0.3 }, ..WHOLE };
            check(name, &mut Decoder::default(), bytes, &entry, &spec, draw);
        }
    }

    /// A false entry with the right checksum asks for bytes within the recording, and ends in samples
    /// or in nothing.
    #[test]
    fn lying_entries_end_in_samples_or_nothing(
        kind in any::<prop::sample::Index>(),
        changes in changes(),
        less in 0usize..8,
        draw: u64,
    ) {
        let (_, bytes) = kind.get(files());
        let entry = entry_of(bytes).unwrap();
        let mut lie = entry.to_bytes();
        lie.truncate(lie.len() - 4 - less / 4);
        for (at, value) in changes {
            let at = at.index(lie.len());
            lie[at] = value;
        }
        lie.extend(make::checksum(&[&lie, entry.headers()].concat()));
        let Some(entry) = Entry::from_bytes(&lie, entry.headers()) else { return Ok(()) };
        prop_assume!(entry.n_bytes() == bytes.len() as u64);
        let mut decoder = Decoder::default();
        for spec in [WHOLE, AudioSpec { rate_hz: Some(16_000), strict: Strict::Lenient, ..WHOLE }] {
            let spec = AudioSpec { crop: Crop::Random { seconds: 0.3 }, ..spec };
            let Some(part) = decoder.plan_part(&entry, &spec, draw) else { continue };
            let range = |range: &Range<u64>| bytes.get(range.start as usize..range.end as usize);
            let parts: Option<Vec<&[u8]>> = part.ranges().iter().map(range).collect();
            let parts = parts.expect("within the recording");
            let mut out = vec![0; part.plan().n_bytes() / 4];
            let out = bytemuck::cast_slice_mut::<u32, u8>(&mut out);
            prop_assert!(decoder.render_part(&parts, &part, out).is_ok());
        }
    }

    /// A part that anything was done to ends in samples or in nothing; where the codec has checksums, in the
    /// same samples or in nothing.
    #[test]
    fn mutated_parts_end_in_samples_or_nothing(
        kind in any::<prop::sample::Index>(),
        changes in changes(),
        draw: u64,
    ) {
        let (name, bytes) = kind.get(files());
        let entry = entry_of(bytes).unwrap();
        let mut decoder = Decoder::default();
        let spec = AudioSpec { crop: Crop::Random { seconds: 0.3 }, ..WHOLE };
        let part = decoder.plan_part(&entry, &spec, draw).expect("long enough");
        let mut mutated = bytes.clone();
        for (at, value) in changes {
            let range = &part.ranges()[at.index(part.ranges().len())];
            mutated[range.start as usize + at.index((range.end - range.start) as usize)] = value;
        }
        let parts: Vec<&[u8]> = part
            .ranges()
            .iter()
            .map(|range| &mutated[range.start as usize..range.end as usize])
            .collect();
        let mut out = vec![0f32; part.plan().n_samples()];
        let came = decoder.render_part(&parts, &part, bytemuck::cast_slice_mut(&mut out)).unwrap();
        let has_sums = matches!(entry.info().codec, Codec::Flac | Codec::Vorbis | Codec::Opus);
        if has_sums && *name != "webm" && came.is_some() {
            let plan = decoder.plan(bytes, &spec, draw).unwrap();
            let mut whole = vec![0f32; plan.n_samples()];
            decoder.render(bytes, &plan, &mut whole).unwrap();
            prop_assert!(out == whole, "{name}");
        }
    }
}
