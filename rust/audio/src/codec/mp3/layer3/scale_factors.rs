//! Scale factors, one a band: ISO/IEC 11172-3, 2.4.2.7, and 13818-3, 2.4.3.2.

use super::{
    bands::MAX_BANDS,
    side_info::{Block, Channel},
};
use crate::bits::BitReader;

/// The scale factors of a granule and channel, in the order of its bands. Of the right channel of
/// intensity stereo they are positions.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScaleFactors {
    pub(super) of_band: [u8; MAX_BANDS],
    pub(super) is_emphasized: bool,
}

impl Default for ScaleFactors {
    fn default() -> Self {
        Self { of_band: [0; MAX_BANDS], is_emphasized: false }
    }
}

/// Bits of the lower bands' scale factors and of the upper ones', by `scalefac_compress`.
const LENGTHS: [(u8, u8); 16] = [
    (0, 0),
    (0, 1),
    (0, 2),
    (0, 3),
    (3, 0),
    (1, 1),
    (1, 2),
    (1, 3),
    (2, 1),
    (2, 2),
    (2, 3),
    (3, 1),
    (3, 2),
    (3, 3),
    (4, 2),
    (4, 3),
];

impl ScaleFactors {
    /// Those of MPEG-1; of the bands in a shared group they are the first granule's.
    pub(super) fn read_mpeg1(
        bits: &mut BitReader<'_>,
        channel: &Channel,
        first: Option<(&Self, &[bool; 4])>,
    ) -> Option<Self> {
        let (low, high) = *LENGTHS.get(channel.scale_code as usize)?;
        let mut all = Self { is_emphasized: channel.is_emphasized, ..Self::default() };
        match (channel.block, channel.is_mixed) {
            (Block::Short, false) => all.read(bits, &[(18, low), (18, high)])?,
            (Block::Short, true) => all.read(bits, &[(17, low), (18, high)])?,
            _ => {
                let mut at = 0;
                for (group, (n, width)) in
                    [(6, low), (5, low), (5, high), (5, high)].into_iter().enumerate()
                {
                    let shared = first.filter(|(_, is_shared)| is_shared.get(group) == Some(&true));
                    let bands = all.of_band.get_mut(at..at + n)?;
                    match shared {
                        Some((first, _)) => bands.copy_from_slice(first.of_band.get(at..at + n)?),
                        None => read_into(bits, width, bands)?,
                    }
                    at += n;
                }
            }
        }
        Some(all)
    }

    /// Those of MPEG-2, where `is_position` tells the right channel of intensity stereo.
    pub(super) fn read_mpeg2(
        bits: &mut BitReader<'_>,
        channel: &Channel,
        is_position: bool,
    ) -> Option<Self> {
        let (row, widths) = if is_position {
            let code = channel.scale_code >> 1;
            match code {
                0..180 => (0, [code / 36, code % 36 / 6, code % 6, 0]),
                180..244 => (1, [(code - 180) >> 4, ((code - 180) >> 2) & 3, (code - 180) & 3, 0]),
                _ => (2, [(code - 244) / 3, (code - 244) % 3, 0, 0]),
            }
        } else {
            let code = channel.scale_code;
            match code {
                0..400 => (3, [(code >> 4) / 5, (code >> 4) % 5, (code & 15) >> 2, code & 3]),
                400..500 => {
                    let code = code - 400;
                    (4, [(code >> 2) / 5, (code >> 2) % 5, code & 3, 0])
                }
                _ => (5, [(code - 500) / 3, (code - 500) % 3, 0, 0]),
            }
        };
        // How many bands have each of the four lengths.
        let groups = match (channel.block, channel.is_mixed) {
            (Block::Short, false) => [
                [12, 12, 12, 0],
                [12, 9, 9, 6],
                [15, 12, 9, 0],
                [9, 9, 9, 9],
                [9, 9, 12, 6],
                [18, 18, 0, 0],
            ],
            (Block::Short, true) => [
                [6, 15, 12, 0],
                [6, 12, 9, 6],
                [6, 18, 9, 0],
                [6, 9, 9, 9],
                [6, 9, 12, 6],
                [15, 18, 0, 0],
            ],
            _ => [
                [7, 7, 7, 0],
                [6, 6, 6, 3],
                [8, 8, 5, 0],
                [6, 5, 5, 5],
                [6, 5, 7, 3],
                [11, 10, 0, 0],
            ],
        };
        let groups: [usize; 4] = *groups.get(row)?;
        let mut parts = [(0, 0); 4];
        for (part, (n, width)) in parts.iter_mut().zip(groups.into_iter().zip(widths)) {
            *part = (n, width as u8);
        }
        let mut all = Self { is_emphasized: row == 5, ..Self::default() };
        all.read(bits, &parts)?;
        Some(all)
    }

    /// Runs of bands, each with the bits of one scale factor.
    fn read(&mut self, bits: &mut BitReader<'_>, parts: &[(usize, u8)]) -> Option<()> {
        let mut at = 0;
        for &(n, width) in parts {
            read_into(bits, width, self.of_band.get_mut(at..at + n)?)?;
            at += n;
        }
        Some(())
    }
}

fn read_into(bits: &mut BitReader<'_>, width: u8, bands: &mut [u8]) -> Option<()> {
    if width > 0 {
        for band in bands {
            *band = bits.read(width.into())? as u8;
        }
    }
    Some(())
}
