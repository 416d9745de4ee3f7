//! Seek tables that lie: the entries of a few recordings, with some of their bytes changed and the checksum
//! made right again.

use std::{cell::RefCell, sync::OnceLock};

use gristmill_audio::{AudioSpec, Channels, Crop, Decoder, Entry};

use crate::{
    Outcome, Verdict, alac,
    draw::{Draw, Fields},
    ensure, repair,
};

/// An entry asks for bytes within its recording, and ends in samples or in nothing; the true one ends in the
/// samples of the whole recording.
///
/// The input is the number of a recording, and changes of three bytes each: where, and to what.
pub fn seek(data: &[u8]) -> Verdict {
    thread_local! {
        static USED: RefCell<Decoder> = RefCell::default();
    }
    let mut fields = Fields(data);
    let [kind] = fields.bytes();
    let recordings = recordings();
    let Recording { bytes, entry: truth } = &recordings[usize::from(kind) % recordings.len()];
    let mut lie = truth.to_bytes();
    lie.truncate(lie.len() - 4);
    while !fields.0.is_empty() {
        let [high, low, value] = fields.bytes();
        let at = usize::from(u16::from_be_bytes([high, low])) % lie.len();
        lie[at] = value;
    }
    let sum = repair::checksum(&[&lie, truth.headers()].concat());
    lie.extend(sum);
    let Some(entry) = Entry::from_bytes(&lie, truth.headers()) else { return Ok(Outcome::Refused) };
    let again = Entry::from_bytes(&entry.to_bytes(), entry.headers());
    ensure!(
        again.is_some_and(|again| again.to_bytes() == entry.to_bytes()),
        "another entry comes back: {entry:?}"
    );
    if entry.n_bytes() != bytes.len() as u64 {
        return Ok(Outcome::Refused); // nobody takes it for this recording's
    }
    let is_true = lie == truth.to_bytes();
    let mut draw = Draw::of(data);
    let spec = AudioSpec {
        rate_hz: draw.pick(&[None, None, Some(8_000)]),
        channels: draw.pick(&[Channels::Keep, Channels::Mono]),
        crop: Crop::Random { seconds: draw.pick(&[0.001, 0.1, 0.3]) },
        strict: draw.one_in(2).into(),
        ..AudioSpec::WHOLE
    };
    let word = draw.word();
    USED.with_borrow_mut(|decoder| {
        let Some(part) = decoder.plan_part(&entry, &spec, word) else {
            ensure!(!is_true, "no part of a sound recording; {spec:?}");
            return Ok(Outcome::Refused);
        };
        let range =
            |range: &std::ops::Range<u64>| bytes.get(range.start as usize..range.end as usize);
        let parts: Option<Vec<&[u8]>> = part.ranges().iter().map(range).collect();
        let Some(parts) = parts else {
            return Err(format!("{:?} are not within {} bytes", part.ranges(), bytes.len()));
        };
        let mut out = vec![0u32; part.plan().n_samples()];
        let report = decoder.render_part(&parts, &part, bytes_of(&mut out));
        let report = report.map_err(|error| format!("an error of a part: {error}"))?;
        if !is_true {
            return Ok(if report.is_some() { Outcome::Data } else { Outcome::Refused });
        }
        let plan = decoder.plan(bytes, &spec, word).map_err(|error| error.to_string())?;
        let mut whole = vec![0u32; plan.n_samples()];
        let same = decoder.render_bytes(bytes, &plan, bytes_of(&mut whole));
        ensure!(same.ok() == report, "{report:?} is another report; {spec:?}");
        ensure!(out == whole, "other samples; {spec:?}");
        Ok(Outcome::Data)
    })
}

fn bytes_of(words: &mut [u32]) -> &mut [u8] {
    bytemuck::cast_slice_mut(words)
}

struct Recording {
    bytes: Vec<u8>,
    entry: Entry,
}

