//! Probing, planning and rendering crops: one target a format.

use std::cell::RefCell;

use gristmill_audio::{
    AudioSpec, Channels, Checked, Codec, Crop, DecodeError, Decoder, Depth, Limits, MAX_CHANNELS,
    MAX_PCM_CHANNELS, MAX_SECONDS, Pad, Plan, RATES_HZ, Reason, Strict,
};

use crate::{Outcome, Verdict, draw::Draw, ensure, repair};

/// The most samples that are rendered at a time.
const MAX_SAMPLES: usize = 1 << 19;

/// Probed values are within the limits, and do not depend on a tag in front.
pub fn probe(data: &[u8]) -> Verdict {
    let info = match gristmill_audio::probe(data) {
        Ok(info) => info,
        Err(error) => return is_typed(data, &error).map(|()| Outcome::Refused),
    };
    ensure!(RATES_HZ.contains(&info.rate_hz), "a rate beyond the limits: {info:?}");
    let most = match info.codec {
        Codec::Wav | Codec::Aiff | Codec::Caf | Codec::Sphere => MAX_PCM_CHANNELS,
        _ => MAX_CHANNELS,
    };
    ensure!((1..=most).contains(&info.n_channels), "channels beyond the limits: {info:?}");
    ensure!(info.duration_s() <= MAX_SECONDS, "a length beyond the limits: {info:?}");
    if info.codec != Codec::Wav {
        let body = Draw::of(data).below(100) as u8;
        let mut tagged = vec![b'I', b'D', b'3', 4, 0, 0, 0, 0, 0, body];
        tagged.resize(10 + usize::from(body), b'x');
        tagged.extend_from_slice(data);
        let again = gristmill_audio::probe(&tagged);
        ensure!(again.as_ref() == Ok(&info), "{info:?} becomes {again:?} behind a tag");
    }
    Ok(Outcome::Data)
}

/// Crops of WAV equal slices of the whole.
pub fn wav(data: &[u8]) -> Verdict {
    crops(data)
}

/// Crops of FLAC equal slices of the whole. Frames' checksums are mostly corrected first.
pub fn flac(data: &[u8]) -> Verdict {
    crops(&repaired(data, repair::flac))
}

/// Crops of Ogg Vorbis equal slices of the whole. Pages' checksums are mostly corrected first, since
/// few mutants would reach the decoder otherwise.
pub fn ogg_vorbis(data: &[u8]) -> Verdict {
    crops(&repaired(data, repair::ogg))
}

/// Crops of Vorbis equal slices of the whole. The input is a setup and packets, in a valid file.
pub fn vorbis(data: &[u8]) -> Verdict {
    crops(&crate::vorbis::file(data))
}

/// Crops of MP3 equal slices of the whole; for every second input without `strict`.
pub fn mp3(data: &[u8]) -> Verdict {
    crops_of(data, Draw::of(data).one_in(2))
}

/// Crops of Ogg Opus are the same each time: how much they differ from the slice depends on the
/// stream. Pages' checksums are mostly corrected first.
pub fn opus(data: &[u8]) -> Verdict {
    crops(&repaired(data, repair::ogg))
}

/// Crops of FLAC in Ogg equal slices of the whole.
pub fn ogg_flac(data: &[u8]) -> Verdict {
    crops(&repaired(data, repair::ogg))
}

/// As [`mp3`], for MPEG layers I and II.
pub fn mp2(data: &[u8]) -> Verdict {
    crops_of(data, Draw::of(data).one_in(2))
}

/// Crops of AIFF equal slices of the whole.
pub fn aiff(data: &[u8]) -> Verdict {
    crops(data)
}

/// Crops of CAF equal slices of the whole.
pub fn caf(data: &[u8]) -> Verdict {
    crops(data)
}

/// Crops of SPHERE equal slices of the whole.
pub fn sphere(data: &[u8]) -> Verdict {
    crops(data)
}

/// Crops of MP4 equal slices of the whole, except AAC, whose noise may differ.
pub fn mp4(data: &[u8]) -> Verdict {
    crops(data)
}

/// Crops of ALAC equal slices of the whole. The input is packets, in a valid file.
pub fn alac(data: &[u8]) -> Verdict {
    crops(&crate::alac::file(data))
}

/// Crops of AAC in ADTS are the same each time.
pub fn adts(data: &[u8]) -> Verdict {
    crops(data)
}

/// Crops of Matroska equal slices of the whole, except AAC.
pub fn matroska(data: &[u8]) -> Verdict {
    crops(data)
}

fn repaired(data: &[u8], repair: fn(&mut [u8])) -> Vec<u8> {
    let mut data = data.to_vec();
    if !Draw::of(&data).one_in(8) {
        repair(&mut data);
    }
    data
}

