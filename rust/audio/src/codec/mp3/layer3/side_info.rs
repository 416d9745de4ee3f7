//! The side information of a frame: ISO/IEC 11172-3, 2.4.1.7, and 13818-3, 2.4.1.7.

use super::{
    super::header::{Header, Version},
    bands::{Bands, N_SAMPLES, Rate},
};
use crate::bits::BitReader;

/// Which window a granule of a channel has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Block {
    /// One long window.
    #[default]
    Long,
    /// A long one before a short one.
    Start,
    /// Three short ones.
    Short,
    /// A long one behind a short one.
    Stop,
}

/// One channel of one granule.
#[allow(clippy::struct_excessive_bools)] // each is a bit of the stream
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Channel {
    /// Bits of scale factors and samples together.
    pub(super) n_bits: usize,
    /// Where the three regions of large values end, each with its Huffman table.
    pub(super) regions: [(usize, u8); 3],
    pub(super) global_gain: i32,
    /// What says how long scale factors are.
    pub(super) scale_code: u32,
    pub(super) block: Block,
    /// Whether the lowest subbands have a normal window, whatever the block.
    pub(super) is_mixed: bool,
    /// For each short window.
    pub(super) window_gains: [i32; 3],
    pub(super) is_emphasized: bool,
    /// Whether scale factors count double.
    pub(super) is_coarse: bool,
    /// Which of the two tables the small values have.
    pub(super) is_table_b: bool,
}

/// What a frame says of its granules.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SideInfo {
    /// How many bytes before this frame's its main data begin.
    pub(super) main_data_begin: usize,
    /// For each channel and four groups of bands: whether the second granule has the scale factors
    /// of the first.
    pub(super) is_shared: [[bool; 4]; 2],
    pub(super) granules: [[Channel; 2]; 2],
}

impl SideInfo {
    /// Reads it; `None` if it is too short or says what cannot be.
    pub(super) fn read(bytes: &[u8], header: &Header, rate: &Rate) -> Option<Self> {
        let mut bits = BitReader::new(bytes);
        let n_channels = usize::from(header.n_channels());
        let mut info = Self::default();
        if header.version == Version::Mpeg1 {
            info.main_data_begin = bits.read(9)? as usize;
            bits.skip(if header.is_mono { 5 } else { 3 }); // private bits
            for group in info.is_shared.iter_mut().take(n_channels).flatten() {
                *group = bits.read(1)? == 1;
            }
        } else {
            info.main_data_begin = bits.read(8)? as usize;
            bits.skip(n_channels); // private bits
        }
        for granule in info.granules.iter_mut().take(header.n_granules()) {
            for channel in granule.iter_mut().take(n_channels) {
                *channel = Channel::read(&mut bits, header.version, rate)?;
            }
        }
        Some(info)
    }
}

impl Channel {
    fn read(bits: &mut BitReader<'_>, version: Version, rate: &Rate) -> Option<Self> {
        let mut channel = Self { n_bits: bits.read(12)? as usize, ..Self::default() };
        let n_large = 2 * bits.read(9)? as usize;
        if n_large > N_SAMPLES {
            return None;
        }
        channel.global_gain = bits.read(8)?.cast_signed();
        channel.scale_code = bits.read(if version == Version::Mpeg1 { 4 } else { 9 })?;
        let mut ends = [n_large; 3];
        let mut tables = [0; 3];
        if bits.read(1)? == 1 {
            let kind = bits.read(2)?;
            channel.is_mixed = bits.read(1)? == 1;
            channel.block = match kind {
                0 => return None,
                1 => Block::Start,
                2 => Block::Short,
                _ => Block::Stop,
            };
            for table in tables.iter_mut().take(2) {
                *table = bits.read(5)? as u8;
            }
            for gain in &mut channel.window_gains {
                *gain = bits.read(3)?.cast_signed();
            }
            let [of_short, of_long] = rate.second_region;
            let [first, ..] = &mut ends;
            *first = n_large.min(if channel.block == Block::Short { of_short } else { of_long });
        } else {
            for table in &mut tables {
                *table = bits.read(5)? as u8;
            }
            let mut n_bands = 0;
            for (end, width) in ends.iter_mut().zip([4, 3]) {
                n_bands += bits.read(width)? as usize + 1;
                let of_band = rate.long.ends().get(n_bands - 1);
                *end = n_large.min(of_band.map_or(N_SAMPLES, |&end| usize::from(end)));
            }
        }
        for (region, (end, table)) in channel.regions.iter_mut().zip(ends.into_iter().zip(tables)) {
            *region = (end, table);
        }
        // In MPEG-2 the scale factors' lengths imply it.
        channel.is_emphasized = version == Version::Mpeg1 && bits.read(1)? == 1;
        channel.is_coarse = bits.read(1)? == 1;
        channel.is_table_b = bits.read(1)? == 1;
        Some(channel)
    }

    /// The bands of its kind of block.
    pub(super) fn bands(self, rate: &Rate) -> &Bands {
        match (self.block, self.is_mixed) {
            (Block::Short, false) => &rate.short,
            (Block::Short, true) => &rate.mixed,
            _ => &rate.long,
        }
    }
}
