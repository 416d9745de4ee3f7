//! One stream of Opus, RFC 6716 section 4: which of SILK and CELT decodes a frame, and how one follows the
//! other without a click.

use super::{
    celt::{self, WINDOW},
    range_decoder::RangeDecoder,
    silk,
};

/// Samples of 2.5 ms, over which sounds are faded.
const FADE: usize = 120;

/// What decodes a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Silk,
    /// SILK below 8 kHz, and CELT above.
    Both,
    Celt,
}

/// What the first byte of a packet says of its frames: section 3.1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Config {
    mode: Mode,
    /// Samples at 48 kHz.
    pub(super) len: usize,
    /// The rate of SILK.
    khz: usize,
    /// The first band of CELT that is not coded.
    end: usize,
    is_stereo: bool,
}

impl Config {
    pub(super) fn of(toc: u8) -> Self {
        let (config, is_stereo) = (usize::from(toc >> 3), toc & 4 != 0);
        let (mode, khz, end) = match config {
            0..4 => (Mode::Silk, 8, 13),
            4..8 => (Mode::Silk, 12, 17),
            8..12 => (Mode::Silk, 16, 17),
            12..14 => (Mode::Both, 16, 19),
            14..16 => (Mode::Both, 16, 21),
            16..20 => (Mode::Celt, 16, 13),
            20..24 => (Mode::Celt, 16, 17),
            24..28 => (Mode::Celt, 16, 19),
            _ => (Mode::Celt, 16, 21),
        };
        let len = match (mode, config & 3) {
            (Mode::Silk, 3) => 2_880,
            (Mode::Silk, size) => 480 << size,
            (Mode::Both, size) => 480 << (size & 1),
            (Mode::Celt, size) => FADE << size,
        };
        Self { mode, len, khz, end, is_stereo }
    }
}

/// A frame of CELT beside one of SILK, for the change from one to the other.
#[derive(Clone, Copy, Debug)]
struct Extra<'a> {
    bytes: &'a [u8],
    is_to_silk: bool,
}

/// Samples of all channels.
type Planes = Vec<Vec<f32>>;

/// Decodes the frames of one stream in their order.
#[derive(Debug)]
pub(super) struct Stream {
    n_channels: usize,
    celt: celt::Decoder,
    silk: silk::Decoder,
    /// What decoded the last frame.
    last: Option<Mode>,
    /// Whether an extra frame already led from SILK to CELT.
    is_led: bool,
    /// The first band that the last frame did not code.
    end: usize,
    /// What SILK makes.
    spoken: Planes,
}

impl Stream {
    /// A decoder to one channel or two.
    pub(super) fn new(n_channels: usize) -> Self {
        Self {
            n_channels,
            celt: celt::Decoder::new(n_channels),
            silk: silk::Decoder::new(n_channels),
            last: None,
            is_led: false,
            end: 21,
            spoken: vec![Vec::new(); n_channels],
        }
    }

    /// Decodes a frame into the samples of each plane from `at` on.
    pub(super) fn decode(
        &mut self,
        config: Config,
        bytes: &[u8],
        planes: &mut [Vec<f32>],
        at: usize,
    ) {
        let Config { mode, len, is_stereo, .. } = config;
        // An empty frame says that there was nothing to say.
        if bytes.len() <= 1 {
            return self.conceal(len, planes, at);
        }
        let mut code = RangeDecoder::new(bytes);
        let mut before = None;
        let was_celt = self.last == Some(Mode::Celt);
        let is_celt = mode == Mode::Celt;
        if is_celt && self.last.is_some() && !was_celt && !self.is_led {
            before = Some(self.made_up(len));
        }
        if !is_celt {
            if was_celt {
                self.silk.reset();
            }
            self.spoken.iter_mut().for_each(|plane| plane.resize(len, 0.0));
            let coding = silk::Coding { khz: config.khz, ms: len / 48, is_stereo };
            self.silk.decode(&mut code, coding, &mut self.spoken);
        }
        let extra = if is_celt { Ok(None) } else { extra(&mut code, mode, bytes) };
        let (extra, is_broken) = (extra.unwrap_or(None), extra.is_err());
        if !is_celt && was_celt && extra.is_none() {
            before = Some(self.made_up(len));
        }
        self.end = config.end;
        let lead = extra.filter(|extra| extra.is_to_silk).map(|extra| self.lead(extra, is_stereo));
        let start = if is_celt { 0 } else { 17 };
        if mode == Mode::Silk {
            clear(planes, at, len);
            if self.last == Some(Mode::Both) && !(lead.is_some() && self.is_led) {
                // CELT fades out.
                let coding = self.coding(FADE, 0, is_stereo);
                self.celt.decode(coding, &mut RangeDecoder::new(&[0xff; 2]), planes, at);
            }
        } else {
            if self.last.is_some_and(|last| last != mode) && !self.is_led {
                self.celt.reset();
            }
            let coding = self.coding(len, start, is_stereo);
            if is_broken {
                self.celt.conceal(coding, planes, at);
            } else {
                self.celt.decode(coding, &mut code, planes, at);
            }
        }
        if !is_celt {
            self.add_spoken(len, planes, at);
        }
        if let Some(extra) = extra.filter(|extra| !extra.is_to_silk) {
            self.celt.reset();
            let follow = self.lead(extra, is_stereo);
            let at = at + len - FADE;
            each(planes, at, &follow, |to, follow| fade(follow.get(FADE..), to, false));
        }
        let is_fresh = self.last != Some(Mode::Silk) || self.is_led;
        for lead in [lead.filter(|_| is_fresh), before].into_iter().flatten() {
            each(planes, at, &lead, |to, lead| {
                if len < 2 * FADE {
                    fade(Some(lead), to, true);
                } else if let (Some((head, tail)), Some((first, rest))) =
                    (to.split_at_mut_checked(FADE), lead.split_at_checked(FADE))
                {
                    head.copy_from_slice(first);
                    fade(Some(rest), tail, true);
                }
            });
        }
        self.last = Some(mode);
        self.is_led = extra.is_some_and(|extra| !extra.is_to_silk);
    }

