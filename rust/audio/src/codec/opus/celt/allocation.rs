//! How the bits of a frame are shared among bands, RFC 6716 section 4.3.3. In eighths of a bit.

// Bands have a fixed number, which the types of the arrays say.
#![allow(clippy::indexing_slicing)]

use super::{
    energy::MAX_FINE_BITS,
    tables::{ALLOCATION, CAPS, EDGES, LOG_WIDTH, N_BANDS, width},
};
use crate::codec::opus::range_decoder::{EIGHTHS, RangeDecoder};

/// A bit.
pub(super) const BIT: i32 = 1 << EIGHTHS;

/// What a band gets.
pub(super) type Bits = [i32; N_BANDS];

/// `log2` of the numbers from 1 on, in eighths, rounded up: what a choice among so many costs.
const LOGS: [i32; 24] =
    [0, 8, 13, 16, 19, 21, 23, 24, 26, 27, 28, 29, 30, 31, 32, 32, 33, 34, 34, 35, 36, 36, 37, 37];

/// What the frame says before its bits are shared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// The frame has `120 << log_len` samples.
    pub(super) log_len: usize,
    pub(super) n_channels: usize,
    /// The first band that is coded.
    pub(super) start: usize,
    /// The first band that is not coded.
    pub(super) end: usize,
}

impl Shape {
    /// Coefficients of a band in one channel.
    pub(super) fn width(self, band: usize) -> i32 {
        (width(band) as i32) << self.log_len
    }

    fn channels(self) -> i32 {
        self.n_channels as i32
    }

    /// The most that bands can use.
    pub(super) fn caps(self) -> Bits {
        let caps = &CAPS[self.log_len][self.n_channels - 1];
        std::array::from_fn(|band| {
            ((i32::from(caps[band]) + 64) * self.channels() * self.width(band)) >> 2
        })
    }
}

/// Who gets what.
#[derive(Clone, Debug)]
pub(super) struct Allocation {
    /// For the shape of each band.
    pub(super) shape: Bits,
    /// Whole bits for the energy of each band and channel.
    pub(super) fine: Bits,
    /// Whether the band's energy is refined later than others' by what is left over.
    pub(super) is_late: [bool; N_BANDS],
    /// The first band without a shape.
    pub(super) n_coded: usize,
    /// The first band in which both channels have one shape.
    pub(super) intensity: usize,
    /// Whether the channels below that have shapes of their own.
    pub(super) is_dual: bool,
    /// What the bands left over.
    pub(super) balance: i32,
}

/// Reads how much each band gets beyond its share.
pub(super) fn boosts(code: &mut RangeDecoder<'_>, shape: Shape, caps: &Bits) -> (Bits, i32) {
    let mut boosts = [0; N_BANDS];
    let mut total = code.n_total() << EIGHTHS;
    let mut first_cost = 6;
    for band in shape.start..shape.end {
        let width = shape.channels() * shape.width(band);
        let step = (width * BIT).min(width.max(6 * BIT));
        let mut cost = first_cost;
        while code.tell_eighths() + cost * BIT < total && boosts[band] < caps[band] {
            if !code.bit(cost as u32) {
                break;
            }
            boosts[band] += step;
            total -= step;
            cost = 1;
        }
        if boosts[band] > 0 {
            first_cost = (first_cost - 1).max(2);
        }
    }
    (boosts, total)
}

/// What is reserved for flags that are yet to come.
struct Reserved {
    skip: i32,
    intensity: i32,
    dual: i32,
}

/// Shares `total` among the bands.
pub(super) fn allocate(
    code: &mut RangeDecoder<'_>,
    shape: Shape,
    trim: i32,
    (boosts, caps): (&Bits, &Bits),
    total: i32,
) -> Allocation {
    let mut total = total.max(0);
    let mut reserve = |wanted: i32| {
        let got = if total >= wanted { wanted } else { 0 };
        total -= got;
        got
    };
    let skip = reserve(BIT);
    let is_stereo = shape.n_channels == 2;
    let intensity = if is_stereo { reserve(LOGS[shape.end - shape.start]) } else { 0 };
    let dual = if intensity > 0 { reserve(BIT) } else { 0 };
    let reserved = Reserved { skip, intensity, dual };
    Sharing::new(shape, trim, boosts, caps, total).finish(code, total, reserved)
}

