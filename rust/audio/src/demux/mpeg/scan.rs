//! What an MPEG stream is: where it begins, how long it is, and where its frames are.
//!
//! What a Xing header promises is checked against the walk and never trusted: counts are often false, and
//! without a header decoders guess.

use super::{
    index::Index,
    tag::Tag,
    walk::{Found, Gap, is_run, walk},
};
use crate::{
    bytes::from,
    codec::mp3::header::{Header, Headers, Layer, NoHeader},
    demux::tags::is_lost_sound,
    error::Reason,
    memory,
    names::Codec,
    report::{Damage, Ledger, Note},
};

/// The most junk before the first frame, in bytes.
const MAX_JUNK: usize = 64 * 1024;

/// What the walk found.
#[derive(Clone, Debug)]
pub(crate) struct MpegLayout {
    pub(crate) codec: Codec,
    pub(crate) rate_hz: u32,
    pub(crate) n_channels: u16,
    /// Playable frames: what the encoder added at both ends is not counted.
    pub(crate) n_frames: u64,
    /// Decoded frames before the first playable one.
    pub(crate) delay: u64,
    /// PCM frames in one MPEG frame.
    pub(crate) frame_len: u64,
    /// How far back main data may begin.
    pub(crate) reservoir_len: usize,
}

/// The codec of the frame at `offset`, where [`find_first`] found one.
pub(crate) fn codec(bytes: &[u8], offset: usize) -> Codec {
    Header::read(bytes, offset).map_or(Codec::Mp3, |header| header.codec())
}

/// Where the first believable frame begins, at `offset` or a little later.
pub(crate) fn find_first(bytes: &[u8], offset: usize) -> Option<usize> {
    if is_run(bytes, offset, 2) || is_tag_before_zeros(bytes, offset) {
        return Some(offset);
    }
    // Zeros of any length are padding.
    let offset = offset + n_zeros(bytes, offset);
    if is_run(bytes, offset, 3) || is_tag_before_zeros(bytes, offset) {
        return Some(offset);
    }
    // Behind junk, chance agreement of two headers is not enough.
    (offset + 1..bytes.len().min(offset + MAX_JUNK)).find(|&at| is_run(bytes, at, 3))
}

/// How many zeros there are from `at` on.
fn n_zeros(bytes: &[u8], at: usize) -> usize {
    let rest = from(bytes, at);
    rest.iter().position(|&byte| byte != 0).unwrap_or(rest.len())
}

/// Whether a frame that counts the others is at `offset`, with zeros between it and them.
fn is_tag_before_zeros(bytes: &[u8], offset: usize) -> bool {
    let Ok(header) = Header::read(bytes, offset) else { return false };
    let frame = bytes.get(offset..offset + header.len).filter(|_| header.layer == Layer::Three);
    let end = offset + header.len;
    frame.is_some_and(|frame| Tag::read(frame, &header).is_some())
        && is_run(bytes, end + n_zeros(bytes, end), 3)
}

/// What MPEG audio there is that is not decoded here.
pub(crate) fn refusal(bytes: &[u8], offset: usize) -> Option<&'static str> {
    match Header::read(bytes, offset) {
        Err(NoHeader::FreeFormat(layer)) => Some(match layer {
            Layer::One => "MPEG layer I of free bit rate",
            Layer::Two => "MPEG layer II of free bit rate",
            Layer::Three => "MP3 of free bit rate",
        }),
        _ => None,
    }
}

