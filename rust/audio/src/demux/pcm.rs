//! Samples that are stored as they are: from the bytes of a file to `f32`, at memory speed.
//!
//! WAV, AIFF, CAF and SPHERE differ in their headers only. Each reads its header into a [`PcmLayout`], and
//! [`Stored`] takes it from there.

use std::ops::Range;

use crate::{
    bytes::from,
    cancel::Cancel,
    codec::g711::{A_LAW, MU_LAW},
    demux::stated::{Believed, Stated},
    error::{Exceeded, Reason},
    info::AudioInfo,
    limits::{MAX_CHANNELS, MAX_PCM_CHANNELS},
    names::Codec,
    report::{Damage, Ledger, Note},
    sink::Sink,
    stream::{About, Part, Reader, Recording, Scratch, SeekTable, put_number},
};

/// How one sample is stored. Integers have full scale at 2^(bits - 1), as in libsndfile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    U8,
    I8,
    I16(Endian),
    I24(Endian),
    I32(Endian),
    F32(Endian),
    F64(Endian),
    ALaw,
    MuLaw,
}

/// The order of a sample's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endian {
    Little,
    Big,
}

impl Encoding {
    /// By the numbers that entries of seek tables have for them. They never change.
    const ALL: [Self; 14] = [
        Self::U8,
        Self::I8,
        Self::I16(Endian::Little),
        Self::I16(Endian::Big),
        Self::I24(Endian::Little),
        Self::I24(Endian::Big),
        Self::I32(Endian::Little),
        Self::I32(Endian::Big),
        Self::F32(Endian::Little),
        Self::F32(Endian::Big),
        Self::F64(Endian::Little),
        Self::F64(Endian::Big),
        Self::ALaw,
        Self::MuLaw,
    ];

    /// Signed integers in containers of this many bytes. Fewer bits than that are left-justified.
    pub(crate) fn signed(n_bytes: u32, endian: Endian) -> Option<Self> {
        Some(match n_bytes {
            1 => Self::I8,
            2 => Self::I16(endian),
            3 => Self::I24(endian),
            4 => Self::I32(endian),
            _ => return None,
        })
    }

    /// Floating-point numbers of this many bytes.
    pub(crate) fn float(n_bytes: u32, endian: Endian) -> Option<Self> {
        match n_bytes {
            4 => Some(Self::F32(endian)),
            8 => Some(Self::F64(endian)),
            _ => None,
        }
    }

    /// Bytes of one sample.
    pub(crate) fn n_bytes(self) -> usize {
        match self {
            Self::U8 | Self::I8 | Self::ALaw | Self::MuLaw => 1,
            Self::I16(_) => 2,
            Self::I24(_) => 3,
            Self::I32(_) | Self::F32(_) => 4,
            Self::F64(_) => 8,
        }
    }
}

/// Where the samples are, and how they are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PcmLayout {
    pub(crate) rate_hz: u32,
    pub(crate) n_channels: u16,
    pub(crate) n_frames: u64,
    encoding: Encoding,
    data: usize,
    /// The frame that begins there: the first one, unless this is a part.
    first: u64,
    /// Behind the last frame in the file.
    end: usize,
}

/// What a header says of the samples before it says where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    pub(crate) rate_hz: u32,
    pub(crate) n_channels: u16,
    pub(crate) encoding: Encoding,
}

impl Format {
    /// Refuses channel counts outside the limits.
    pub(crate) fn new(rate_hz: u32, n_channels: u32, encoding: Encoding) -> Result<Self, Reason> {
        match u16::try_from(n_channels) {
            Ok(n_channels @ 1..=MAX_PCM_CHANNELS) => Ok(Self { rate_hz, n_channels, encoding }),
            _ => Err(Exceeded::channels(n_channels, MAX_PCM_CHANNELS)),
        }
    }

    /// Bytes of one frame.
    pub(crate) fn block(self) -> u64 {
        block(self.encoding, self.n_channels)
    }