/// The shares before and after it is known which bands are skipped.
struct Sharing<'a> {
    shape: Shape,
    caps: &'a Bits,
    /// Below this a band gets no shape.
    least: Bits,
    /// What each band has so far.
    bits: Bits,
    /// The last band with a boost, which is not skipped.
    boosted: usize,
}

impl<'a> Sharing<'a> {
    fn new(shape: Shape, trim: i32, boosts: &Bits, caps: &'a Bits, total: i32) -> Self {
        let Shape { log_len, start, end, .. } = shape;
        let channels = shape.channels();
        let least: Bits =
            std::array::from_fn(|b| (channels * BIT).max((3 * shape.width(b) * BIT) >> 4));
        let tilts: Bits = std::array::from_fn(|band| {
            let above = end as i32 - band as i32 - 1;
            let slope = trim - 5 - log_len as i32;
            let tilt = (channels * shape.width(band) * slope * above * BIT) >> 6;
            // Bands of one coefficient need only a sign.
            if shape.width(band) == 1 { tilt - channels * BIT } else { tilt }
        });
        let plain = |quality: usize, band: usize| {
            let Some(row) = ALLOCATION.get(quality) else { return caps[band] };
            (channels * width(band) as i32 * i32::from(row[band])) << log_len >> 2
        };
        let tilted = |quality: usize, band: usize| {
            let bits = plain(quality, band);
            if bits > 0 { (bits + tilts[band]).max(0) } else { bits }
        };
        let mut sharing = Self { shape, caps, least, bits: [0; N_BANDS], boosted: 0 };
        // The best quality that can be paid, by halving, and then how far it is to the next.
        let (mut low, mut high) = (1, ALLOCATION.len() - 1);
        while low <= high {
            let middle = usize::midpoint(low, high);
            if sharing.sum(|band| tilted(middle, band) + boosts[band]) > total {
                high = middle - 1;
            } else {
                low = middle + 1;
            }
        }
        let quality = low - 1;
        let floor: Bits = std::array::from_fn(|band| {
            tilted(quality, band) + if quality > 0 { boosts[band] } else { 0 }
        });
        let step: Bits = std::array::from_fn(|band| {
            (tilted(quality + 1, band) + boosts[band] - floor[band]).max(0)
        });
        let (mut low, mut high) = (0, 64);
        for _ in 0..6 {
            let middle = (low + high) >> 1;
            if sharing.sum(|band| floor[band] + ((middle * step[band]) >> 6)) > total {
                high = middle;
            } else {
                low = middle;
            }
        }
        sharing.boosted = (start..end).rev().find(|&band| boosts[band] > 0).unwrap_or(start);
        let mut is_reached = false;
        for band in (start..end).rev() {
            let bits = floor[band] + ((low * step[band]) >> 6);
            sharing.bits[band] = sharing.granted(band, bits, &mut is_reached);
        }
        sharing
    }

    /// What a band gets of what it would: nothing much as long as no band above it has enough.
    fn granted(&self, band: usize, bits: i32, is_reached: &mut bool) -> i32 {
        let sign = self.shape.channels() * BIT;
        *is_reached |= bits >= self.least[band];
        let bits = if *is_reached {
            bits
        } else if bits >= sign {
            sign
        } else {
            0
        };
        bits.min(self.caps[band])
    }

    fn sum(&self, bits: impl Fn(usize) -> i32) -> i32 {
        let mut is_reached = false;
        let granted = |band| self.granted(band, bits(band), &mut is_reached);
        (self.shape.start..self.shape.end).rev().map(granted).sum()
    }