/// One of each kind of table, long enough to be read in parts.
fn recordings() -> &'static [Recording] {
    static RECORDINGS: OnceLock<Vec<Recording>> = OnceLock::new();
    RECORDINGS.get_or_init(|| {
        let all = [wav(), mp3(), flac(), opus(), adts(), mp4()];
        let learn = |bytes: Vec<u8>| {
            let learned = Decoder::default().plan_and_learn(&bytes, &AudioSpec::WHOLE, 0);
            let entry = learned.expect("it is sound").1.expect("it is sound");
            assert!(entry.has_table(), "{entry:?}");
            Recording { bytes, entry }
        };
        all.map(learn).into()
    })
}

fn noise(n: usize) -> Vec<u8> {
    let mut draw = Draw::of(b"noise");
    std::iter::repeat_with(|| draw.word().to_le_bytes()).flatten().take(n).collect()
}

/// 8 kHz, one channel of 16 bits.
fn wav() -> Vec<u8> {
    let data = noise(80_000);
    let mut bytes =
        b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1F\0\0\x80\x3E\0\0\x02\0\x10\0".to_vec();
    bytes.extend(b"data");
    bytes.extend((data.len() as u32).to_le_bytes());
    bytes.extend(data);
    bytes
}

/// Silence in frames of 417 bytes.
fn mp3() -> Vec<u8> {
    let mut frame = vec![0xFF, 0xFB, 0x90, 0];
    frame.resize(417, 0);
    frame.repeat(400)
}

/// Blocks of 4096 frames of 16 bits, stored as they are.
fn flac() -> Vec<u8> {
    let mut bytes = b"fLaC\x80\0\0\x22\x10\0\x10\0\0\0\0\0\0\0".to_vec();
    let packed = (44_100u64 << 44 | 15 << 36) + 120 * 4096;
    bytes.extend(packed.to_be_bytes());
    bytes.extend([0; 16]);
    for (number, samples) in (0u8..120).zip(noise(120 * 8192).chunks(8192)) {
        // No byte of a sample begins what looks like a header.
        let samples: Vec<u8> = samples.iter().map(|byte| byte & 0x7F).collect();
        bytes.extend([&[0xFF, 0xF8, 0xC9, 0x08, number, 0, 2][..], &samples, &[0; 2]].concat());
    }
    repair::flac(&mut bytes);
    bytes
}

/// CELT of 20 ms, a second a page.
fn opus() -> Vec<u8> {
    let page = |flags: u8, granule: u64, sequence: u32, packets: &[&[u8]]| {
        let mut page = [b"OggS\0", &[flags][..], &granule.to_le_bytes(), &[7, 0, 0, 0]].concat();
        page.extend([sequence, 0].map(u32::to_le_bytes).concat());
        page.push(packets.len() as u8);
        page.extend(packets.iter().map(|packet| packet.len() as u8));
        page.extend(packets.concat());
        page
    };
    let mut bytes = page(2, 0, 0, &[b"OpusHead\x01\x01\x38\x01\x80\xBB\0\0\0\0\0"]);
    bytes.extend(page(0, 0, 1, &[b"OpusTags\0\0\0\0\0\0\0\0"]));
    let data: Vec<Vec<u8>> = noise(1500 * 100)
        .chunks(100)
        .map(|body| [&[0xF8], body].concat()) // one frame of 20 ms, full band, mono
        .collect();
    for (i, packets) in data.chunks(50).enumerate() {
        let packets: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
        let flags = if i == 29 { 4 } else { 0 };
        bytes.extend(page(flags, 48_000 * (i as u64 + 1), i as u32 + 2, &packets));
    }
    repair::ogg(&mut bytes);
    bytes
}

fn adts() -> Vec<u8> {
    include_bytes!("../corpus/adts/mono").repeat(40)
}

/// ALAC, whose last packet may be shorter than the others, and is left out.
fn mp4() -> Vec<u8> {
    let (head, mut rest) = include_bytes!("../corpus/alac/s16-1").split_at(7);
    let mut packets = Vec::new();
    while let Some((len, _)) = rest.split_first_chunk::<2>() {
        let (packet, behind) = rest.split_at(2 + usize::from(u16::from_be_bytes(*len)));
        packets.push(packet);
        rest = behind;
    }
    packets.pop();
    alac::file(&[head, &packets.concat().repeat(120)].concat())
}
