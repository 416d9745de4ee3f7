//! Against `opus-pure`, packet by packet.

use std::f32::consts::TAU;

use opus_pure::{Application, OpusDecoder, OpusEncoder};

use super::{Coding, Decoder, RangeDecoder};

/// Music-like: partials that come and go, clicks, and noise that differs between channels.
fn sound(n: usize, n_channels: usize) -> Vec<f32> {
    let mut noise = 1u32;
    let mut sound = Vec::new();
    for t in 0..n {
        let s = t as f32 / 48_000.0;
        for channel in 0..n_channels {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let hiss = (noise >> 8) as f32 / 8_388_608.0 - 1.0;
            let pitch = 110.0 * (1 << (t / 9_600 % 5)) as f32 + 3.0 * channel as f32;
            let tone: f32 = (1..12).map(|k| (TAU * pitch * k as f32 * s).sin() / k as f32).sum();
            let click = if t % 7_001 < 40 { 0.5 * hiss } else { 0.0 };
            let fade = (0.3 * s * TAU).sin().max(0.0);
            sound.push(0.2 * tone * fade + click + 0.01 * hiss);
        }
    }
    sound
}

/// The largest difference, and the largest sample.
fn compare(packets: &[Vec<u8>], n_channels: usize) -> (f32, f32) {
    let mut theirs = OpusDecoder::new(48_000, n_channels).unwrap();
    let mut ours = [Decoder::new(n_channels), Decoder::plain(n_channels)];
    let mut worst = (0.0f32, 0.0f32);
    for packet in packets {
        let coding = Coding::of(packet[0]);
        let n = coding.frame_len();
        let mut pcm = vec![0.0; n * n_channels];
        assert_eq!(theirs.decode(packet, n, &mut pcm).unwrap(), n);
        let mut planes = [(); 2].map(|()| vec![vec![0.0; n]; n_channels]);
        for (ours, planes) in ours.iter_mut().zip(&mut planes) {
            ours.decode(coding, &mut RangeDecoder::new(&packet[1..]), planes, 0);
        }
        assert_eq!(planes[0], planes[1], "the same bits with any instructions");
        for (i, pcm) in pcm.chunks(n_channels).enumerate() {
            for (plane, want) in planes[0].iter().zip(pcm) {
                worst.0 = worst.0.max((plane[i] - want).abs());
                worst.1 = worst.1.max(want.abs());
            }
        }
    }
    worst
}

#[test]
fn encoded_sound_equals_another_decoder() {
    let mut wrong = Vec::new();
    for n_channels in [1, 2] {
        let sound = sound(96_000, n_channels);
        for frame_len in [120, 240, 480, 960] {
            for kbits in [12, 24, 48, 96, 192, 320] {
                let mut encoder =
                    OpusEncoder::new(48_000, n_channels, Application::RestrictedLowDelay).unwrap();
                encoder.bitrate_bps = kbits * 1_000;
                let mut packets = Vec::new();
                for frame in sound.chunks_exact(frame_len * n_channels) {
                    let mut packet = vec![0; 1_500];
                    let len = encoder.encode(frame, frame_len, &mut packet).unwrap();
                    packet.truncate(len);
                    packets.push(packet);
                }
                let (difference, largest) = compare(&packets, n_channels);
                assert!(largest > 0.1);
                if difference >= 2e-5 {
                    wrong.push((n_channels, frame_len, kbits, difference));
                }
            }
        }
    }
    assert_eq!(wrong, [], "channels, samples a frame, kbit/s, difference");
}

/// Any bytes are frames; those of one packet may be of another kind than those of the last.
#[test]
fn any_bytes_are_decoded_to_finite_sound() {
    let mut noise = 7u32;
    let mut next = move || {
        noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        noise >> 16
    };
    for n_channels in [1, 2] {
        let mut decoder = Decoder::new(n_channels);
        for _ in 0..4_000 {
            let coding = Coding::of(0x80 | (next() & 0x7f) as u8);
            let len = [next() % 8, next() % 200, next() % 1_276][next() as usize % 3];
            let fill = [0, 0xff, next() as u8][next() as usize % 3];
            let is_plain = next() % 8 == 0;
            let frame: Vec<u8> =
                (0..len).map(|_| if is_plain { fill } else { next() as u8 }).collect();
            let mut planes = vec![vec![f32::NAN; coding.frame_len()]; n_channels];
            decoder.decode(coding, &mut RangeDecoder::new(&frame), &mut planes, 0);
            assert!(planes.iter().flatten().all(|x| x.is_finite()));
        }
    }
}