/// Walks the whole stream from its first frame on and notes the audio frames in `index`.
///
/// If bytes between frames are lost, empty frames take their place: as many as fit them at the mean
/// length of the others. The same holds if more than a second of sound at this length follows the last
/// frame and is neither a tag nor promised to be none.
pub(crate) fn open(
    bytes: &[u8],
    offset: usize,
    index: &mut Index,
    ledger: &mut Ledger,
) -> Result<MpegLayout, Reason> {
    index.clear();
    let no_frame = || Reason::malformed("there is no MPEG frame");
    let first = Header::read(bytes, offset).map_err(|_| no_frame())?;
    if first.is_refused() {
        let channels = if first.is_mono { "mono" } else { "stereo" };
        let what = format!("MPEG layer II in {channels} at {} kbit/s", first.kbits);
        return Err(Reason::UnsupportedCodec(what));
    }
    let frame = bytes.get(offset..offset + first.len).filter(|_| first.layer == Layer::Three);
    let tag = Tag::read(frame.unwrap_or_default(), &first);
    let headers = Headers::like(bytes, offset).ok_or_else(no_frame)?;
    let at = if tag.is_some() { offset + first.len } else { offset };
    let Found { mut gaps, mixed, is_cut, changed, n_behind } =
        walk(bytes, &headers, at, first.is_mono, index);
    index.check()?;
    let is_played = mixed && first.layer == Layer::Three && is_mixed_in_runs(bytes, index);
    ledger.remark(Note::HeaderFields, u64::from(is_played), Reason::ParamsChanged)?;
    let n_changes = u64::from(mixed && !is_played) + u64::from(changed);
    if n_changes > 0 {
        ledger.lose(Damage::ParamsChanged, n_changes, Reason::ParamsChanged)?;
    }
    let frame_len = first.n_frames();
    // Where all frames that were promised are there, or fewer, no more of them are lost.
    let n_whole = index.n_frames() as u64;
    let is_explained = tag.and_then(|tag| tag.n_mpeg_frames).is_some_and(|n| n >= n_whole);
    let frames_per_s = f64::from(first.rate_hz) / frame_len as f64;
    let is_tail_lost = n_whole > 0 && is_lost_sound(n_behind, index.mean_len(), frames_per_s);
    if is_tail_lost && !is_explained {
        memory::push(&mut gaps, Gap { at: index.n_frames(), n_bytes: n_behind })?;
    }
    // Zeros behind the tag are padding.
    let first_gap = gaps.first().filter(|gap| gap.at == 0 && tag.is_some());
    if first_gap.is_some_and(|gap| {
        bytes.get(at..at + gap.n_bytes).is_some_and(|gap| gap.iter().all(|&byte| byte == 0))
    }) {
        gaps.remove(0);
        ledger.remark(Note::Junk, 1, Reason::Junk { count: 1, byte: at as u64 })?;
    }
    if !gaps.is_empty() {
        let count = gaps.len() as u64;
        ledger.lose(Damage::Junk, count, Reason::CorruptPackets { count })?;
        index.fill(&gaps)?;
    }
    let is_counted = tag.as_ref().is_some_and(|tag| tag.n_mpeg_frames.is_some());
    let tag = tag.unwrap_or_default();
    let found = index.n_frames() as u64;
    // Some writers count the frame that holds the tag. It is no lost one unless the file ends inside it. No
    // frame is lost if the file has all the bytes that the tag counts.
    let there = bytes.len().saturating_sub(offset) as u64;
    let is_whole =
        !is_tail_lost && tag.n_bytes.is_some_and(|n| n <= there && n >= there - there / 10);
    let slack = if is_whole { u64::MAX - found } else { 1 } * u64::from(!is_cut);
    let (delay, padding) = tag.trim.unwrap_or((0, 0));
    let (mut n_pcm, promised) = (found * frame_len, tag.n_mpeg_frames);
    let counted = promised.map(|n| n.saturating_mul(frame_len));
    let truncated = || Reason::Truncated { decoded: found * frame_len, expected: counted };
    if let Some(n) = promised.filter(|&n| n > found + slack) {
        ledger.lose(Damage::Truncated, 1, truncated())?;
        n_pcm = n.saturating_mul(frame_len);
    } else if is_cut && !is_counted {
        ledger.mark(Damage::PartialFrame, 1);
    }
    if promised.is_some_and(|n| n != found && n <= found + slack) {
        ledger.remark(Note::HeaderLength, 1, truncated())?;
    }
    // The padding ends where the count says that the frames do.
    let n_over = promised.filter(|&n| n <= found + slack).map_or(0, |n| n.saturating_sub(found));
    let n_padding = padding.saturating_sub(n_over.saturating_mul(frame_len));
    Ok(MpegLayout {
        codec: first.codec(),
        rate_hz: first.rate_hz,
        n_channels: if is_played { 2 } else { first.n_channels() },
        n_frames: n_pcm.saturating_sub(delay + n_padding),
        delay,
        frame_len,
        reservoir_len: first.reservoir_len(),
    })
}

/// Whether mono and stereo follow each other as encoders switch, and not where a header is damaged.
fn is_mixed_in_runs(bytes: &[u8], index: &Index) -> bool {
    let (mut n_run, mut before, mut is_long) = (0, None, true);
    for frame in index.span(0, index.n_frames()).iter(bytes) {
        let is_mono = Header::read(bytes, frame.offset).is_ok_and(|header| header.is_mono);
        if before.replace(is_mono).is_some_and(|before| before != is_mono) {
            is_long &= n_run >= SHORTEST_RUN;
            n_run = 0;
        }
        n_run += 1;
    }
    is_long && n_run >= SHORTEST_RUN
}

