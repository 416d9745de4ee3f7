//! The walk on pages made by hand.

use super::{chain, page::PageRef};
use crate::{
    Reason,
    codec::vorbis::{Ident, Modes},
    crc,
    names::Codec,
    report::{Counts, Damage, Ledger},
};

fn open(
    bytes: &[u8],
    offset: usize,
    pages: &mut Vec<PageRef>,
) -> Result<chain::ChainLayout, Reason> {
    chain::open(bytes, offset, pages, &mut Ledger::default())
}

const FIRST: u8 = 2;
const LAST: u8 = 4;

pub(super) fn page(sequence: u32, flags: u8, granule: u64, packets: &[&[u8]]) -> Vec<u8> {
    let mut lacing = Vec::new();
    for packet in packets {
        lacing.extend(vec![255; packet.len() / 255]);
        lacing.push((packet.len() % 255) as u8);
    }
    let mut page = [b"OggS\0", &[flags][..], &granule.to_le_bytes()].concat();
    page.extend([7u32, sequence, 0].iter().flat_map(|n| n.to_le_bytes()));
    page.push(lacing.len() as u8);
    page.extend(lacing);
    page.extend(packets.concat());
    let crc = crc::update(0, &page);
    page[22..26].copy_from_slice(&crc.to_le_bytes());
    page
}

/// Blocks of 256 and 2048 frames, 32 kHz, mono.
fn ident() -> Vec<u8> {
    let mut ident = b"\x01vorbis\0\0\0\0\x01".to_vec();
    ident.extend(32_000u32.to_le_bytes());
    ident.extend([0; 12]);
    ident.extend([0xB8, 1]);
    ident
}

/// The end of a setup header with a short and a long mode, behind some other bits.
fn setup() -> Vec<u8> {
    let mut bits = vec![true, false, true, true, false];
    bits.extend([true, false, false, false, false, false]); // two modes, less one
    for is_long in [false, true] {
        bits.push(is_long);
        bits.extend([false; 40]);
    }
    bits.push(true);
    let bytes = bits
        .chunks(8)
        .map(|byte| byte.iter().enumerate().fold(0, |byte, (i, &bit)| byte | u8::from(bit) << i));
    b"\x05vorbis".iter().copied().chain(bytes).collect()
}

const SHORT: &[u8] = &[0b00, 9, 9];
const LONG: &[u8] = &[0b10, 9, 9];

fn headers() -> Vec<u8> {
    [page(0, FIRST, 0, &[&ident()]), page(1, 0, 0, &[b"\x03vorbis", &setup()])].concat()
}

fn length(pages: &[Vec<u8>]) -> Result<u64, Reason> {
    let bytes = [headers(), pages.concat()].concat();
    open(&bytes, 0, &mut Vec::new()).map(|layout| layout.n_frames)
}

#[test]
fn modes_are_found_from_the_end() {
    let ident = Ident::read(&ident()).unwrap();
    let modes = Modes::read(&setup()).unwrap();
    assert_eq!(modes.block_len(SHORT, &ident), Some(256));
    assert_eq!(modes.block_len(LONG, &ident), Some(2048));
    assert_eq!(modes.block_len(&[1], &ident), None);
    assert_eq!(modes.block_len(&[], &ident), None);
}

#[test]
fn time_begins_where_the_first_page_says() {
    // Long after long gives 1024 frames, long after short 576.
    let whole = [page(2, 0, 2048, &[LONG, LONG, LONG]), page(3, LAST, 3000, &[LONG])];
    assert_eq!(length(&whole), Ok(3000));
    let delayed = [page(2, 0, 2000, &[LONG, LONG, LONG]), page(3, LAST, 3000, &[LONG])];
    assert_eq!(length(&delayed), Ok(3000));
    let later = [page(2, 0, 5576, &[SHORT, LONG]), page(3, LAST, 6600, &[LONG])];
    assert_eq!(length(&later), Ok(1600));
    assert_eq!(length(&[page(2, LAST, 700, &[LONG, LONG])]), Ok(700));
}

#[test]
fn damage_is_found_without_decoding() {
    let (first, last) = (page(2, 0, 1024, &[LONG, LONG]), page(3, LAST, 2048, &[LONG]));
    assert_eq!(length(&[first.clone(), last.clone()]), Ok(2048));
    // Without the mark of the end, the end of the last packet is the end.
    assert_eq!(length(std::slice::from_ref(&first)), Ok(1024));
    let cut = last[..last.len() - 1].to_vec();
    let expected = Some(2048);
    assert_eq!(length(&[first.clone(), cut]), Err(Reason::Truncated { decoded: 1024, expected }));
    let hole = page(4, LAST, 2048, &[LONG]);
    assert_eq!(length(&[first.clone(), hole]), Err(Reason::CorruptPackets { count: 1 }));
    let junk = vec![0x55; 100];
    assert_eq!(length(&[first.clone(), junk, last.clone()]), Ok(2048));
    for lie in [0, 500, 1 << 40] {
        assert_eq!(length(&[first.clone(), page(3, LAST, lie, &[LONG])]), Ok(2048));
    }
    assert_eq!(length(&[first, last, headers()]), Ok(2048));
}

