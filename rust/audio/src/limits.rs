//! What a recording may ask for before it is refused. All limits of decoding are here.
//!
//! A forged header must cost a typed error and nothing else: no memory is sized by it, and no loop
//! counts up to it.

use std::time::Duration;

use crate::{
    error::{Exceeded, Reason, Remedy},
    info::AudioInfo,
};

/// The lowest and highest rate, in Hz, of files and of targets.
pub const RATES_HZ: std::ops::RangeInclusive<u32> = 1..=768_000;

/// The most channels of a coded file, and the most that may be picked.
pub const MAX_CHANNELS: u16 = 8;

/// The most channels of samples that are stored as they are, and the most that may be asked for.
pub const MAX_PCM_CHANNELS: u16 = 1024;

/// The limits. Each is checked before anything is allocated or decoded, but for the time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Bytes of the encoded recording.
    pub max_bytes: u64,
    /// Frames a second.
    pub max_sample_rate: u32,
    /// Channels, 1 to [`MAX_PCM_CHANNELS`].
    pub max_channels: u16,
    /// Length of the recording in seconds.
    pub max_seconds: f64,
    /// Frames that headers promise, for each byte present. Recordings of at most
    /// [`FREE_FRAMES`] are exempt.
    pub max_frames_per_byte: u64,
    /// Bytes that the wanted part takes as `f32`: its samples, and with another rate those that they
    /// are resampled from. Nothing that is thrown away counts.
    pub max_decoded_bytes: u64,
    /// The memory budget that a pipeline holds a recording against.
    pub budget: Budget,
    /// Time that planning and rendering a row may take, looked at between packets. `None`: any.
    /// What a row comes to must not depend on how busy a machine is, so there is none by default.
    pub max_decode_time: Option<Duration>,
}

/// What a pipeline has for samples that it cannot know of before it sees the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Bytes for all of it.
    pub bytes: u64,
    /// Recordings of one shape that become one batch.
    pub batch_rows: u64,
}

impl Budget {
    /// Nothing is held against it.
    pub const NONE: Self = Self { bytes: u64::MAX, batch_rows: 1 };
}

/// Recordings of so few frames are never suspected of promising too much: 6 minutes of 44.1 kHz.
pub const FREE_FRAMES: u64 = 1 << 24;

impl Limits {
    /// What holds unless something else is asked for.
    ///
    /// A byte holds 1 to 30 frames of recordings as they are, 100 to 300 of digital silence in
    /// FLAC, AAC or Opus, and 50 times as many where 2 % of a file are left. 8 GiB of samples are
    /// 6.2 hours of 48 kHz in stereo as it is, and 3.7 hours where it is resampled to 32 kHz. 25 hours
    /// are the longest day of a recorder; an encoder's padding makes each day longer than 24.
    pub const DEFAULT: Self = Self {
        max_bytes: 1 << 30,
        max_sample_rate: *RATES_HZ.end(),
        max_channels: 64,
        max_seconds: 90_000.0,
        max_frames_per_byte: 1000,
        max_decoded_bytes: 8 << 30,
        budget: Budget::NONE,
        max_decode_time: None,
    };

    /// Checks that the limits make sense by themselves.
    ///
    /// # Errors
    /// What is wrong, as a sentence for the user.
    pub fn validate(&self) -> Result<(), String> {
        if !(1..=MAX_PCM_CHANNELS).contains(&self.max_channels) {
            let most = MAX_PCM_CHANNELS;
            return Err(format!("max_channels is 1 to {most}, not {}", self.max_channels));
        }
        if !RATES_HZ.contains(&self.max_sample_rate) {
            return Err(format!("max_sample_rate is 1 to 768000, not {}", self.max_sample_rate));
        }
        if !(self.max_seconds > 0.0 && self.max_seconds <= Self::LONGEST_S) {
            let most = Self::LONGEST_S;
            return Err(format!("max_seconds is above 0, up to {most}, not {}", self.max_seconds));
        }
        Ok(())
    }