    fn finish(
        mut self,
        code: &mut RangeDecoder<'_>,
        mut total: i32,
        mut reserved: Reserved,
    ) -> Allocation {
        let sign = self.shape.channels() * BIT;
        let start = self.shape.start;
        let first = EDGES[start] as i32;
        let mut sum: i32 = self.bits.iter().sum();
        let mut n_coded = self.shape.end;
        // From above, bands are skipped until one is said to stay.
        loop {
            let band = n_coded - 1;
            if band <= self.boosted {
                total += reserved.skip;
                break;
            }
            let below = EDGES[band] as i32 - first;
            let all = EDGES[n_coded] as i32 - first;
            let (each, rest) = ((total - sum) / all, (total - sum) % all);
            let extra = each * (all - below) + (rest - below).max(0);
            let mut bits = self.bits[band] + extra;
            if bits >= self.least[band].max(sign + BIT) {
                if code.bit(1) {
                    break;
                }
                sum += BIT;
                bits -= BIT;
            }
            sum -= self.bits[band] + reserved.intensity;
            if reserved.intensity > 0 {
                reserved.intensity = LOGS[band - start];
            }
            self.bits[band] = if bits >= sign { sign } else { 0 };
            sum += reserved.intensity + self.bits[band];
            n_coded -= 1;
        }
        let intensity = if reserved.intensity > 0 {
            start + code.uniform((n_coded - start) as u32 + 1) as usize
        } else {
            0
        };
        if intensity <= start {
            total += reserved.dual;
        }
        let is_dual = intensity > start && reserved.dual > 0 && code.bit(1);
        // What is left goes to all coefficients alike, and the rest to the lowest.
        let all = EDGES[n_coded] as i32 - first;
        let (each, mut rest) = ((total - sum) / all, (total - sum) % all);
        for band in start..n_coded {
            let width = width(band) as i32;
            let more = rest.min(width);
            self.bits[band] += each * width + more;
            rest -= more;
        }
        self.split(n_coded, intensity, is_dual)
    }

    /// Splits what each band has between its energy and its shape.
    fn split(self, n_coded: usize, intensity: usize, is_dual: bool) -> Allocation {
        let Self { shape, caps, bits, .. } = self;
        let (channels, log_channels) = (shape.channels(), shape.n_channels as u32 - 1);
        let mut to = Allocation {
            shape: [0; N_BANDS],
            fine: [0; N_BANDS],
            is_late: [false; N_BANDS],
            n_coded,
            intensity,
            is_dual,
            balance: 0,
        };
        let mut balance = 0;
        for band in shape.start..n_coded {
            let n = shape.width(band);
            let all = bits[band] + balance;
            let mut excess;
            let mut fine = 0;
            if n > 1 {
                excess = (all - caps[band]).max(0);
                let mut left = all - excess;
                let is_joint = channels == 2 && n > 2 && !is_dual && band < intensity;
                let n_free = channels * n + i32::from(is_joint);
                let logs = n_free * (LOG_WIDTH[band] + ((shape.log_len as i32) << EIGHTHS));
                let mut offset = (logs >> 1) - n_free * 21;
                if n == 2 {
                    offset += (n_free * BIT) >> 2;
                }
                // Few bits are worth more in the energy.
                if left + offset < n_free * 2 * BIT {
                    offset += logs >> 2;
                } else if left + offset < n_free * 3 * BIT {
                    offset += logs >> 3;
                }
                fine = ((left + offset + n_free * BIT / 2).max(0) / n_free) >> EIGHTHS;
                if channels * fine > left >> EIGHTHS {
                    fine = left >> log_channels >> EIGHTHS;
                }
                fine = fine.min(MAX_FINE_BITS);
                to.is_late[band] = fine * n_free * BIT >= left + offset;
                left -= channels * fine * BIT;
                to.shape[band] = left;
            } else {
                excess = (all - channels * BIT).max(0);
                to.shape[band] = all - excess;
                to.is_late[band] = true;
            }
            if excess > 0 {
                let more = (excess >> (log_channels + EIGHTHS)).min(MAX_FINE_BITS - fine);
                fine += more;
                let used = more * channels * BIT;
                to.is_late[band] = used >= excess - balance;
                excess -= used;
            }
            to.fine[band] = fine;
            balance = excess;
        }
        to.balance = balance;
        for (band, bits) in bits.iter().enumerate().take(shape.end).skip(n_coded) {
            to.fine[band] = bits >> log_channels >> EIGHTHS;
            to.is_late[band] = to.fine[band] < 1;
        }
        to
    }
}