#[test]
fn long_files_are_walked_as_short_ones_are() {
    // Packets that look like pages: of no length, of a wrong version, of one that the bytes cut.
    let liars = [&b"OggS\0"[..], b"OggS\x01", &page(9, 0, 0, &[&[7; 9]])[..30]];
    for liar in liars {
        let packet = [&[LONG[0]], &liar.repeat(4000 / liar.len())[..]].concat();
        let mut stream = headers();
        for k in 0..600u32 {
            let flags = if k == 599 { LAST } else { 0 };
            stream.extend(page(2 + k, flags, 1024 * u64::from(k), &[&packet]));
        }
        assert!(stream.len() > 2 << 20, "it is not long");
        let mut pages = Vec::new();
        let layout = open(&stream, 0, &mut pages).unwrap();
        assert_eq!((layout.n_frames, pages.len()), (1024 * 599, 600));
        let cut = open(&stream[..stream.len() - 1], 0, &mut pages).unwrap_err();
        let expected = Some(1024 * 599);
        assert_eq!(cut, Reason::Truncated { decoded: 1024 * 598, expected });
        // A hole where a part begins.
        let half = stream.len() / 2;
        stream.drain(half..half + 100);
        assert!(open(&stream, 0, &mut pages).is_err());
    }
}

#[test]
fn chains_add_up() {
    let link = [headers(), page(2, 0, 1024, &[LONG, LONG]), page(3, LAST, 1900, &[LONG])].concat();
    let mut pages = Vec::new();
    let layout = open(&[&link[..], &link, &link].concat(), 0, &mut pages).unwrap();
    assert_eq!((layout.codec, layout.n_frames, pages.len()), (Codec::Vorbis, 5700, 6));
    let torn = [&link[..], &[0x55; 50], &link].concat();
    assert_eq!(open(&torn, 0, &mut pages).unwrap().n_frames, 3800);
    let mut stereo = ident();
    stereo[11] = 2;
    let other = [
        page(0, FIRST, 0, &[&stereo]),
        page(1, 0, 0, &[b"\x03vorbis", &setup()]),
        page(2, LAST, 1024, &[LONG, LONG]),
    ];
    let changed = open(&[link, other.concat()].concat(), 0, &mut pages);
    assert_eq!(changed.unwrap_err(), Reason::ParamsChanged);
}

/// What comes of pages behind the headers, strictly and without.
fn both(pages: &[Vec<u8>]) -> (Result<u64, Reason>, u64, Counts) {
    let bytes = [headers(), pages.concat()].concat();
    let mut ledger = Ledger::LENIENT;
    let salvaged = chain::open(&bytes, 0, &mut Vec::new(), &mut ledger).unwrap();
    (length(pages), salvaged.n_frames, ledger.counts())
}

#[test]
fn an_end_with_more_of_the_stream_behind_it_is_none() {
    let corrupt = Err(Reason::CorruptPackets { count: 1 });
    let first = page(2, 0, 1024, &[LONG, LONG]);
    let (third, last) = (page(4, 0, 3072, &[LONG]), page(5, LAST, 4096, &[LONG]));
    // The checksum is that of the flag, or of what was written.
    let wrong = page(3, LAST, 2048, &[LONG]);
    let (found, n_frames, counts) = both(&[first.clone(), wrong, third.clone(), last.clone()]);
    assert_eq!((found, n_frames, counts), (Ok(4096), 4096, Counts::default()));
    let mut flipped = page(3, 0, 2048, &[LONG]);
    flipped[5] |= LAST;
    let (found, n_frames, counts) = both(&[first.clone(), flipped, third.clone(), last.clone()]);
    assert_eq!((found, n_frames, counts.get(Damage::Checksums)), (corrupt.clone(), 4096, 1));
    // The page behind it is lost as well.
    let wrong = page(3, LAST, 2048, &[LONG]);
    let (found, n_frames, _) = both(&[first.clone(), wrong, last.clone()]);
    assert_eq!((found, n_frames), (corrupt.clone(), 4096));
    // The first page with audio still tells where time begins.
    let wrong = page(2, LAST, 1500, &[LONG, LONG]);
    let (found, n_frames, _) = both(&[wrong, page(3, LAST, 2524, &[LONG])]);
    assert_eq!((found, n_frames), (Ok(2048), 2048));
}

#[test]
fn what_follows_an_end_and_adds_nothing_is_passed_over() {
    let first = page(2, 0, 1024, &[LONG, LONG]);
    let last = page(3, LAST, 2048, &[LONG]);
    let mut other = page(4, 0, 3072, &[LONG]);
    other[14] ^= 1;
    for behind in [last.clone(), first.clone(), page(4, LAST, 2048, &[]), other, vec![0x55; 50]] {
        let found = both(&[first.clone(), last.clone(), behind]);
        assert_eq!(found, (Ok(2048), 2048, Counts::default()));
    }
    // Another link with the same serial number.
    let link = [first, last].concat();
    let found = both(&[link.clone(), headers(), link]);
    assert_eq!(found, (Ok(4096), 4096, Counts::default()));
}