    /// Samples from byte `data` on, as many as are `stated`, or all that there are if that is a lie.
    ///
    /// # Errors
    /// Fewer frames are there than are promised.
    pub(crate) fn layout(
        self,
        bytes: &[u8],
        data: usize,
        stated: &Stated,
        ledger: &mut Ledger,
    ) -> Result<PcmLayout, Reason> {
        let there = from(bytes, data).len() as u64;
        let present = there / self.block();
        let n_frames = match stated.believe(there) {
            Believed::Len(len) => len / self.block(),
            Believed::ToEnd => present,
        };
        let told = stated.told.map(|told| told / self.block()).filter(|&told| told != n_frames);
        if told.is_some() || stated.is_odd && n_frames <= present {
            let expected = told.or(Some(present));
            let reason = Reason::Truncated { decoded: n_frames, expected };
            ledger.remark(Note::HeaderLength, 1, reason)?;
        }
        if n_frames > present {
            let reason = Reason::Truncated { decoded: present, expected: Some(n_frames) };
            ledger.lose(Damage::Truncated, 1, reason)?;
        }
        let end = data.saturating_add((present.min(n_frames) * self.block()) as usize);
        let Self { rate_hz, n_channels, encoding } = self;
        Ok(PcmLayout { rate_hz, n_channels, n_frames, encoding, data, first: 0, end })
    }
}

/// An opened recording whose samples are stored as they are.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) codec: Codec,
    pub(crate) layout: PcmLayout,
}

impl Recording for Stored {
    fn info(&self) -> AudioInfo {
        let PcmLayout { rate_hz, n_channels, n_frames, .. } = self.layout;
        AudioInfo { codec: self.codec, rate_hz, n_channels, n_frames }
    }

    fn seek_table(&self, _: &[u8], _: &mut Scratch) -> Option<Box<dyn SeekTable>> {
        let PcmLayout { encoding, data, .. } = self.layout;
        Some(Box::new(StoredTable { encoding, data: data as u64 }))
    }

    fn decode(
        &self,
        bytes: &[u8],
        _: bool,
        _: &mut Scratch,
        sink: &mut Sink<'_>,
        cancel: &Cancel,
    ) -> Result<(), Reason> {
        decode(bytes, &self.layout, sink, cancel)
    }
}

/// The kind of a [`StoredTable`] in entries.
pub(crate) const KIND: u8 = 1;

/// How samples of one size are stored, and where the first one begins.
#[derive(Debug)]
struct StoredTable {
    encoding: Encoding,
    data: u64,
}

/// Reads a [`StoredTable`].
pub(crate) fn read_table(
    reader: &mut Reader<'_>,
    _: &[u8],
    about: &About,
) -> Option<Box<dyn SeekTable>> {
    let encoding = *Encoding::ALL.get(usize::from(reader.byte()?))?;
    let data = reader.number()?;
    let n_bytes = about.info.n_frames.checked_mul(block(encoding, about.info.n_channels))?;
    let end = data.checked_add(n_bytes)?;
    (end <= about.n_bytes).then(|| Box::new(StoredTable { encoding, data }) as _)
}

impl SeekTable for StoredTable {
    fn kind(&self) -> u8 {
        KIND
    }

    fn write(&self, out: &mut Vec<u8>) {
        let number = Encoding::ALL.iter().position(|&encoding| encoding == self.encoding);
        out.push(number.unwrap_or(Encoding::ALL.len()) as u8);
        put_number(out, self.data);
    }

    fn part(&self, about: &About, window: &Range<u64>) -> Option<Part> {
        let AudioInfo { codec, rate_hz, n_channels, n_frames } = about.info;
        let block = block(self.encoding, n_channels);
        let [start, end] = [window.start, window.end].map(|frame| self.data + frame * block);
        let layout = PcmLayout {
            rate_hz,
            n_channels,
            n_frames,
            encoding: self.encoding,
            data: 0,
            first: window.start,
            end: usize::try_from(end - start).ok()?,
        };
        Some(Part::of(start..end, Stored { codec, layout }))
    }
}

/// Bytes of one frame.
fn block(encoding: Encoding, n_channels: u16) -> u64 {
    encoding.n_bytes() as u64 * u64::from(n_channels)
}

/// Converts the frames that the sink misses.
fn decode(
    bytes: &[u8],
    layout: &PcmLayout,
    sink: &mut Sink<'_>,
    cancel: &Cancel,
) -> Result<(), Reason> {
    use Endian::{Big, Little};
    let mut run = Conversion { bytes, layout, sink, cancel };
    match layout.encoding {
        Encoding::U8 => run.convert(|[b]| (f32::from(b) - 128.0) * (1.0 / 128.0)),
        Encoding::I8 => run.convert(|[b]| f32::from(b.cast_signed()) * (1.0 / 128.0)),
        Encoding::I16(Little) => run.convert(|b| from_i16(i16::from_le_bytes(b))),
        Encoding::I16(Big) => run.convert(|b| from_i16(i16::from_be_bytes(b))),
        Encoding::I24(Little) => run.convert(|[a, b, c]| from_i24([0, a, b, c])),
        Encoding::I24(Big) => run.convert(|[a, b, c]| from_i24([0, c, b, a])),
        Encoding::I32(Little) => run.convert(|b| from_i32(i32::from_le_bytes(b))),
        Encoding::I32(Big) => run.convert(|b| from_i32(i32::from_be_bytes(b))),
        Encoding::F32(Little) => run.convert(f32::from_le_bytes),
        Encoding::F32(Big) => run.convert(f32::from_be_bytes),
        Encoding::F64(Little) => run.convert(|b| f64::from_le_bytes(b) as f32),
        Encoding::F64(Big) => run.convert(|b| f64::from_be_bytes(b) as f32),
        Encoding::ALaw => run.convert(|[b]| look_up(&A_LAW, b)),
        Encoding::MuLaw => run.convert(|[b]| look_up(&MU_LAW, b)),
    }
}

