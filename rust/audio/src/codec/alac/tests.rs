//! Packets of random parameters and bits, against Symphonia's decoder.

use proptest::prelude::*;
use symphonia::core::{
    audio::{Audio, GenericAudioBufferRef},
    codecs::audio::{
        AudioCodecParameters, AudioDecoder, AudioDecoderOptions, well_known::CODEC_ID_ALAC,
    },
    packet::PacketRef,
    units::{Duration, Timestamp},
};
use symphonia_codec_alac::AlacDecoder;

use super::{Config, Decoder};

const FRAME_LEN: u32 = 700;

/// What the packets of a file share.
#[derive(Clone, Copy, Debug)]
struct Cookie {
    bits: u8,
    pace: u8,
    mean: u8,
    max_k: u8,
    n_channels: u8,
}

impl Cookie {
    fn bytes(self) -> Vec<u8> {
        let Self { bits, pace, mean, max_k, n_channels } = self;
        let mut bytes = FRAME_LEN.to_be_bytes().to_vec();
        bytes.extend([0, bits, pace, mean, max_k, n_channels, 0, 255]);
        bytes.extend([0; 8]);
        bytes.extend(44_100u32.to_be_bytes());
        bytes
    }
}

/// What one channel's predictor is.
#[derive(Clone, Debug)]
struct Channel {
    is_twice: bool,
    shift: u8,
    pace: u8,
    taps: Vec<i16>,
}

#[derive(Clone, Debug)]
struct Element {
    is_pair: bool,
    len: Option<u32>,
    n_low_bytes: u8,
    is_verbatim: bool,
    mix: (u8, i8),
    channels: [Channel; 2],
}

/// Writes the most significant bit first.
#[derive(Default)]
struct Writer {
    bytes: Vec<u8>,
    n_bits: usize,
}

impl Writer {
    fn put(&mut self, value: u32, n_bits: usize) {
        for k in (0..n_bits).rev() {
            if self.n_bits.is_multiple_of(8) {
                self.bytes.push(0);
            }
            let bit = (value >> k & 1) as u8;
            *self.bytes.last_mut().expect("one was pushed") |= bit << (7 - self.n_bits % 8);
            self.n_bits += 1;
        }
    }

    /// An element's parameters, then bits for all that follows: whatever they are, they are numbers.
    fn element(&mut self, element: &Element, bits: &[u8], n_bits: usize) {
        let put = |this: &mut Self, value: u32, n| this.put(value, n);
        put(self, element.is_pair.into(), 3);
        put(self, 0, 16);
        put(self, element.len.is_some().into(), 1);
        put(self, element.n_low_bytes.into(), 2);
        put(self, element.is_verbatim.into(), 1);
        if let Some(len) = element.len {
            put(self, len, 32);
        }
        if !element.is_verbatim {
            let (shift, weight) = if element.is_pair { element.mix } else { (0, 0) };
            put(self, shift.into(), 8);
            put(self, u32::from(weight.cast_unsigned()), 8);
            for channel in element.channels.iter().take(1 + usize::from(element.is_pair)) {
                put(self, if channel.is_twice { 15 } else { 0 }, 4);
                put(self, channel.shift.into(), 4);
                put(self, channel.pace.into(), 3);
                put(self, channel.taps.len() as u32, 5);
                for tap in &channel.taps {
                    put(self, u32::from(tap.cast_unsigned()), 16);
                }
            }
        }
        for k in 0..n_bits.min(8 * bits.len()) {
            put(self, u32::from(bits[k / 8] >> (7 - k % 8) & 1), 1);
        }
    }
}

fn cookies(n_channels: impl Strategy<Value = u8>) -> impl Strategy<Value = Cookie> {
    let usual = (40u8..41, 10u8..11, 14u8..15);
    let any = (any::<u8>(), any::<u8>(), 1u8..=40);
    let bits =
        prop_oneof![4 => Just(16), 1 => Just(20), 3 => Just(24), 1 => Just(32), 1 => 1u8..=32];
    (bits, prop_oneof![3 => usual, 1 => any], n_channels).prop_map(
        |(bits, (pace, mean, max_k), n_channels)| Cookie { bits, pace, mean, max_k, n_channels },
    )
}