    /// Makes up so many samples that were lost, or that nothing was to say of.
    fn conceal(&mut self, len: usize, planes: &mut [Vec<f32>], at: usize) {
        /// The longest frame that is made up.
        const LONGEST: usize = 960;
        clear(planes, at, len);
        for from in (0..len).step_by(LONGEST) {
            let mode = if self.is_led { Some(Mode::Celt) } else { self.last };
            let Some(mode) = mode else { return };
            let (at, len) = (at + from, (len - from).min(LONGEST));
            if mode != Mode::Silk {
                let start = if mode == Mode::Celt { 0 } else { 17 };
                let coding = self.coding(len, start, self.n_channels == 2);
                self.celt.conceal(coding, planes, at);
            }
            if mode != Mode::Celt {
                // SILK makes up no less than 10 ms.
                let all = len.max(480);
                self.spoken.iter_mut().for_each(|plane| plane.resize(all, 0.0));
                self.silk.conceal(all / 48, &mut self.spoken);
                self.add_spoken(len, planes, at);
            }
            self.last = Some(mode);
            self.is_led = false;
        }
    }

    /// The 5 ms, or less, that would follow in the last mode.
    fn made_up(&mut self, len: usize) -> Planes {
        let len = len.min(2 * FADE);
        let mut planes = vec![vec![0.0; len]; self.n_channels];
        self.conceal(len, &mut planes, 0);
        planes
    }

    /// The 5 ms of an extra frame.
    fn lead(&mut self, extra: Extra<'_>, is_stereo: bool) -> Planes {
        let mut planes = vec![vec![0.0; 2 * FADE]; self.n_channels];
        let coding = self.coding(2 * FADE, 0, is_stereo);
        self.celt.decode(coding, &mut RangeDecoder::new(extra.bytes), &mut planes, 0);
        planes
    }

    fn coding(&self, len: usize, start: usize, is_stereo: bool) -> celt::Coding {
        let log_len = (len / FADE).max(1).ilog2().min(3) as usize;
        celt::Coding { log_len, is_stereo, start, end: self.end }
    }

    fn add_spoken(&self, len: usize, planes: &mut [Vec<f32>], at: usize) {
        each(planes, at, &self.spoken, |to, spoken| {
            to.iter_mut().zip(spoken).take(len).for_each(|(to, x)| *to += x);
        });
    }
}

/// Reads whether a frame of SILK has another of CELT behind it: section 4.5.1. An error if that would
/// begin before what was read.
fn extra<'a>(
    code: &mut RangeDecoder<'_>,
    mode: Mode,
    bytes: &'a [u8],
) -> Result<Option<Extra<'a>>, ()> {
    let is_both = mode == Mode::Both;
    let n_least = if is_both { 37 } else { 17 };
    if code.tell() + n_least > code.n_total() || is_both && !code.bit(12) {
        return Ok(None);
    }
    let is_to_silk = code.bit(1);
    let used = (code.tell().unsigned_abs() as usize).div_ceil(8);
    let len = if is_both { code.uniform(256) as usize + 2 } else { bytes.len() - used };
    let at = bytes.len().checked_sub(len).ok_or(())?;
    if 8 * at < code.tell().unsigned_abs() as usize {
        return Err(());
    }
    code.shorten(at);
    let bytes = bytes.get(at..).ok_or(())?;
    Ok(Some(Extra { bytes, is_to_silk }))
}

fn clear(planes: &mut [Vec<f32>], at: usize, len: usize) {
    for plane in planes {
        if let Some(to) = plane.get_mut(at..at + len) {
            to.fill(0.0);
        }
    }
}

/// Does something with each plane from `at` on and its counterpart.
fn each(planes: &mut [Vec<f32>], at: usize, others: &Planes, run: impl Fn(&mut [f32], &[f32])) {
    for (plane, other) in planes.iter_mut().zip(others) {
        if let Some(to) = plane.get_mut(at..) {
            run(to, other);
        }
    }
}

/// Fades `to` in from another sound, or out to it.
fn fade(other: Option<&[f32]>, to: &mut [f32], is_in: bool) {
    for ((to, other), w) in to.iter_mut().zip(other.unwrap_or_default()).zip(&WINDOW) {
        let w = if is_in { w * w } else { 1.0 - w * w };
        *to = w * *to + (1.0 - w) * other;
    }
}