fn from_i16(x: i16) -> f32 {
    f32::from(x) * (1.0 / 32_768.0)
}

fn from_i24(little: [u8; 4]) -> f32 {
    (i32::from_le_bytes(little) >> 8) as f32 * (1.0 / 8_388_608.0)
}

fn from_i32(x: i32) -> f32 {
    x as f32 * (1.0 / 2_147_483_648.0)
}

fn look_up(table: &[i16; 256], code: u8) -> f32 {
    from_i16(table.get(usize::from(code)).copied().unwrap_or_default())
}

/// Frames that are converted at a time: all channels of a block stay in the first-level cache.
const BLOCK: usize = 512;

struct Conversion<'a, 'b> {
    bytes: &'a [u8],
    layout: &'a PcmLayout,
    sink: &'a mut Sink<'b>,
    cancel: &'a Cancel,
}

impl Conversion<'_, '_> {
    fn convert<const W: usize>(&mut self, to_f32: impl Fn([u8; W]) -> f32) -> Result<(), Reason> {
        let n_channels = usize::from(self.layout.n_channels);
        if n_channels > usize::from(MAX_CHANNELS) {
            // As of an array of microphones: 2 MiB at most.
            return self.convert_by(vec![[0.0; BLOCK]; n_channels], to_f32);
        }
        self.convert_by([[0.0; BLOCK]; MAX_CHANNELS as usize], to_f32)
    }

    /// Converts a block at a time, by way of `planes`, one a channel or more.
    ///
    /// An array keeps its own type: as a slice it costs a sixth more instructions.
    fn convert_by<const W: usize>(
        &mut self,
        mut planes: impl AsMut<[[f32; BLOCK]]>,
        to_f32: impl Fn([u8; W]) -> f32,
    ) -> Result<(), Reason> {
        let n_channels = usize::from(self.layout.n_channels);
        let mut pts = self.sink.next();
        let n_before = pts.saturating_sub(self.layout.first) as usize;
        let start = self.layout.data + n_before * n_channels * W;
        let present = self.bytes.get(start..self.layout.end).unwrap_or_default();
        for block in present.chunks(BLOCK * n_channels * W) {
            self.cancel.check()?;
            let (samples, _) = block.as_chunks::<W>();
            let n_frames = samples.len() / n_channels;
            let planes: &mut [_] = planes.as_mut();
            match &mut *planes {
                // One and two channels in a form that the compiler vectorises.
                [mono, ..] if n_channels == 1 => {
                    for (to, &sample) in mono.iter_mut().zip(samples) {
                        *to = to_f32(sample);
                    }
                }
                [left, right, ..] if n_channels == 2 => {
                    let pairs = samples.as_chunks::<2>().0;
                    for ((left, right), &[l, r]) in left.iter_mut().zip(right).zip(pairs) {
                        (*left, *right) = (to_f32(l), to_f32(r));
                    }
                }
                planes => {
                    for (c, plane) in planes.iter_mut().take(n_channels).enumerate() {
                        let channel = samples.iter().skip(c).step_by(n_channels);
                        for (to, &sample) in plane.iter_mut().zip(channel) {
                            *to = to_f32(sample);
                        }
                    }
                }
            }
            let (mut few, mut many) = ([&[][..]; MAX_CHANNELS as usize], Vec::new());
            let slices = few.get_mut(..n_channels).unwrap_or_else(|| {
                many.resize(n_channels, &[][..]);
                &mut many
            });
            for (slice, plane) in slices.iter_mut().zip(&*planes) {
                *slice = plane.get(..n_frames).unwrap_or_default();
            }
            self.sink.push(pts as i64, slices);
            if self.sink.is_full() {
                break;
            }
            pts += n_frames as u64;
        }
        Ok(())
    }
}