/// Renders the whole recording, and then crops of it at the same rate and channels. Of a long
/// recording, a longer crop is used in place of the whole.
fn crops(data: &[u8]) -> Verdict {
    crops_of(data, true)
}

/// The same, with or without `strict`.
fn crops_of(data: &[u8], is_strict: bool) -> Verdict {
    thread_local! {
        // Used for all inputs, none of which may change the results of later ones.
        static USED: RefCell<Decoder> = RefCell::default();
    }
    let mut draw = Draw::of(data);
    draw.word(); // used by `repaired`, or for `is_strict`
    let mut spec = AudioSpec {
        rate_hz: draw.pick(&[None, None, None, Some(8_000), Some(32_000), Some(44_099)]),
        channels: draw.pick(&[Channels::Keep, Channels::Keep, Channels::Mono, Channels::Exact(2)]),
        strict: is_strict.into(),
        ..AudioSpec::WHOLE
    };
    let plan = match Decoder::default().plan(data, &spec, 0) {
        Ok(plan) => plan,
        Err(error) => return is_typed(data, &error).map(|()| Outcome::Refused),
    };
    check_plan(data, &plan, &spec)?;
    let (total, rate_hz) = (plan.crop().end, f64::from(plan.rate_hz()));
    let is_long = plan.n_samples() > MAX_SAMPLES;
    let base = if is_long { draw.below(total - 40_000) } else { 0 };
    if is_long {
        spec.crop = at(base, 40_000, rate_hz);
    }
    let len = if is_long { 40_000 } else { total };
    let whole = render(&mut Decoder::default(), data, &spec, 0)?;
    let mut outcome = if whole.is_ok() { Outcome::Data } else { Outcome::Refused };
    if !is_long
        && spec.strict != Strict::Lenient
        && spec.rate_hz.is_none()
        && spec.channels == Channels::Keep
    {
        check(data, &whole)?;
    }
    for _ in 0..2 {
        let wanted = 1 + draw.below(draw.clone().pick(&[10, 1000, len + 10]).min(3000));
        let seconds = wanted as f64 / rate_hz;
        spec.pad = draw.pick(&[Pad::None, Pad::Zero, Pad::Repeat]);
        spec.crop = match draw.below(5) {
            _ if is_long => at(base + draw.below(len - wanted), wanted, rate_hz),
            0 => Crop::Start { seconds },
            1 => Crop::Center { seconds },
            2 | 3 => Crop::Random { seconds },
            _ => at(draw.below(len + 1), wanted, rate_hz),
        };
        let word = draw.pick(&[draw.clone().word(), u64::MAX, 0]);
        let crop = USED.with_borrow_mut(|used| render(used, data, &spec, word))?;
        let Ok((plan, samples)) = crop else { continue };
        outcome = Outcome::Data;
        let expected =
            if spec.pad == Pad::None { plan.crop().end - plan.crop().start } else { wanted };
        ensure!(plan.n_frames() as u64 == expected, "{} frames for {spec:?}", plan.n_frames());
        if matches!(plan.info().codec, Codec::Aac | Codec::Opus) {
            let again = render(&mut Decoder::default(), data, &spec, word)?;
            let same = |other: &[f32]| {
                other.iter().map(|x| x.to_bits()).eq(samples.iter().map(|x| x.to_bits()))
            };
            ensure!(again.is_ok_and(|(_, other)| same(&other)), "twice the same differs; {spec:?}");
        } else if let Ok((outer, whole)) = &whole {
            compare(outer, whole, &plan, &samples, spec.pad)
                .map_err(|e| format!("{e}; {spec:?}, draw {word}, {:?}", plan.info()))?;
        }
    }
    Ok(outcome)
}

/// Checking a recording finds the error that decoding found; checking only checksums finds no other.
fn check(data: &[u8], whole: &Rendered) -> Result<(), String> {
    let check = |depth| Decoder::default().check(data, Limits::DEFAULT, depth);
    let raised = |checked: Result<Checked, DecodeError>| checked.map_or_else(Some, |c| c.error);
    let found = raised(check(Depth::Decode));
    let refused = whole.as_ref().err();
    ensure!(found.as_ref() == refused, "{found:?} was found, not {refused:?}");
    let fast = raised(check(Depth::Checksums));
    // In Ogg, pages of streams that are not decoded are checked too.
    let is_ogg = data.windows(4).any(|w| w == b"OggS");
    ensure!(is_ogg || fast.is_none() || found.is_some(), "{fast:?} where all of it decodes");
    Ok(())
}

/// `n` frames from frame `start` on.
fn at(start: u64, n: u64, rate_hz: f64) -> Crop {
    Crop::At { start: start as f64 / rate_hz, seconds: Some(n as f64 / rate_hz) }
}

