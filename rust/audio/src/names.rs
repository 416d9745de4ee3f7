//! The codecs that users can meet, and what each is called. A codec has one line here.

/// Makes [`Codec`] of its lines: a variant, its number in seek tables, its key and its name.
macro_rules! codecs {
    ($($(#[$doc:meta])* $codec:ident = $number:literal, $key:literal, $name:literal;)*) => {
        /// What the bytes claim to be.
        #[non_exhaustive]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Codec {
            $($(#[$doc])* $codec = $number,)*
        }

        impl Codec {
            /// All of them, by their numbers.
            pub(crate) const ALL: &[Self] = &[$(Self::$codec),*];

            /// The codec in lower case, as `gristmill.AudioInfo.codec` has it. Programs compare it, so it
            /// never changes.
            pub fn key(self) -> &'static str {
                match self {
                    $(Self::$codec => $key,)*
                }
            }

            /// The name that users know it by.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$codec => $name,)*
                }
            }
        }
    };
}

// Seek tables are stored with these numbers, so they never change: a new codec takes the next one.
codecs! {
    /// RIFF WAVE with PCM samples.
    Wav = 0, "wav", "WAV";
    /// AIFF and AIFF-C with PCM samples.
    Aiff = 1, "aiff", "AIFF";
    /// Core Audio Format with PCM samples.
    Caf = 2, "caf", "CAF";
    /// Free Lossless Audio Codec, RFC 9639.
    Flac = 3, "flac", "FLAC";
    /// Vorbis I in Ogg.
    Vorbis = 4, "vorbis", "Ogg Vorbis";
    /// Opus, in Ogg, MP4 or Matroska.
    Opus = 5, "opus", "Opus";
    /// MPEG-1/2/2.5 audio, layer III.
    Mp3 = 6, "mp3", "MP3";
    /// MPEG-1/2 audio, layer II.
    Mp2 = 7, "mp2", "MPEG layer II";
    /// MPEG-1/2 audio, layer I.
    Mp1 = 8, "mp1", "MPEG layer I";
    /// AAC-LC, in MP4, ADTS or Matroska.
    Aac = 9, "aac", "AAC";
    /// Apple Lossless Audio Codec.
    Alac = 10, "alac", "ALAC";
    /// NIST SPHERE with PCM samples.
    Sphere = 11, "sphere", "NIST SPHERE";
}

impl Codec {
    /// Its number in seek tables.
    pub(crate) fn number(self) -> u8 {
        self as u8
    }

    /// The codec of this number.
    pub(crate) fn of_number(number: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|codec| codec.number() == number)
    }
}
