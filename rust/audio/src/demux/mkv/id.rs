//! The elements that are read, by their identifiers.

pub(crate) const SEGMENT: u32 = 0x1853_8067;
pub(crate) const INFO: u32 = 0x1549_A966;
pub(crate) const TIMESTAMP_SCALE: u32 = 0x2A_D7B1;
pub(crate) const DURATION: u32 = 0x4489;
pub(crate) const TRACKS: u32 = 0x1654_AE6B;
pub(crate) const TRACK_ENTRY: u32 = 0xAE;
pub(crate) const TRACK_NUMBER: u32 = 0xD7;
pub(crate) const TRACK_TYPE: u32 = 0x83;
pub(crate) const CODEC_ID: u32 = 0x86;
pub(crate) const CODEC_PRIVATE: u32 = 0x63A2;
pub(crate) const CODEC_DELAY: u32 = 0x56AA;
pub(crate) const AUDIO: u32 = 0xE1;
pub(crate) const RATE: u32 = 0xB5;
pub(crate) const OUTPUT_RATE: u32 = 0x78B5;
pub(crate) const CHANNELS: u32 = 0x9F;
pub(crate) const BIT_DEPTH: u32 = 0x6264;
pub(crate) const ENCODINGS: u32 = 0x6D80;
pub(crate) const ENCODING: u32 = 0x6240;
pub(crate) const ENCRYPTION: u32 = 0x5035;
pub(crate) const CLUSTER: u32 = 0x1F43_B675;
pub(crate) const CUES: u32 = 0x1C53_BB6B;
pub(crate) const CLUSTER_TIME: u32 = 0xE7;
pub(crate) const SIMPLE_BLOCK: u32 = 0xA3;
pub(crate) const BLOCK_GROUP: u32 = 0xA0;
pub(crate) const BLOCK: u32 = 0xA1;
pub(crate) const DISCARD_PADDING: u32 = 0x75A2;
