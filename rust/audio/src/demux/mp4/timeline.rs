//! Which of the decoded frames are meant to be heard: edit lists and iTunes's tag.

use crate::{
    bytes::{be_u32, be_u64, from, u8_at},
    error::Reason,
};

/// The one part of the media that an edit list plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edit {
    /// Where it begins, in the track's timescale.
    pub(super) start: u64,
    /// How long it is, in the movie's timescale; 0 is to the end.
    pub(super) duration: u64,
    pub(super) movie_timescale: u32,
}

impl Edit {
    /// All of the media from `start` on.
    pub(super) fn from_start(start: u64) -> Self {
        Self { start, duration: 0, movie_timescale: 0 }
    }

    /// The edit of an `elst` box, whose media count in `timescale`. Empty edits delay the track against others
    /// and are ignored. Parts that follow each other are one; others are refused: they are not one stretch
    /// of the media.
    pub(super) fn read(
        elst: &[u8],
        movie_timescale: u32,
        timescale: u32,
    ) -> Result<Option<Self>, Reason> {
        let is_wide = u8_at(elst, 0) == Some(1);
        let mut found: Option<Self> = None;
        // As many entries as the box has room for, as players have it: their count may be false.
        for entry in from(elst, 8).chunks_exact(if is_wide { 20 } else { 12 }) {
            let fields = if is_wide {
                be_u64(entry, 0).zip(be_u64(entry, 8).map(|start| start as i64))
            } else {
                let start = be_u32(entry, 4).map(|start| i64::from(start as i32));
                be_u32(entry, 0).map(u64::from).zip(start)
            };
            let Some((duration, start)) = fields else { break };
            let Ok(start) = u64::try_from(start) else { continue };
            if let Some(first) = &mut found {
                // The nearest tick of the movie is all that an edit can say.
                let ratio = f64::from(timescale) / f64::from(movie_timescale.max(1));
                let end = first.start as f64 + first.duration as f64 * ratio;
                if first.duration > 0 && (end - start as f64).abs() <= ratio.max(1.0) {
                    let is_to_end = duration == 0;
                    first.duration =
                        if is_to_end { 0 } else { first.duration.saturating_add(duration) };
                    continue;
                }
                let name = "MP4 whose edit list has several parts".to_owned();
                return Err(Reason::UnsupportedCodec(name));
            }
            found = Some(Self { start, duration, movie_timescale });
        }
        Ok(found)
    }
}

/// The `iTunSMPB` tag: encoder delay, padding and length, in frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gapless {
    pub(super) delay: u64,
    pub(super) n_frames: u64,
}

impl Gapless {
    /// Reads ` 00000000 00000840 000001CA 00000000003F31F6 ...`.
    pub(super) fn read(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let mut words = text.split_ascii_whitespace().map(|word| u64::from_str_radix(word, 16));
        let (_, delay) = (words.next()?.ok()?, words.next()?.ok()?);
        let (_, n_frames) = (words.next()?.ok()?, words.next()?.ok()?);
        Some(Self { delay, n_frames })
    }
}

/// The coded frames of a track and what its tables say of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeline {
    pub(super) rate_hz: u32,
    pub(super) timescale: u32,
    /// Frames that decoding everything gives.
    pub(super) n_coded: u64,
    pub(super) frame_len: u32,
    /// The sum of the packets' durations, in the track's timescale; 0 if it is not to be believed.
    pub(super) duration: u64,
}

impl Timeline {
    fn frames(&self, time: u64, timescale: u32) -> u64 {
        let timescale = u128::from(timescale.max(1));
        let frames = (u128::from(time) * u128::from(self.rate_hz) + timescale / 2) / timescale;
        u64::try_from(frames).unwrap_or(u64::MAX)
    }

    /// The frames that the tables or the header promise, if that is more than packets can give.
    pub(super) fn missing(&self, header_duration: u64) -> Option<u64> {
        let promised = self.frames(self.duration.max(header_duration), self.timescale);
        // A timescale that is coarser than a frame rounds.
        let slack = u64::from(self.frame_len) + u64::from(self.rate_hz / self.timescale.max(1));
        (promised > self.n_coded.saturating_add(slack)).then_some(promised)
    }

