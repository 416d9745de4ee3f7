//! Streams with setups that encoders do not write and packets of random bits, against Symphonia's decoder.

use proptest::prelude::*;
use symphonia::core::{
    audio::{Audio, GenericAudioBufferRef},
    codecs::audio::{
        AudioCodecParameters, AudioDecoder, AudioDecoderOptions, well_known::CODEC_ID_VORBIS,
    },
    packet::PacketRef,
    units::{Duration, Timestamp},
};
use symphonia_codec_vorbis::VorbisDecoder;

use super::{
    Cache, Decoder,
    writer::{Book, Form, Vectors, Writer, ident},
};

/// A stream's setup.
#[derive(Clone, Debug)]
struct Setup {
    n_channels: u8,
    exponents: [u8; 2],
    has_response: bool,
    residue_kind: u32,
    is_coupled: bool,
    partition_len: u32,
    /// Partitions of which a word says the classes.
    n_classes: u32,
    multiplier: u32,
    books: [Book; 2],
}

const RATE_HZ: u32 = 16_000;

impl Setup {
    fn headers(&self) -> Vec<u8> {
        let mut to = Writer::default();
        let class_book = Book { n_dims: self.n_classes, ..Book::scalar(1 << (2 * self.n_classes)) };
        let books =
            [&Book::scalar(4), &Book::scalar(64), &class_book, &self.books[0], &self.books[1]];
        to.put(books.len() as u32 - 1, 8);
        for book in books {
            book.write(&mut to);
        }
        to.put(0, 6 + 16); // a time domain transform
        to.put(0, 6);
        if self.has_response {
            response(&mut to);
        } else {
            lines(self.multiplier, &mut to);
        }
        to.put(0, 6);
        self.residue(&mut to);
        to.put(0, 6 + 16 + 1); // one mapping, one submap
        to.put(u32::from(self.is_coupled), 1);
        if self.is_coupled {
            to.put(0, 8);
            to.put(0b01, 2); // the magnitude is in channel 1, the angle in channel 0
        }
        to.put(0, 2 + 8 + 8 + 8);
        to.put(1, 6); // two modes
        for is_long in 0..2 {
            to.put(is_long, 1);
            to.put(0, 32 + 8);
        }
        to.put(1, 1);
        let mut headers = ident(self.n_channels, RATE_HZ, self.exponents);
        headers.extend(b"\x05vorbis");
        headers.extend(to.finish());
        headers
    }

    /// Four classes: without books, with either, and with both in several passes.
    fn residue(&self, to: &mut Writer) {
        to.put(self.residue_kind, 16);
        to.put(3, 24);
        to.put(3 + self.partition_len * self.n_classes * 4, 24);
        to.put(self.partition_len - 1, 24);
        to.put(3, 6);
        to.put(2, 8);
        for cascade in [0u32, 0b1, 0b10, 0b1000_0101] {
            to.put(cascade & 7, 3);
            to.put(u32::from(cascade >> 3 > 0), 1);
            if cascade >> 3 > 0 {
                to.put(cascade >> 3, 5);
            }
        }
        for book in [3, 4, 4, 3, 4] {
            to.put(book, 8);
        }
    }
}

/// A floor of kind 0, whose coefficients come from book 3 or 4.
fn response(to: &mut Writer) {
    to.put(0, 16);
    to.put(5, 8);
    to.put(RATE_HZ, 16);
    to.put(40, 16);
    to.put(6, 6);
    to.put(4, 8); // with more decibels, most gains are infinite
    to.put(14, 4); // fifteen books
    for book in 0..15 {
        to.put(3 + book % 2, 8);
    }
}

/// A floor of kind 1 with six points.
fn lines(multiplier: u32, to: &mut Writer) {
    to.put(1, 16);
    to.put(2, 5);
    to.put(0, 4);
    to.put(0, 4);
    to.put(1, 3); // two points, of one bit each
    to.put(1, 2);
    to.put(0, 8);
    to.put(2, 8);
    to.put(0, 8);
    to.put(multiplier - 1, 2);
    to.put(7, 4);
    for x in [40, 9, 100, 70] {
        to.put(x, 7);
    }
}