#[test]
fn granules_may_be_missing() {
    const NONE: u64 = u64::MAX;
    let first = page(2, 0, NONE, &[LONG, LONG]);
    assert_eq!(
        length(&[first.clone(), page(3, 0, 2048, &[LONG]), page(4, LAST, 2148, &[])]),
        Ok(2048)
    );
    // Without a last granule the last packets are played to their ends.
    assert_eq!(length(&[first.clone(), page(3, LAST, NONE, &[LONG, SHORT])]), Ok(2048 + 576));
    assert_eq!(length(&[first, page(3, 0, 2048, &[LONG]), page(4, LAST, NONE, &[LONG])]), Ok(3072));
}

#[test]
fn other_codecs_are_named() {
    let open = |packet: &[u8]| open(&page(0, FIRST, 0, &[packet]), 0, &mut Vec::new()).unwrap_err();
    assert_eq!(open(b"\x80theora"), Reason::UnsupportedCodec("Theora".to_owned()));
    assert_eq!(open(b"Speex   "), Reason::UnsupportedCodec("Speex".to_owned()));
    assert!(matches!(open(b"OpusHead"), Reason::MalformedHeader(_)));
}

/// A stream of Opus: mono, a pre-skip of 312 frames, pages of packets that are never decoded here.
fn opus(pages: &[(u8, u64, &[&[u8]])]) -> Result<u64, Reason> {
    let head = b"OpusHead\x01\x01\x38\x01\x80\xBB\0\0\0\0\0";
    let mut bytes = [page(0, FIRST, 0, &[head]), page(1, 0, 0, &[b"OpusTags"])].concat();
    for (i, (flags, granule, packets)) in pages.iter().enumerate() {
        bytes.extend(page(2 + i as u32, *flags, *granule, packets));
    }
    let layout = chain::open(&bytes, 0, &mut Vec::new(), &mut Ledger::default())?;
    assert_eq!((layout.codec, layout.rate_hz, layout.n_channels), (Codec::Opus, 48_000, 1));
    Ok(layout.n_frames)
}

#[test]
fn packets_of_opus_tell_the_time() {
    const A: &[u8] = &[31 << 3, 1, 2]; // 20 ms
    const B: &[u8] = &[28 << 3, 1]; // 2.5 ms
    assert_eq!(opus(&[(LAST, 1000, &[A, B])]), Ok(1000 - 312));
    assert_eq!(opus(&[(0, 1080, &[A, B]), (LAST, 2040, &[A])]), Ok(2040 - 312));
    // Cut out of a longer one.
    assert_eq!(opus(&[(0, 5080, &[A, B]), (LAST, 6000, &[A])]), Ok(2000 - 312));
    assert_eq!(opus(&[(0, u64::MAX, &[A]), (LAST, u64::MAX, &[A])]), Ok(1920 - 312));
    // Shorter than the pre-skip.
    assert_eq!(opus(&[(LAST, 100, &[A])]), Ok(0));
    let lost = opus(&[(0, 960, &[A]), (0, 2880, &[A]), (LAST, 3840, &[A])]);
    assert_eq!(lost, Ok(2880 - 312)); // silence that was not written
    let early = opus(&[(0, 960, &[A]), (0, 1000, &[A]), (LAST, 3840, &[A])]);
    assert_eq!(early, Ok(2880 - 312));
    assert_eq!(opus(&[(0, 960, &[A]), (LAST, 2000, &[A])]), Ok(1920 - 312));
    assert_eq!(opus(&[(0, 960, &[A]), (0, 1920, &[A])]), Ok(1920 - 312));
    assert_eq!(opus(&[(LAST, 960, &[A, &[]])]), Err(Reason::CorruptPackets { count: 1 }));
    for granule in [1 << 62, u64::MAX - 1] {
        assert_eq!(opus(&[(0, granule, &[A])]), Ok(960 - 312));
    }
}

proptest::proptest! {
    #[test]
    fn mutated_streams_end_in_a_layout_or_an_error(
        changes in proptest::collection::vec((0usize..400, proptest::num::u8::ANY), 0..6),
        cut in 0usize..400,
    ) {
        let pages = [page(2, 0, 2048, &[LONG, LONG, LONG]), page(3, LAST, 3000, &[LONG])];
        let mut bytes = [headers(), pages.concat()].concat();
        for (at, value) in changes {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        bytes.truncate(bytes.len().saturating_sub(cut));
        if let Ok(layout) = open(&bytes, 0, &mut Vec::new()) {
            proptest::prop_assert!(layout.n_frames <= 4096 * bytes.len() as u64);
        }
    }
}
