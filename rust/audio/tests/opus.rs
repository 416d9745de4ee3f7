//! Opus in Ogg, written here: crops, and what damaged packets do.

#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

use gristmill_audio::{AudioSpec, Codec, Crop, Decoder, Reason, Strict, probe};
use opus_pure::{Application, OggOpusWriter, OpusEncoder, OpusHead};
use proptest::prelude::*;

const WHOLE: AudioSpec = AudioSpec::WHOLE;

/// Chirps over noise in packets of 20 ms.
fn file(seconds: usize, n_channels: usize, bits_per_s: i32, application: Application) -> Vec<u8> {
    let mut encoder = OpusEncoder::new(48_000, n_channels, application).unwrap();
    encoder.bitrate_bps = bits_per_s;
    let head = OpusHead::for_encoder(&encoder, 48_000);
    let mut bytes = Vec::new();
    let mut writer = OggOpusWriter::new(&mut bytes, head).unwrap();
    let (mut noise, mut packet) = (1u32, vec![0; 4000]);
    let samples: Vec<f32> = (0..seconds * 48_000)
        .flat_map(|i| {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let t = i as f32 / 48_000.0;
            let tone = (t * 2000.0 + (t * 9.0).sin() * 400.0).sin() * (t * 3.0).sin().abs();
            let x = 0.4 * tone + (noise >> 8) as f32 / (1 << 24) as f32 * 0.05;
            vec![x; n_channels]
        })
        .collect();
    for block in samples.chunks_exact(960 * n_channels) {
        let len = encoder.encode(block, 960, &mut packet).unwrap();
        writer.write_packet(&packet[..len]).unwrap();
    }
    writer.finish().unwrap();
    bytes
}

fn decode(bytes: &[u8], spec: &AudioSpec, draw: u64) -> Result<Vec<f32>, Reason> {
    let mut decoder = Decoder::default();
    let plan = decoder.plan(bytes, spec, draw).map_err(|e| e.reason)?;
    let mut out = vec![f32::NAN; plan.n_samples()];
    decoder.render(bytes, &plan, &mut out).map_err(|e| e.reason)?;
    Ok(out)
}

#[test]
fn crops_equal_slices() {
    for (bits_per_s, application, exact) in
        [(96_000, Application::Audio, true), (16_000, Application::Voip, false)]
    {
        let bytes = file(9, 1, bits_per_s, application);
        let info = probe(&bytes).unwrap();
        assert_eq!((info.codec, info.rate_hz, info.n_channels), (Codec::Opus, 48_000, 1));
        let whole = decode(&bytes, &WHOLE, 0).unwrap();
        assert_eq!(whole.len() as u64, info.n_frames);
        for i in 0..40u64 {
            let seconds = 0.01 + i as f64 * 0.02;
            let spec = AudioSpec { crop: Crop::Random { seconds }, ..WHOLE };
            let draw = i.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let crop = Decoder::default().plan(&bytes, &spec, draw).unwrap().crop();
            let got = decode(&bytes, &spec, draw).unwrap();
            let want = &whole[crop.start as usize..crop.end as usize];
            assert_eq!(got.len(), want.len());
            let worst = got.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(worst <= if exact { 1e-6 } else { 2e-2 }, "{bits_per_s}, {crop:?}: {worst}");
        }
    }
}

/// The checksum of Ogg, bit by bit.
fn repair(bytes: &mut [u8]) {
    let starts: Vec<_> = (0..bytes.len()).filter(|&i| bytes[i..].starts_with(b"OggS")).collect();
    for (i, &at) in starts.iter().enumerate() {
        let end = starts.get(i + 1).copied().unwrap_or(bytes.len());
        let Some(page) = bytes.get_mut(at..end).filter(|page| page.len() > 27) else { continue };
        page[22..26].fill(0);
        let crc = page.iter().fold(0u32, |crc, &byte| {
            (0..8).fold(crc ^ u32::from(byte) << 24, |crc, _| {
                if crc >> 31 == 1 { crc << 1 ^ 0x04C1_1DB7 } else { crc << 1 }
            })
        });
        page[22..26].copy_from_slice(&crc.to_le_bytes());
    }
}

#[test]
fn a_false_mark_of_the_end_hides_nothing() {
    let good = file(4, 1, 64_000, Application::Audio);
    let whole = decode(&good, &WHOLE, 0).unwrap();
    let pages: Vec<_> = (0..good.len()).filter(|&i| good[i..].starts_with(b"OggS")).collect();
    assert!(pages.len() >= 5, "{pages:?}");
    let mut flipped = good.clone();
    flipped[pages[pages.len() / 2] + 5] ^= 4;
    let mut written = flipped.clone();
    repair(&mut written);
    let crop = AudioSpec { crop: Crop::Start { seconds: 0.1 }, ..WHOLE };
    for spec in [&WHOLE, &crop] {
        assert_eq!(decode(&flipped, spec, 0), Err(Reason::CorruptPackets { count: 1 }));
        // Where the checksum says that the mark was written, it is a note: all packets are there.
        let pedantic = AudioSpec { strict: Strict::Pedantic, ..spec.clone() };
        assert_eq!(decode(&written, &pedantic, 0), Err(Reason::CorruptPackets { count: 1 }));
    }
    let lenient = AudioSpec { strict: Strict::Lenient, ..WHOLE };
    for spec in [&WHOLE, &lenient] {
        assert_eq!(decode(&written, spec, 0).unwrap(), whole);
    }
    // The checksum is wrong as well: one page is zeros, and what follows stands in its place.
    let salvaged = decode(&flipped, &lenient, 0).unwrap();
    assert_eq!(salvaged.len(), whole.len());
    let n_zeros = salvaged.iter().rev().skip_while(|&&x| x != 0.0).filter(|&&x| x == 0.0).count();
    assert!((20_000..30_000).contains(&n_zeros), "{n_zeros}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Whatever is in the packets, the end is frames or a reason, and a panic is neither.
    #[test]
    fn damaged_packets_end_in_frames_or_a_reason(
        kind in 0usize..3,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
        start in 0f64..1.0,
    ) {
        static FILES: std::sync::OnceLock<Vec<Vec<u8>>> = std::sync::OnceLock::new();
        let files = FILES.get_or_init(|| vec![
            file(1, 2, 64_000, Application::Audio),
            file(1, 1, 16_000, Application::Voip),
            file(1, 2, 28_000, Application::Voip),
        ]);
        let mut bytes = files[kind].clone();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        repair(&mut bytes);
        let crop = Crop::At { start, seconds: Some(0.2) };
        for spec in [WHOLE, AudioSpec { crop, ..WHOLE }] {
            if let Err(reason) = decode(&bytes, &spec, 0) {
                prop_assert!(!matches!(reason, Reason::DecoderPanic(_)), "{reason}");
            }
        }
    }
}