fn lens() -> impl Strategy<Value = (Vec<u8>, Form)> {
    let ladder: Vec<u8> = (1..=13).chain([13]).collect();
    prop_oneof![
        (1..=5u8).prop_map(|len| (vec![len; 1 << len], Form::Ordered)),
        (1..=5u8).prop_map(|len| (vec![len; 1 << len], Form::Listed)),
        Just((ladder.clone(), Form::Ordered)),
        Just((ladder.into_iter().rev().collect(), Form::Listed)),
        Just((vec![0, 2, 0, 3, 1, 0, 3, 0], Form::Sparse)),
        Just((vec![0, 0, 1], Form::Sparse)),
        Just((vec![1], Form::Listed)),
    ]
}

fn book() -> impl Strategy<Value = Book> {
    let n_dims = prop::sample::select(vec![1u32, 2, 3, 4, 5, 8]);
    let multiplicands = prop::collection::vec(0..16u32, 32 * 8);
    (lens(), n_dims, 1..=2u32, any::<bool>(), multiplicands).prop_map(
        |((lens, form), n_dims, kind, is_sequence, mut multiplicands)| {
            let n = if kind == 2 {
                lens.len() * n_dims as usize
            } else {
                (1..=lens.len()).take_while(|n| n.pow(n_dims) <= lens.len()).count()
            };
            multiplicands.truncate(n);
            Book { n_dims, lens, form, vectors: Some(Vectors { kind, is_sequence, multiplicands }) }
        },
    )
}

fn setup(has_response: bool) -> impl Strategy<Value = Setup> {
    let shape = (1..=2u8, 6..=8u8, 0..=2u8, 0..=2u32, any::<bool>());
    (shape, 1..=4u32, 1..=3u32, 1..=4u32, [book(), book()]).prop_map(
        move |(shape, n_vectors, n_classes, multiplier, books)| {
            let (n_channels, exponent, longer, residue_kind, is_coupled) = shape;
            // Symphonia leaves out vectors that a partition's end would cut, and mixes up the classes of
            // channels where the last word says more of them than there are partitions.
            let [a, b] = [&books[0], &books[1]].map(|book| book.n_dims);
            let common = if a % b == 0 {
                a
            } else if b % a == 0 {
                b
            } else {
                a * b
            };
            let partition_len = n_vectors * common;
            let n_classes = if n_channels == 2 && residue_kind < 2 { 1 } else { n_classes };
            Setup {
                n_channels,
                exponents: [exponent, exponent + longer],
                has_response,
                residue_kind,
                is_coupled: is_coupled && n_channels == 2,
                partition_len,
                n_classes,
                multiplier,
                books,
            }
        },
    )
}

/// Bits of any kind, in packets of audio that end in their residues or behind them. Where one ends in a
/// floor, Symphonia reads the bits that were left for something else.
fn packets() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let packet = prop_oneof![
        prop::collection::vec(any::<u8>(), 20..200),
        prop::collection::vec(any::<u8>(), 20..40),
    ];
    prop::collection::vec(packet, 2..8).prop_map(|mut packets| {
        for packet in &mut packets {
            packet[0] &= !1;
        }
        packets
    })
}

/// `None` if it finds a packet corrupt.
fn symphonias(headers: &[u8], packets: &[Vec<u8>]) -> Option<Vec<Vec<Vec<f32>>>> {
    let mut params = AudioCodecParameters::new();
    params.for_codec(CODEC_ID_VORBIS).with_extra_data(headers.into());
    let options = AudioDecoderOptions::default().gapless(false);
    let mut decoder = VorbisDecoder::try_new(&params, &options).unwrap();
    let mut decode = |packet| {
        let packet = PacketRef::new(0, Timestamp::new(0), Duration::new(0), packet);
        let GenericAudioBufferRef::F32(pcm) = decoder.decode_ref(&packet).ok()? else { panic!() };
        Some(pcm.iter_planes().map(<[f32]>::to_vec).collect())
    };
    let decoded = packets.iter().map(|packet| decode(packet));
    let mut decoded: Vec<Vec<Vec<f32>>> = decoded.collect::<Option<_>>()?;
    decoded[0].iter_mut().for_each(Vec::clear); // half of the first block
    Some(decoded)
}