    /// Frames before the first that is heard, and how many are heard.
    ///
    /// The sum of the durations ends with the last frame that is meant, exactly. An edit counts in
    /// the movie's timescale, often milliseconds, so its end is taken only where it differs by
    /// more than that can resolve. iTunes's tag is exact where it fits.
    pub(super) fn playable(&self, edit: Option<&Edit>, gapless: Option<&Gapless>) -> (u64, u64) {
        let media = self.frames(self.duration, self.timescale);
        let is_sum_right =
            media <= self.n_coded && media.saturating_add(u64::from(self.frame_len)) > self.n_coded;
        let media = if is_sum_right { media } else { self.n_coded };
        let start = edit.map(|edit| self.frames(edit.start, self.timescale));
        if let Some(gapless) = gapless
            && start.is_none_or(|start| start == gapless.delay)
            && gapless.n_frames > 0
            && gapless.delay.saturating_add(gapless.n_frames) <= self.n_coded
        {
            return (gapless.delay, gapless.n_frames);
        }
        let start = start.unwrap_or(0).min(media);
        let end = edit.map_or(media, |edit| {
            let tick = match edit.movie_timescale {
                0 => return media,
                scale if scale % self.rate_hz.max(1) == 0 => 0,
                scale => u64::from(self.rate_hz / scale) + 1,
            };
            let n_frames = self.frames(edit.duration, edit.movie_timescale);
            let end = start.saturating_add(n_frames);
            // An edit that plays nothing is false.
            if n_frames == 0 || end.saturating_add(tick) >= media { media } else { end }
        });
        (start, end - start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMELINE: Timeline = Timeline {
        rate_hz: 44_100,
        timescale: 44_100,
        n_coded: 10_240,
        frame_len: 1024,
        duration: 0,
    };

    fn edit(start: u64, duration: u64, movie_timescale: u32) -> Edit {
        Edit { start, duration, movie_timescale }
    }

    #[test]
    fn edits_and_tags_tell_what_is_heard() {
        let whole = Timeline { duration: 10_240, ..TIMELINE };
        assert_eq!(whole.playable(None, None), (0, 10_240));
        let short = Timeline { duration: 10_000, ..TIMELINE };
        assert_eq!(short.playable(None, None), (0, 10_000));
        // 8976 frames are 203.5 ms: within its resolution the edit ends where the media does.
        assert_eq!(short.playable(Some(&edit(1024, 203, 1000)), None), (1024, 8976));
        assert_eq!(short.playable(Some(&edit(1024, 100, 1000)), None), (1024, 4410));
        assert_eq!(whole.playable(Some(&edit(2112, 8000, 44_100)), None), (2112, 8000));
        assert_eq!(short.playable(Some(&edit(1024, 0, 1000)), None), (1024, 8976));
        assert_eq!(short.playable(Some(&edit(u64::MAX, 9, 1000)), None), (10_000, 0));
        assert_eq!(short.playable(Some(&edit(1024, 203, u32::MAX)), None), (1024, 8976));
        let tag = Gapless { delay: 2112, n_frames: 8001 };
        assert_eq!(whole.playable(None, Some(&tag)), (2112, 8001));
        assert_eq!(whole.playable(Some(&edit(2112, 8000, 600)), Some(&tag)), (2112, 8001));
        let lie = Gapless { n_frames: 9000, ..tag };
        assert_eq!(whole.playable(None, Some(&lie)), (0, 10_240));
        // A sum that has nothing to do with the packets.
        let odd = Timeline { duration: 99, ..TIMELINE };
        assert_eq!(odd.playable(None, None), (0, 10_240));
    }

    #[test]
    fn promises_are_compared_with_packets() {
        assert_eq!(Timeline { duration: 11_000, ..TIMELINE }.missing(0), None);
        assert_eq!(Timeline { duration: 12_000, ..TIMELINE }.missing(0), Some(12_000));
        assert_eq!(TIMELINE.missing(20_000), Some(20_000));
    }

    #[test]
    fn tags_and_lists_are_read() {
        let tag = b" 00000000 00000840 000001CA 00000000003F31F6 00000000 00000000";
        assert_eq!(Gapless::read(tag), Some(Gapless { delay: 0x840, n_frames: 0x3F_31F6 }));
        assert_eq!(Gapless::read(b" 00000000 0000"), None);
        assert_eq!(Gapless::read(&[0xFF; 40]), None);
        let entry = |duration: u32, start: i32| {
            [&duration.to_be_bytes()[..], &start.to_be_bytes(), &[0, 1, 0, 0]].concat()
        };
        let list = |entries: &[Vec<u8>]| {
            [&[0; 4][..], &(entries.len() as u32).to_be_bytes(), &entries.concat()].concat()
        };
        let elst = list(&[entry(50, -1), entry(900, 1024)]);
        assert_eq!(Edit::read(&elst, 1000, 48_000), Ok(Some(edit(1024, 900, 1000))));
        assert_eq!(Edit::read(&list(&[]), 1000, 48_000), Ok(None));
        let two = list(&[entry(50, 0), entry(900, 1024)]);
        assert!(matches!(Edit::read(&two, 1000, 48_000), Err(Reason::UnsupportedCodec(_))));
        let mut lying = elst;
        lying[4..8].copy_from_slice(&[0xFF; 4]);
        assert!(Edit::read(&lying, 1000, 48_000).is_ok());
    }
}