/// A plan of the whole has the lengths and channels of the headers.
fn check_plan(data: &[u8], plan: &Plan, spec: &AudioSpec) -> Result<(), String> {
    let info = *plan.info();
    let probed = gristmill_audio::probe(data);
    // Without `strict`, a damaged recording may be planned although probing it fails.
    let is_probed =
        probed.as_ref() == Ok(&info) || spec.strict == Strict::Lenient && probed.is_err();
    ensure!(is_probed, "planned {info:?}, probed {probed:?}");
    let to_hz = u128::from(spec.rate_hz.unwrap_or(info.rate_hz));
    let n_out = (u128::from(info.n_frames) * to_hz).div_ceil(u128::from(info.rate_hz));
    ensure!(plan.n_frames() as u128 == n_out, "{} frames, not {n_out}", plan.n_frames());
    ensure!(plan.crop() == (0..n_out as u64), "the whole is {:?}", plan.crop());
    let n_channels = match spec.channels {
        Channels::Mono => 1,
        Channels::Keep => info.n_channels,
        Channels::Exact(n) => n,
        Channels::Picked(picked) => picked.places().len() as u16,
    };
    ensure!(plan.n_channels() == n_channels, "{} channels for {spec:?}", plan.n_channels());
    ensure!(plan.n_samples() == plan.n_frames() * usize::from(n_channels), "samples: {plan:?}");
    Ok(())
}

type Rendered = Result<(Plan, Vec<f32>), DecodeError>;

/// A crop, all of whose samples must be finite, or the error that a user would see.
fn render(
    decoder: &mut Decoder,
    data: &[u8],
    spec: &AudioSpec,
    draw: u64,
) -> Result<Rendered, String> {
    let result = decoder.plan(data, spec, draw).and_then(|plan| {
        let mut out = vec![f32::NAN; plan.n_samples()];
        decoder.render(data, &plan, &mut out).map(|_| (plan, out))
    });
    match &result {
        Ok((_, out)) => {
            ensure!(out.iter().all(|x| x.is_finite()), "samples that are not finite; {spec:?}");
        }
        Err(error) => is_typed(data, error)?,
    }
    Ok(result)
}

/// The crop must have the bits of the slice, followed by the padding.
fn compare(
    outer: &Plan,
    whole: &[f32],
    plan: &Plan,
    samples: &[f32],
    pad: Pad,
) -> Result<(), String> {
    let (outer, n_outer) = (outer.crop(), outer.n_frames());
    let crop = plan.crop();
    ensure!(crop.start >= outer.start && crop.end <= outer.end, "{crop:?} outside {outer:?}");
    let n_crop = (crop.end - crop.start) as usize;
    let skip = (crop.start - outer.start) as usize;
    let same = |a: &[f32], b: &[f32]| a.iter().zip(b).position(|(a, b)| a.to_bits() != b.to_bits());
    for c in 0..usize::from(plan.n_channels()) {
        let plane = &samples[c * plan.n_frames()..][..plan.n_frames()];
        let slice = &whole[c * n_outer + skip..][..n_crop];
        let (head, tail) = plane.split_at(n_crop);
        if let Some(i) = same(head, slice) {
            return Err(format!(
                "crop {crop:?} differs from the whole at frame {} of channel {c}: {} and {}",
                crop.start + i as u64,
                head[i],
                slice[i]
            ));
        }
        let is_padded = match pad {
            Pad::Repeat if n_crop > 0 => tail.chunks(n_crop).all(|part| same(part, head).is_none()),
            _ => tail.iter().all(|x| x.to_bits() == 0),
        };
        ensure!(is_padded, "{} frames of padding are wrong", tail.len());
    }
    Ok(())
}

/// The reason of the error must be one that bytes can cause.
fn is_typed(data: &[u8], error: &DecodeError) -> Result<(), String> {
    let is_ours =
        matches!(error.reason, Reason::Null | Reason::WrongSlot { .. } | Reason::Cancelled);
    ensure!(!is_ours, "an error that no bytes can cause: {error:?}");
    let is_early = matches!(
        error.reason,
        Reason::Empty
            | Reason::UnknownFormat
            | Reason::UnsupportedCodec(_)
            | Reason::MalformedHeader(_)
    );
    let is_named = error.codec.is_some() || is_early || holds_many_codecs(data);
    ensure!(is_named, "an error without a codec: {error:?}");
    ensure!(!error.to_string().is_empty(), "an error without words: {error:?}");
    Ok(())
}

/// Whether this is MP4 or Matroska, whose first bytes do not tell the codec.
fn holds_many_codecs(data: &[u8]) -> bool {
    const BOXES: [&[u8]; 8] =
        [b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip", b"styp", b"pnot"];
    data.starts_with(&[0x1A, 0x45, 0xDF, 0xA3])
        || data.get(4..8).is_some_and(|kind| BOXES.contains(&kind))
}