fn ours(decoder: &mut Decoder, packets: &[Vec<u8>]) -> Vec<Vec<Vec<f32>>> {
    decoder.reset();
    packets.iter().map(|packet| decoder.decode(packet).unwrap().to_vec()).collect()
}

/// The largest sum of squares of a spectrum, as its root, which is the scale of what rounding makes. Samples are
/// not: a window may leave little of a loud block.
fn loudest(decoder: &mut Decoder, packets: &[Vec<u8>]) -> f32 {
    decoder.reset();
    let mut largest = 1e-9f32;
    for packet in packets {
        decoder.decode(packet).unwrap();
        for spectrum in (0..decoder.channels.len()).filter_map(|i| decoder.block.spectrum(i)) {
            let lines = spectrum.residue.iter().zip(spectrum.curve).map(|(a, b)| a * b);
            largest = largest.max(lines.map(|x| x * x).sum::<f32>().sqrt());
        }
    }
    largest
}

/// The largest difference of samples.
fn difference(a: &[Vec<Vec<f32>>], b: &[Vec<Vec<f32>>]) -> f32 {
    assert_eq!(a.len(), b.len());
    let mut difference = 0.0f32;
    for (a, b) in a.iter().flatten().zip(b.iter().flatten()) {
        assert_eq!(a.len(), b.len());
        for (a, b) in a.iter().zip(b) {
            assert!(a.is_finite() && b.is_finite());
            difference = difference.max((a - b).abs());
        }
    }
    difference
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        max_global_rejects: 10_000, // most responses have a pole near some line
        ..ProptestConfig::default()
    })]

    #[test]
    fn lines_and_all_residues_and_books_are_as_symphonia_has_them(
        setup in setup(false),
        packets in packets(),
    ) {
        let headers = setup.headers();
        let mut cache = Cache::default();
        let decoder = cache.get(&headers).unwrap();
        let found = ours(decoder, &packets);
        let expected = symphonias(&headers, &packets).unwrap();
        let difference = difference(&expected, &found) / loudest(decoder, &packets);
        prop_assert!(difference < 2e-6, "{difference}");
        // The bits are the same with each set of instructions.
        decoder.arch = pulp::Arch::Scalar;
        prop_assert_eq!(ours(decoder, &packets), found);
    }

    /// Symphonia works out the response in single precision. Near a pole that is not enough: the gain is an
    /// exponential of the response.
    #[test]
    fn responses_are_as_symphonia_has_them(setup in setup(true), packets in packets()) {
        let headers = setup.headers();
        let mut cache = Cache::default();
        let decoder = cache.get(&headers).unwrap();
        let found = ours(decoder, &packets);
        // It finds packets corrupt that name a book beyond the fifteen, in which there is no floor.
        let expected = symphonias(&headers, &packets);
        prop_assume!(expected.is_some());
        let expected = expected.unwrap();
        prop_assume!(expected.iter().flatten().flatten().all(|x| x.abs() < 1e3));
        let difference = difference(&expected, &found) / loudest(decoder, &packets);
        prop_assert!(difference < 2e-3, "{difference}");
    }

    /// Whatever is in the headers, they are refused or packets are decoded.
    #[test]
    fn damaged_headers_end_in_a_decoder_or_an_error(
        setup in setup(false),
        damage in prop::collection::vec((30..200usize, any::<u8>()), 1..4),
        packets in packets(),
    ) {
        let mut headers = setup.headers();
        let cut = headers.get(..headers.len() - 5).unwrap();
        prop_assert!(Cache::default().get(cut).is_err());
        for (at, byte) in damage {
            let at = at % headers.len();
            headers[at] = byte;
        }
        let mut cache = Cache::default();
        if let Ok(decoder) = cache.get(&headers) {
            for packet in &packets {
                let _ = decoder.decode(packet);
            }
        }
    }
}
