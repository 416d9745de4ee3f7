//! Scale factor bands: ISO/IEC 11172-3, table B.8; 13818-3, table B.2; and MPEG-2.5's.

// Tables are made when this is compiled, where an index out of range is an error.
#![allow(clippy::indexing_slicing)]

use super::super::header::{Header, Version};

/// The most bands of a channel: 13 of short blocks, each with three windows.
pub(super) const MAX_BANDS: usize = 39;

/// Samples of a granule and channel.
pub(super) const N_SAMPLES: usize = 576;

/// Widths of the bands of long blocks and of short ones (each of the three windows has such a
/// band).
struct Widths {
    long: [u16; 22],
    short: [u16; 13],
}

const MPEG1_44100: Widths = Widths {
    long: [4, 4, 4, 4, 4, 4, 6, 6, 8, 8, 10, 12, 16, 20, 24, 28, 34, 42, 50, 54, 76, 158],
    short: [4, 4, 4, 4, 6, 8, 10, 12, 14, 18, 22, 30, 56],
};
const MPEG1_48000: Widths = Widths {
    long: [4, 4, 4, 4, 4, 4, 6, 6, 6, 8, 10, 12, 16, 18, 22, 28, 34, 40, 46, 54, 54, 192],
    short: [4, 4, 4, 4, 6, 6, 10, 12, 14, 16, 20, 26, 66],
};
const MPEG1_32000: Widths = Widths {
    long: [4, 4, 4, 4, 4, 4, 6, 6, 8, 10, 12, 16, 20, 24, 30, 38, 46, 56, 68, 84, 102, 26],
    short: [4, 4, 4, 4, 6, 8, 12, 16, 20, 26, 34, 42, 12],
};
const MPEG2_22050: Widths =
    Widths { long: MPEG2_16000.long, short: [4, 4, 4, 6, 6, 8, 10, 14, 18, 26, 32, 42, 18] };
const MPEG2_24000: Widths = Widths {
    long: [6, 6, 6, 6, 6, 6, 8, 10, 12, 14, 16, 18, 22, 26, 32, 38, 46, 54, 62, 70, 76, 36],
    short: [4, 4, 4, 6, 8, 10, 12, 14, 18, 24, 32, 44, 12],
};
const MPEG2_16000: Widths = Widths {
    long: [6, 6, 6, 6, 6, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 38, 46, 52, 60, 68, 58, 54],
    short: [4, 4, 4, 6, 8, 10, 12, 14, 18, 24, 30, 40, 18],
};
const MPEG25_8000: Widths = Widths {
    long: [12, 12, 12, 12, 12, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 76, 90, 2, 2, 2, 2, 2],
    short: [8, 8, 8, 12, 16, 20, 24, 28, 36, 2, 2, 2, 26],
};

/// Where the bands of a kind of block end, in the order in which samples are coded: of the three
/// windows of a short band, one after the other.
#[derive(Debug)]
pub(super) struct Bands {
    /// How many bands in front are those of a long block.
    pub(super) n_long: usize,
    n: usize,
    ends: [u16; MAX_BANDS],
}

impl Bands {
    const fn of(widths: &Widths, n_long: usize, first_short: usize) -> Self {
        let (mut ends, mut n, mut end) = ([0; MAX_BANDS], 0, 0);
        while n < n_long {
            end += widths.long[n];
            ends[n] = end;
            n += 1;
        }
        let mut band = first_short;
        while band < 13 {
            let mut window = 0;
            while window < 3 {
                end += widths.short[band];
                ends[n] = end;
                n += 1;
                window += 1;
            }
            band += 1;
        }
        assert!(end as usize == N_SAMPLES);
        Self { n_long, n, ends }
    }

    /// The ends, in order; the last is 576.
    pub(super) fn ends(&self) -> &[u16] {
        self.ends.get(..self.n).unwrap_or_default()
    }

    /// Number, first sample and end of each band.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (usize, usize, usize)> {
        let start = |i: usize| i.checked_sub(1).and_then(|i| self.ends.get(i)).map_or(0, |&x| x);
        let ends = self.ends().iter().enumerate();
        ends.map(move |(i, &end)| (i, usize::from(start(i)), usize::from(end)))
    }
}

/// The bands of a sampling rate.
#[derive(Debug)]
pub(super) struct Rate {
    pub(super) long: Bands,
    pub(super) short: Bands,
    /// Long ones in the lowest subbands, the rest short.
    pub(super) mixed: Bands,
    /// Subbands that are long in a mixed block.
    pub(super) n_mixed_subbands: usize,
    /// Where the second region of large values begins where the block is not a plain long one:
    /// for short blocks, and for those next to them.
    pub(super) second_region: [usize; 2],
}

impl Rate {
    /// Mixed blocks are long below the short band of number 3, which is 36 samples, but 72 at 8
    /// kHz.
    const fn of(widths: &Widths, is_mpeg1: bool) -> Self {
        let mixed = Bands::of(widths, if is_mpeg1 { 8 } else { 6 }, 3);
        let n_mixed = mixed.ends[mixed.n_long - 1] as usize;
        let long = Bands::of(widths, 22, 13);
        Self {
            short: Bands::of(widths, 0, 0),
            second_region: [n_mixed, long.ends[7] as usize],
            long,
            mixed,
            n_mixed_subbands: n_mixed / 18,
        }
    }

    /// The bands for a stream's headers.
    pub(super) fn find(header: &Header) -> &'static Self {
        static RATES: [Rate; 7] = [
            Rate::of(&MPEG1_44100, true),
            Rate::of(&MPEG1_48000, true),
            Rate::of(&MPEG1_32000, true),
            Rate::of(&MPEG2_22050, false),
            Rate::of(&MPEG2_24000, false),
            Rate::of(&MPEG2_16000, false),
            Rate::of(&MPEG25_8000, false),
        ];
        let index: usize = match (header.version, header.rate_hz) {
            (Version::Mpeg1, 44_100) => 0,
            (Version::Mpeg1, 48_000) => 1,
            (Version::Mpeg1, _) => 2,
            (Version::Mpeg2, 22_050) => 3,
            (Version::Mpeg2, 24_000) => 4,
            (Version::Mpeg25, 8_000) => 6,
            _ => 5,
        };
        &RATES[index]
    }
}