    /// The most that [`Self::max_seconds`] can be: 30 days, so that counts of frames stay far from
    /// overflow.
    pub const LONGEST_S: f64 = 2_592_000.0;

    /// The same for work that keeps no samples.
    pub(super) fn keeping_nothing(self) -> Self {
        Self { max_decoded_bytes: u64::MAX, budget: Budget::NONE, ..self }
    }

    /// The limits that are about a recording itself, and not about what is wanted of it.
    #[must_use]
    pub fn of_file(self) -> Self {
        Self { max_decode_time: None, ..self.keeping_nothing() }
    }

    /// Refuses rows of too many bytes.
    ///
    /// # Errors
    ///
    /// [`Reason::Limit`], with what was found and what is allowed.
    pub fn check_bytes(&self, found: u64) -> Result<(), Reason> {
        let most = self.max_bytes;
        if found > most {
            let what = format!("the recording has {found} bytes, {most} are allowed");
            return Err(Exceeded::adjustable("max_bytes", what));
        }
        Ok(())
    }

    /// Refuses a crop that would take too much memory: `n_out` frames, resampled from `n_window`.
    pub(super) fn check_decoded(
        &self,
        n_out: usize,
        n_window: usize,
        n_channels: u16,
    ) -> Result<(), Reason> {
        let bytes = |n_frames: usize| (n_frames as u64).saturating_mul(4 * u64::from(n_channels));
        let (result, window) = (bytes(n_out), bytes(n_window));
        let (found, most) = (result.saturating_add(window), self.max_decoded_bytes);
        if found > most {
            let what = format!("decoding takes {found} bytes for samples, {most} are allowed");
            return Err(Exceeded::adjustable("max_decoded_bytes", what));
        }
        let Budget { bytes: most, batch_rows } = self.budget;
        let found = result.saturating_mul(batch_rows).saturating_add(window);
        if found > most {
            let of =
                if batch_rows > 1 { format!(" of {batch_rows} such rows") } else { String::new() };
            let what = format!(
                "decoding takes {found} bytes for samples{of}, the memory budget has {most}"
            );
            let (limit, remedy) = ("memory_budget", Remedy::ReadOptions);
            return Err(Reason::Limit(Box::new(Exceeded { limit, what, remedy })));
        }
        Ok(())
    }

    /// Refuses a recording whose headers say too much.
    pub(super) fn check(&self, info: AudioInfo, n_bytes: u64) -> Result<AudioInfo, Reason> {
        if info.rate_hz == 0 {
            return Err(Exceeded::fixed("max_sample_rate", "a rate of 0 Hz"));
        }
        if info.rate_hz > self.max_sample_rate {
            let (found, most) = (info.rate_hz, self.max_sample_rate);
            let what = format!("the rate is {found} Hz, {most} are allowed");
            return Err(Exceeded::rated(what, most));
        }
        if info.n_channels > self.max_channels {
            let (found, most) = (info.n_channels, self.max_channels);
            let what = format!("the recording has {found} channels, {most} are allowed");
            return Err(Exceeded::adjustable("max_channels", what));
        }
        if info.duration_s() > self.max_seconds {
            let most = self.max_seconds;
            let found = seconds_beyond(info.duration_s(), most);
            let what = format!("the recording is {found} s long, {most} are allowed");
            return Err(Exceeded::adjustable("max_seconds", what));
        }
        let found = info.n_frames;
        if found > FREE_FRAMES && found > self.max_frames_per_byte.saturating_mul(n_bytes) {
            let most = self.max_frames_per_byte;
            let what = format!(
                "the headers promise {found} frames in {n_bytes} bytes, {most} for each byte are \
                 allowed"
            );
            return Err(Exceeded::adjustable("max_frames_per_byte", what));
        }
        Ok(info)
    }
}