/// Frames of as many channels in a row that are no chance.
const SHORTEST_RUN: usize = 4;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::demux::mpeg::decode::Wanted;

    /// A frame of MPEG-1, 128 kbit/s, 44.1 kHz, stereo, full of zeros: silence.
    const FRAME_LEN: usize = 417;

    fn frame() -> Vec<u8> {
        let mut frame = vec![0xFF, 0xFB, 0x90, 0x00];
        frame.resize(FRAME_LEN, 0);
        frame
    }

    fn xing(n: u32, lame: bool) -> Vec<u8> {
        let mut frame = frame();
        frame[36..40].copy_from_slice(b"Xing");
        frame[43] = 1;
        frame[44..48].copy_from_slice(&n.to_be_bytes());
        if lame {
            frame[48..52].copy_from_slice(b"LAME");
            frame[69..72].copy_from_slice(&[0x24, 0x04, 0x80]); // 576 and 1152
        }
        frame
    }

    fn layout(bytes: &[u8]) -> Result<MpegLayout, Reason> {
        let first = find_first(bytes, 0).expect("a frame");
        open(bytes, first, &mut Index::default(), &mut Ledger::default())
    }

    #[test]
    fn length_comes_from_the_walk() {
        assert_eq!(layout(&frame().repeat(10)).unwrap().n_frames, 11_520);
        // Ending within a frame, or in tags, changes nothing.
        let mut bytes = frame().repeat(10);
        bytes.extend(&frame()[..100]);
        assert_eq!(layout(&bytes).unwrap().n_frames, 11_520);
        let mut bytes = frame().repeat(10);
        bytes.extend(b"TAG".iter().chain(&[0; 125]));
        assert_eq!(layout(&bytes).unwrap().n_frames, 11_520);
    }

    #[test]
    fn xing_is_a_promise_and_no_length() {
        let file = |n, lame| [xing(n, lame), frame().repeat(10)].concat();
        assert_eq!(layout(&file(0, false)).unwrap().n_frames, 11_520);
        assert_eq!(layout(&file(3, false)).unwrap().n_frames, 11_520);
        assert_eq!(layout(&file(11, false)).unwrap().n_frames, 11_520);
        let lame = layout(&file(10, true)).unwrap();
        assert_eq!((lame.n_frames, lame.delay), (11_520 - 576 - 1152, 576 + 529));
        let expected = Some(20 * 1152);
        assert_eq!(
            layout(&file(20, true)).unwrap_err(),
            Reason::Truncated { decoded: 11_520, expected }
        );
        // The count of bytes shows that the count of frames is a lie.
        let with_bytes = |n_bytes: u32| {
            let mut bytes = file(20, false);
            bytes[43] = 3;
            bytes[48..52].copy_from_slice(&n_bytes.to_be_bytes());
            layout(&bytes).map(|layout| layout.n_frames)
        };
        let n_bytes = 11 * FRAME_LEN as u32;
        assert_eq!(with_bytes(n_bytes), Ok(11_520));
        assert!(with_bytes(n_bytes + 1).is_err() && with_bytes(n_bytes / 2).is_err());
    }

    #[test]
    fn junk_between_frames_is_damage_and_around_them_is_not() {
        let junk = vec![0x55; 1000];
        assert_eq!(layout(&[junk.clone(), frame().repeat(5)].concat()).unwrap().n_frames, 5760);
        assert_eq!(layout(&[frame().repeat(5), junk.clone()].concat()).unwrap().n_frames, 5760);
        let torn = [frame().repeat(5), junk, frame().repeat(5)].concat();
        assert_eq!(layout(&torn).unwrap_err(), Reason::CorruptPackets { count: 1 });
    }

    /// What is counted without `strict`, and the frames.
    fn lenient(bytes: &[u8]) -> (Vec<(&'static str, u64)>, u64) {
        let mut ledger = Ledger::LENIENT;
        let n = open(bytes, 0, &mut Index::default(), &mut ledger).unwrap().n_frames;
        (ledger.counts().iter().collect(), n)
    }

    #[test]
    fn a_tag_between_frames_is_passed_over() {
        let id3v1 = [&b"TAG"[..], &[0; 125]].concat();
        let ape = [&b"APETAGEX\xD0\x07\0\0\x64\0\0\0\0\0\0\0\0\0\0\xA0"[..], &[0; 108]].concat();
        let lyrics = [&b"LYRICSBEGININD00002\x31\x30"[..], b"000030LYRICS200"].concat();
        for tag in [id3v1.clone(), ape.clone(), lyrics.clone(), [lyrics, ape, id3v1].concat()] {
            let one = [frame().repeat(5), tag].concat();
            assert_eq!(layout(&one).unwrap().n_frames, 5760);
            assert_eq!(layout(&one.repeat(2)).unwrap().n_frames, 11_520);
        }
    }

    #[test]
    fn another_stream_behind_the_last_frame_is_reported() {
        // 24 kHz: MPEG-2 at 64 kbit/s.
        let mut other = vec![0xFF, 0xF3, 0x84, 0];
        other.resize(192, 0);
        let tag = [&b"TAG"[..], &[0; 125]].concat();
        for between in [vec![], tag, vec![0; 100]] {
            let bytes = [frame().repeat(5), between, other.repeat(3)].concat();
            assert_eq!(layout(&bytes).unwrap_err(), Reason::ParamsChanged);
            assert_eq!(lenient(&bytes), (vec![("params_changed", 1)], 5760));
        }
        assert_eq!(layout(&[frame().repeat(5), other.repeat(2)].concat()).unwrap().n_frames, 5760);
    }

    #[test]
    fn a_long_tail_is_lost_sound_and_a_short_one_is_padding() {
        let n_lost = 60;
        let lost = [0u8, 0x55].map(|byte| vec![byte; n_lost * FRAME_LEN]);
        for lost in lost {
            let bytes = [frame().repeat(60), lost.clone()].concat();
            assert_eq!(layout(&bytes).unwrap_err(), Reason::CorruptPackets { count: 1 });
            assert_eq!(lenient(&bytes), (vec![("junk", 1)], 120 * 1152));
            // A count that is met says that nothing is lost.
            let counted = [xing(60, false), bytes].concat();
            assert_eq!(layout(&counted).unwrap().n_frames, 60 * 1152);
        }
        let short = [frame().repeat(60), vec![0; 30 * FRAME_LEN], b"TAG".to_vec(), vec![0; 125]];
        assert_eq!(layout(&short.concat()).unwrap().n_frames, 60 * 1152);
    }

    #[test]
    fn a_change_of_channels_is_reported() {
        let mut mono = frame();
        mono[3] = 0xC0;
        let bytes = [mono.repeat(5), frame().repeat(5)].concat();
        let switched = layout(&bytes).unwrap();
        assert_eq!((switched.n_channels, switched.n_frames), (2, 11_520));
        // A header that says so alone is damage.
        let bytes = [frame().repeat(5), mono, frame().repeat(5)].concat();
        assert_eq!(layout(&bytes).unwrap_err(), Reason::ParamsChanged);
    }

    #[test]
    fn other_layers_have_other_frames() {
        // 44.1 kHz stereo: layer II at 192 kbit/s, layer I at 384 kbit/s.
        for (head, len, codec, n) in [
            ([0xFF, 0xFD, 0xA0, 0], 626, Codec::Mp2, 1152),
            ([0xFF, 0xFF, 0xC0, 0], 416, Codec::Mp1, 384),
        ] {
            let mut frame = head.to_vec();
            frame.resize(len, 0);
            let found = layout(&frame.repeat(10)).unwrap();
            assert_eq!((found.codec, found.n_frames), (codec, 10 * n));
        }
        let free = [[0xFF, 0xFD, 0x00, 0]; 9].concat();
        assert_eq!(refusal(&free, 0), Some("MPEG layer II of free bit rate"));
        // Stereo at 80 kbit/s: 261 bytes.
        let mut frame = vec![0xFF, 0xFD, 0x50, 0];
        frame.resize(261, 0);
        let refused = layout(&frame.repeat(10)).unwrap_err();
        assert!(matches!(refused, Reason::UnsupportedCodec(_)));
    }

    proptest! {
        #[test]
        fn hostile_bytes_end_in_a_list_or_an_error(
            mut bytes in prop::collection::vec(any::<u8>(), 0..3000),
            headers in prop::collection::vec((0usize..3000, any::<u16>()), 0..20),
            start in 0u64..10_000,
        ) {
            for (at, bits) in headers {
                if let Some(slot) = bytes.get_mut(at..at + 4) {
                    let [a, b] = bits.to_be_bytes();
                    slot.copy_from_slice(&[0xFF, 0xE0 | a & 0x1F, b, a]);
                }
            }
            let mut index = Index::default();
            for offset in [0, bytes.len() / 2, bytes.len()] {
                let Some(first) = find_first(&bytes, offset) else { continue };
                let Ok(layout) = open(&bytes, first, &mut index, &mut Ledger::default()) else {
                    continue;
                };
                prop_assert!(index.n_frames() <= bytes.len() / 24);
                prop_assert!(layout.n_frames <= index.n_frames() as u64 * 1152);
                let wanted = Wanted::find(&bytes, &layout, &index, start, 5000);
                prop_assert!(wanted.n_mpeg_frames() <= index.n_frames());
            }
        }
    }
}
