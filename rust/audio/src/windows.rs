//! Windows of a recording, and crops around events in it: where they begin, in frames.

use crate::error::Reason;

/// Seconds as frames at this rate, rounded to the nearest, at least one.
pub(crate) fn frames_of(seconds: f64, rate_hz: u32) -> u64 {
    ((seconds * f64::from(rate_hz)).round() as u64).max(1)
}

/// What happens at the end of a recording that windows do not divide evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// A last window that reaches over the end, and is padded.
    Pad,
    /// No window: the end is left out.
    Drop,
    /// A last window that ends where the recording ends.
    Back,
}

impl Tail {
    /// All of them, by their names in Python.
    pub const ALL: [(&'static str, Self); 3] =
        [("pad", Self::Pad), ("drop", Self::Drop), ("back", Self::Back)];
}

/// Windows of one length, one every so many seconds. Both are rounded to whole frames.
///
/// ```
/// use gristmill_audio::{Tail, Windows};
/// let windows = Windows { seconds: 5.0, hop_s: 2.5, tail: Tail::Drop };
/// assert_eq!(windows.count(60 * 32_000, 32_000), 23); // of a minute at 32 kHz
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Windows {
    /// Length of each in seconds, above 0.
    pub seconds: f64,
    /// Seconds from the start of one to the start of the next, above 0.
    pub hop_s: f64,
    /// What happens at the end.
    pub tail: Tail,
}

impl Windows {
    /// The number of windows of a recording of `total` frames at this rate: as many as it takes to
    /// reach its end, but none that begins there. At least one, except with [`Tail::Drop`].
    pub fn count(&self, total: u64, rate_hz: u32) -> u64 {
        let (len, hop) = (frames_of(self.seconds, rate_hz), frames_of(self.hop_s, rate_hz));
        match self.tail {
            Tail::Drop => total.checked_sub(len).map_or(0, |spare| spare / hop + 1),
            Tail::Pad | Tail::Back => {
                let reaching = total.saturating_sub(len).div_ceil(hop) + 1;
                reaching.min(total.div_ceil(hop)).max(1)
            }
        }
    }

    /// The first frame of the window of this number.
    pub(super) fn start(&self, number: u64, total: u64, rate_hz: u32) -> u64 {
        let start = number.saturating_mul(frames_of(self.hop_s, rate_hz));
        match self.tail {
            Tail::Pad | Tail::Drop => start.min(total),
            Tail::Back => start.min(total.saturating_sub(frames_of(self.seconds, rate_hz))),
        }
    }
}

/// Where in its crop an event is placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Anywhere: every start of the crop is equally likely.
    Random,
    /// In the middle.
    Center,
    /// At the start.
    Start,
}

impl Place {
    /// All of them, by their names in Python.
    pub const ALL: [(&'static str, Self); 3] =
        [("random", Self::Random), ("center", Self::Center), ("start", Self::Start)];
}

/// A crop around an event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EventCrop {
    /// Length in seconds; `None` for that of the event.
    pub seconds: Option<f64>,
    /// Where the event is placed in it.
    pub place: Place,
    /// Start of the event in seconds, at least 0.
    pub start_s: f64,
    /// Its end, not before its start.
    pub end_s: f64,
}

impl EventCrop {
    /// The first frame of the crop, and its length, in a recording of `total` frames.
    ///
    /// The event ends with the recording at the latest. A crop that is longer holds the whole event,
    /// a shorter one is within it, and no crop reaches over an end of the recording that it could
    /// avoid. `draw` decides among the starts that are left as it does for a random crop.
    pub(super) fn place(&self, total: u64, rate_hz: u32, draw: u64) -> Result<(u64, u64), Reason> {
        let Self { start_s, end_s, .. } = *self;
        let rate = f64::from(rate_hz);
        if start_s * rate >= total as f64 {
            let ends_s = total as f64 / rate;
            return Err(Reason::Event(format!(
                "the event begins at {start_s} s, and the recording ends at {ends_s} s"
            )));
        }
        let start = ((start_s * rate).round() as u64).min(total.saturating_sub(1));
        let end = ((end_s * rate).round() as u64).min(total);
        // The frames that have a part of the event, where the nearest ones may leave out its edges.
        let is_late = start as f64 / rate > start_s;
        let exact_start = start.saturating_sub(is_late.into());
        let is_cut = end as f64 / rate < end_s || end <= exact_start;
        let exact_end = if is_cut && end < total { end + 1 } else { end };
        let Some(seconds) = self.seconds else {
            if end_s <= start_s {
                return Err(Reason::Event(format!(
                    "the event at {start_s} s has no length, and the crop is to have that of the \
                     event; give EventCrop(seconds=...)"
                )));
            }
            return Ok(if end > start { (start, end - start) } else { (exact_start, 1) });
        };
        let (end, len) = (end.max(start), frames_of(seconds, rate_hz));
        let last = total.saturating_sub(len);
        let latest_end = end.saturating_sub(len);
        let low = start.min(latest_end).min(last);
        let high = start.max(latest_end).min(last);
        let first = match self.place {
            Place::Random => low + ((u128::from(draw) * u128::from(high - low + 1)) >> 64) as u64,
            Place::Start => start.min(last),
            Place::Center => ((start + end).saturating_sub(len) / 2).min(last),
        };
        let first = if exact_end.saturating_sub(exact_start) <= len {
            first.clamp(exact_end.saturating_sub(len), exact_start).min(last)
        } else {
            first
        };
        Ok((first, len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u32 = 10;

    fn starts(tail: Tail, seconds: f64, hop_s: f64, total: u64) -> Vec<u64> {
        let windows = Windows { seconds, hop_s, tail };
        let n = windows.count(total, RATE);
        (0..n).map(|k| windows.start(k, total, RATE)).collect()
    }

    #[test]
    fn windows_reach_the_end_once() {
        assert_eq!(starts(Tail::Pad, 5.0, 5.0, 100), [0, 50]);
        assert_eq!(starts(Tail::Pad, 5.0, 5.0, 101), [0, 50, 100]);
        assert_eq!(starts(Tail::Back, 5.0, 5.0, 101), [0, 50, 51]);
        assert_eq!(starts(Tail::Drop, 5.0, 5.0, 101), [0, 50]);
        assert_eq!(starts(Tail::Pad, 5.0, 2.5, 100), [0, 25, 50]);
        assert_eq!(starts(Tail::Pad, 5.0, 2.5, 101), [0, 25, 50, 75]);
        assert_eq!(starts(Tail::Pad, 2.0, 5.0, 130), [0, 50, 100], "with gaps");
        assert_eq!(starts(Tail::Pad, 2.0, 5.0, 120), [0, 50, 100]);
        assert_eq!(starts(Tail::Back, 2.0, 5.0, 110), [0, 50, 90]);
    }

    #[test]
    fn short_recordings_have_one_window_or_none() {
        for total in [0, 1, 49] {
            assert_eq!(starts(Tail::Pad, 5.0, 1.0, total), [0; 1][..], "{total}");
            assert_eq!(starts(Tail::Drop, 5.0, 1.0, total), []);
        }
        assert_eq!(starts(Tail::Back, 5.0, 1.0, 3), [0]);
    }

    fn placed(place: Place, event: (f64, f64), seconds: f64, total: u64) -> Vec<u64> {
        let (start_s, end_s) = event;
        let crop = EventCrop { seconds: Some(seconds), place, start_s, end_s };
        let draws = [0, 1 << 62, 1 << 63, u64::MAX];
        let mut starts = draws.map(|draw| crop.place(total, RATE, draw).unwrap().0).to_vec();
        starts.dedup();
        starts
    }

    #[test]
    fn the_event_lies_in_its_crop_wherever_it_can() {
        assert_eq!(placed(Place::Random, (4.0, 5.0), 2.0, 100), [30, 32, 35, 40]);
        assert_eq!(placed(Place::Center, (4.0, 5.0), 2.0, 100), [35]);
        assert_eq!(placed(Place::Start, (4.0, 5.0), 2.0, 100), [40]);
        // At the ends of the recording.
        assert_eq!(placed(Place::Center, (0.0, 1.0), 2.0, 100), [0]);
        assert_eq!(placed(Place::Start, (9.5, 12.0), 2.0, 100), [80]);
        assert_eq!(placed(Place::Random, (9.0, 10.0), 2.0, 100), [80]);
        // Longer than the crop: the crop is within it.
        assert_eq!(placed(Place::Random, (2.0, 8.0), 2.0, 100), [20, 30, 40, 60]);
        assert_eq!(placed(Place::Center, (2.0, 8.0), 2.0, 100), [40]);
        // A recording shorter than the crop, and an event without a length.
        assert_eq!(placed(Place::Random, (0.2, 0.5), 2.0, 15), [0]);
        assert_eq!(placed(Place::Center, (5.0, 5.0), 2.0, 100), [40]);
    }

    #[test]
    fn an_event_between_two_frames_lies_in_its_crop() {
        for (event, place, starts) in [
            ((3.06, 3.06), Place::Start, vec![30]),
            ((3.04, 3.04), Place::Start, vec![30]),
            ((3.06, 3.07), Place::Start, vec![30]),
            ((3.0, 3.0), Place::Start, vec![30]),
            // Drawn at either end, it would not have the frame of the event.
            ((3.06, 3.06), Place::Random, vec![11, 16, 21, 30]),
            ((3.04, 3.04), Place::Random, vec![11, 15, 20, 30]),
            ((9.96, 9.96), Place::Start, vec![80]),
        ] {
            assert_eq!(placed(place, event, 2.0, 100), starts, "{event:?}");
        }
        let crop =
            |start_s, end_s| EventCrop { seconds: None, place: Place::Start, start_s, end_s };
        assert_eq!(crop(3.06, 3.09).place(100, RATE, 0), Ok((30, 1)));
        assert_eq!(crop(3.06, 3.16).place(100, RATE, 0), Ok((31, 1)));
    }

    #[test]
    fn events_have_a_place_in_the_recording() {
        let crop = |seconds, start_s, end_s| {
            EventCrop { seconds, place: Place::Random, start_s, end_s }.place(100, RATE, 0)
        };
        assert!(crop(Some(1.0), 10.0, 11.0).is_err());
        assert!(crop(Some(1.0), f64::MAX, f64::MAX).is_err());
        assert!(crop(None, 3.0, 3.0).is_err());
        assert_eq!(crop(None, 3.0, 3.01), Ok((30, 1)));
        assert_eq!(crop(None, 9.99, 20.0), Ok((99, 1)));
        assert_eq!(crop(None, 2.0, 4.0), Ok((20, 20)));
    }
}