/// With as few digits after the point as show that it is more than `most`.
fn seconds_beyond(found: f64, most: f64) -> String {
    let mut rounded = (0..9).map(|digits| format!("{found:.digits$}"));
    let is_more = |text: &String| text.parse::<f64>().is_ok_and(|shown| shown > most);
    rounded.find(is_more).unwrap_or_else(|| found.to_string())
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Exceeded {
    fn rated(what: String, most: u32) -> Reason {
        if most == *RATES_HZ.end() {
            Self::fixed("max_sample_rate", what)
        } else {
            Self::adjustable("max_sample_rate", what)
        }
    }

    /// More or fewer channels than any limit can allow.
    pub(super) fn channels(found: impl std::fmt::Display, most: u16) -> Reason {
        let what = format!("{found} channels are not within 1 and {most}");
        Self::fixed("max_channels", what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Codec;

    fn exceeded(info: AudioInfo, limits: Limits, n_bytes: u64) -> Option<&'static str> {
        match limits.check(info, n_bytes) {
            Ok(_) => None,
            Err(Reason::Limit(exceeded)) => Some(exceeded.limit),
            Err(reason) => panic!("{reason}"),
        }
    }

    #[test]
    fn each_limit_holds_at_its_edge_and_not_beyond() {
        let info =
            AudioInfo { codec: Codec::Flac, rate_hz: 48_000, n_channels: 2, n_frames: 48_000 };
        let all = Limits::DEFAULT;
        assert_eq!(exceeded(info, all, 1), None);
        let rate = |max_sample_rate| Limits { max_sample_rate, ..all };
        assert_eq!(exceeded(info, rate(48_000), 1), None);
        assert_eq!(exceeded(info, rate(47_999), 1), Some("max_sample_rate"));
        let one = Limits { max_channels: 1, ..all };
        assert_eq!(exceeded(info, one, 1), Some("max_channels"));
        let short = |max_seconds| Limits { max_seconds, ..all };
        assert_eq!(exceeded(info, short(1.0), 1), None);
        assert_eq!(exceeded(info, short(0.999), 1), Some("max_seconds"));
        let long = AudioInfo { n_frames: FREE_FRAMES + 1, ..info };
        assert_eq!(exceeded(AudioInfo { n_frames: FREE_FRAMES, ..info }, all, 1), None);
        assert_eq!(exceeded(long, all, 1), Some("max_frames_per_byte"));
        assert_eq!(exceeded(long, all, 16_778), None);
        assert_eq!(exceeded(long, all, 16_777), Some("max_frames_per_byte"));
        assert!(all.check_bytes(9).is_ok());
        assert!(Limits { max_bytes: 8, ..all }.check_bytes(9).is_err());
    }

    #[test]
    fn lengths_show_what_is_too_long() {
        assert_eq!(seconds_beyond(0.3, 0.04), "0.3");
        assert_eq!(seconds_beyond(0.041_33, 0.04), "0.041");
        assert_eq!(seconds_beyond(7261.6, 7200.0), "7262");
        assert_eq!(seconds_beyond(30.2, 30.0), "30.2");
        assert_eq!(seconds_beyond(30.0 + 1.0 / 768_000.0, 30.0), "30.000001");
        assert_eq!(
            seconds_beyond(f64::from_bits(1.0_f64.to_bits() + 1), 1.0),
            "1.0000000000000002"
        );
    }

    proptest::proptest! {
        #[test]
        fn a_shown_length_is_beyond_its_limit(most in 1e-6..3e6_f64, over in 1e-12..1e3_f64) {
            let found = most * (1.0 + over);
            proptest::prop_assume!(found > most);
            proptest::prop_assert!(seconds_beyond(found, most).parse::<f64>().unwrap() > most);
        }
    }

    #[test]
    fn what_is_no_limit_is_refused() {
        assert!(Limits::DEFAULT.validate().is_ok());
        for limits in [
            Limits { max_channels: 0, ..Limits::DEFAULT },
            Limits { max_channels: MAX_PCM_CHANNELS + 1, ..Limits::DEFAULT },
            Limits { max_sample_rate: 0, ..Limits::DEFAULT },
            Limits { max_seconds: f64::NAN, ..Limits::DEFAULT },
            Limits { max_seconds: 0.0, ..Limits::DEFAULT },
        ] {
            assert!(limits.validate().is_err(), "{limits:?}");
        }
    }
}
