//! Gaps between blocks, by their times.
//!
//! A block that comes later than what came before it lasts follows one that is missing, or has a
//! false time: some muxers give several short blocks one time, and damage changes any. After a gap all
//! later blocks are late by as much; a false time is that of a block, or of a cluster.

use crate::{error::Reason, memory};

/// A block of the track.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timed {
    /// In the timescale of the segment.
    pub(super) time: i64,
    /// Frames of the blocks before it.
    pub(super) before: u64,
    pub(super) own: u64,
}

/// How times are counted, and the length that the segment claims.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    pub(super) scale_ns: u64,
    pub(super) rate_hz: u32,
    pub(super) duration_ns: Option<u64>,
    /// What is cut off at the ends, which that length may be without.
    pub(super) trimmed_ns: u64,
}

const SECOND_NS: i128 = 1_000_000_000;

/// The longest gap that the last time alone can tell of, without a length to compare it with.
const LONGEST_LAST_NS: i128 = 5 * SECOND_NS;

/// The most packets that a gap between blocks takes for lost. Longer ones are pauses.
const MOST_LOST: i128 = 10;

/// What times are rounded by, beside the timescale of the segment.
const ROUNDING_NS: i128 = 3_000_000;

/// What times show between blocks.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Gaps {
    /// Frames before each gap, and how many are lost in it.
    pub(super) places: Vec<(u64, u64)>,
    /// Whether all are as long as a few packets, as where packets are lost. Clocks that drift or step and
    /// recorders that pause leave others.
    pub(super) are_packets: bool,
}

impl Clock {
    /// The gaps between blocks. `n_frames` are there.
    ///
    /// A gap is as long as the least lateness of all blocks behind it says, so that a false time makes
    /// none. One that goes beyond the claimed length is none. The last time has none behind it that
    /// could confirm a gap, so the claimed length must have room for that.
    pub(super) fn gaps(&self, blocks: &[Timed], n_frames: u64) -> Result<Gaps, Reason> {
        let rate_hz = i128::from(self.rate_hz.max(1));
        let ns = |frames: u64| i128::from(frames) * SECOND_NS / rate_hz;
        let scale_ns = i128::from(self.scale_ns);
        // The first packet of Vorbis has no frames, and its time is that of the second.
        let first = blocks.iter().rev().find(|block| block.before == 0);
        let first_ns = first.map_or(0, |block| i128::from(block.time) * scale_ns);
        let late_ns =
            |block: &Timed| i128::from(block.time) * scale_ns - first_ns - ns(block.before);
        let missing_ns = match self.duration_ns {
            Some(duration) if duration > 0 => Some(i128::from(duration) - ns(n_frames)),
            _ => None,
        };
        // As much as is missing of the length, and some for rounding and the codec's delay.
        let most_ns = missing_ns.map_or(i128::MAX, |missing| missing + SECOND_NS / 2);
        let room_ns = missing_ns.map(|missing| {
            let trimmed_ns = i128::from(self.trimmed_ns).min(SECOND_NS / 2);
            missing + trimmed_ns + 2 * scale_ns + ROUNDING_NS
        });
        let room_ns = room_ns.unwrap_or(LONGEST_LAST_NS);
        let last_time = blocks.last().map(|block| block.time);
        let mut gaps = Vec::new();
        let mut least = Vec::new();
        memory::reserve(&mut least, blocks.len())?;
        let mut found_ns = i128::MAX;
        for block in blocks.iter().rev() {
            let late = late_ns(block);
            let is_early = late < -SECOND_NS; // that time is false
            let is_last = Some(block.time) == last_time;
            let is_false = late > most_ns || is_last && missing_ns.is_none() && late > room_ns;
            if !is_early && !is_false {
                found_ns = found_ns.min(late);
            }
            least.push(if is_last && late > room_ns { i128::MAX } else { found_ns });
        }
        let (mut lost_ns, mut are_packets) = (0, true);
        for (block, &late) in blocks.iter().zip(least.iter().rev()) {
            let slack = 2 * scale_ns + ns(block.own) / 2 + ROUNDING_NS;
            let own = i128::from(block.own.max(1));
            if late == i128::MAX || late <= lost_ns + slack {
                continue;
            }
            // Blocks have one length as a rule, and times are rounded: whole blocks are missing.
            let raw = (late - lost_ns) * rate_hz / SECOND_NS;
            let lost = (raw + own / 2) / own * own;
            let is_near = ns((raw - lost).unsigned_abs() as u64) <= ROUNDING_NS.max(2 * scale_ns);
            are_packets &= is_near && lost <= MOST_LOST * own;
            lost_ns += lost * SECOND_NS / rate_hz;
            memory::push(&mut gaps, (block.before, u64::try_from(lost).unwrap_or(u64::MAX)))?;
        }
        // If each block is late, their clock is wrong.
        are_packets &= gaps.len() < 4 || gaps.len() + 2 < blocks.len();
        Ok(Gaps { places: gaps, are_packets })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of 20 ms at 1 kHz with these times.
    fn gaps(times: &[i64], duration_ms: Option<u64>) -> Vec<(u64, u64)> {
        let blocks: Vec<_> = times
            .iter()
            .zip(0..)
            .map(|(&time, i)| Timed { time, before: 20 * i, own: 20 })
            .collect();
        let duration_ns = duration_ms.map(|ms| ms * 1_000_000);
        let clock = Clock { scale_ns: 1_000_000, rate_hz: 1000, duration_ns, trimmed_ns: 0 };
        clock.gaps(&blocks, 20 * times.len() as u64).unwrap().places
    }

    #[test]
    fn what_all_later_blocks_confirm_is_a_gap() {
        for duration in [None, Some(220)] {
            assert_eq!(gaps(&[0, 20, 40, 60], duration), []);
            assert_eq!(gaps(&[0, 20, 100, 120], duration), [(40, 60)]);
            assert_eq!(gaps(&[0, 60, 80, 140, 160], duration), [(20, 40), (60, 40)]);
            // The last one has nobody to confirm it.
            assert_eq!(gaps(&[0, 20, 100], duration), [(40, 60)]);
        }
        assert_eq!(gaps(&[1_000, 1_020, 1_100, 1_120], None), [(40, 60)]);
    }

    #[test]
    fn what_comes_right_again_is_none() {
        assert_eq!(gaps(&[0, 60, 60, 60, 80, 100, 120], None), []);
        assert_eq!(gaps(&[0, 20, 9_000_000, 60, 80], None), []);
        // A false time of a whole cluster, and a false early one behind a gap.
        assert_eq!(gaps(&[0, 20, 9_040, 9_060, 9_080, 100, 120], None), []);
        assert_eq!(gaps(&[5_000, 5_020, 5_100, 0, 5_140], None), [(40, 60)]);
    }

    #[test]
    fn a_last_time_alone_tells_of_what_the_length_has_room_for() {
        assert_eq!(gaps(&[0, 50, 50, 100, 100], Some(100)), []);
        assert_eq!(gaps(&[0, 20, 40, 100], Some(120)), [(60, 40)]);
        assert_eq!(gaps(&[0, 20, 40, 100], Some(80)), []);
    }

    #[test]
    fn a_last_time_is_bounded() {
        assert_eq!(gaps(&[0, 20, 9_000_000], None), []);
        assert_eq!(gaps(&[0, 20, 9_000_000, 9_000_020], Some(80)), []);
        assert_eq!(gaps(&[0, 20, 640], Some(60)), []);
        assert_eq!(gaps(&[0, 20, 640], Some(660)), [(40, 600)]);
    }
}