fn channels() -> impl Strategy<Value = Channel> {
    // As encoders begin, and anything.
    let usual = Just(vec![160i16, -190, 170, -130, 80, -25, 0, 0]);
    let order = prop_oneof![Just(4usize), Just(5), Just(6), Just(8)];
    let usual = (usual, order.clone()).prop_map(|(taps, n)| taps[..n].to_vec());
    let small = prop::collection::vec(-600i16..600, 0..=30);
    // Symphonia's do not wrap at 16 bits.
    let any = order.prop_flat_map(|n| prop::collection::vec(-32_000i16..32_000, n));
    let taps = prop_oneof![4 => usual, 2 => small, 1 => any];
    (prop::bool::weighted(0.1), prop_oneof![Just(9u8), 0u8..16], 0u8..8, taps).prop_map(
        |(is_twice, shift, pace, taps)| {
            // Symphonia leaves differences as they are where there are no taps.
            Channel { is_twice: is_twice && !taps.is_empty(), shift, pace, taps }
        },
    )
}

fn elements(is_pair: bool) -> impl Strategy<Value = Element> {
    let len = prop_oneof![Just(None), (0..=FRAME_LEN + 1).prop_map(Some)];
    let mix = prop_oneof![Just((0, 0)), (0u8..5, -4i8..20), (any::<u8>(), any::<i8>())];
    let n_low_bytes = prop_oneof![3 => Just(0u8), 1 => 0u8..4];
    (len, n_low_bytes, prop::bool::weighted(0.1), mix, [channels(), channels()]).prop_map(
        move |(len, n_low_bytes, is_verbatim, mix, channels)| Element {
            is_pair,
            len,
            n_low_bytes,
            is_verbatim,
            mix,
            channels,
        },
    )
}

/// Bytes that are mostly small numbers, of which some are zeros.
fn noise(n: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut word = || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (state ^ state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    };
    let is_quiet = word() % 4 == 0;
    (0..n)
        .map(|_| match word() {
            word if is_quiet && word >> 32 & 3 > 0 => 0,
            word => word as u8,
        })
        .collect()
}

/// What Symphonia makes of it: the planes.
fn theirs(cookie: &[u8], packet: &[u8]) -> Option<Vec<Vec<i32>>> {
    let mut params = AudioCodecParameters::new();
    params.for_codec(CODEC_ID_ALAC).with_extra_data(cookie.into());
    let options = AudioDecoderOptions::default();
    let mut decoder = AlacDecoder::try_new(&params, &options).expect("a cookie that it takes");
    let packet = PacketRef::new(0, Timestamp::new(0), Duration::new(0), packet);
    match decoder.decode_ref(&packet).ok()? {
        GenericAudioBufferRef::S32(pcm) => Some(pcm.iter_planes().map(<[i32]>::to_vec).collect()),
        _ => None,
    }
}

fn ours(cookie: &[u8], packet: &[u8], n_channels: u8) -> Option<Vec<Vec<i32>>> {
    let mut decoder = Decoder::new(Config::read(cookie).expect("a sound cookie"));
    let planes = decoder.decode(packet)?;
    Some(planes[..usize::from(n_channels)].iter().map(|plane| plane.to_vec()).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn one_element_is_as_symphonia_decodes_it(
        (cookie, element) in cookies(1u8..=2).prop_flat_map(|cookie| {
            (Just(cookie), elements(cookie.n_channels == 2))
        }),
        seed in any::<u64>(),
        part in prop_oneof![4 => Just(1.0), 1 => 0.0..1.0],
    ) {
        let mut writer = Writer::default();
        // More than the longest numbers need.
        let bits = noise(2 * FRAME_LEN as usize * 8, seed);
        writer.element(&element, &bits, (part * 8.0 * bits.len() as f64) as usize);
        let want = theirs(&cookie.bytes(), &writer.bytes);
        let got = ours(&cookie.bytes(), &writer.bytes, cookie.n_channels);
        prop_assert_eq!(got.is_some(), want.is_some());
        for (got, want) in got.into_iter().flatten().zip(want.into_iter().flatten()) {
            let at = got.iter().zip(&want).position(|(got, want)| got != want);
            prop_assert_eq!((at, got.len()), (None, want.len()));
        }
    }
}
