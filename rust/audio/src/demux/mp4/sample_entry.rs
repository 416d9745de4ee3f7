//! The `stsd` box: how a track is coded.

use super::boxes::{Boxes, find, find_path};
use crate::{
    bytes::{be_u16, from, u8_at},
    error::Reason,
};

/// What the first sample entry of a sample table says.
#[derive(Clone, Debug)]
pub(super) struct SampleEntry<'a> {
    kind: [u8; 4],
    children: &'a [u8],
    /// What MPEG-4 audio (`mp4a`) has.
    descriptor: Option<Descriptor<'a>>,
}

impl<'a> SampleEntry<'a> {
    pub(super) fn read(stbl: &'a [u8]) -> Result<Self, Reason> {
        let no_entry = || Reason::malformed("there is no sample entry");
        let stsd = find(stbl, *b"stsd").ok_or_else(no_entry)?;
        let entry = Boxes::new(from(stsd, 8)).next().ok_or_else(no_entry)?;
        // QuickTime has longer entries.
        let children = match be_u16(entry.body, 8) {
            Some(1) => from(entry.body, 44),
            Some(2) => from(entry.body, 64),
            _ => from(entry.body, 28),
        };
        let mut entry = Self { kind: entry.kind, children, descriptor: None };
        if entry.is(*b"mp4a") {
            entry.descriptor = Some(Descriptor::read(entry.child(*b"esds"))?);
        }
        Ok(entry)
    }

    /// Its kind, which tells the codec.
    pub(super) fn kind(&self) -> &[u8; 4] {
        &self.kind
    }

    /// Whether it is of this kind.
    fn is(&self, kind: [u8; 4]) -> bool {
        self.kind == kind
    }

    /// The body of a box in it; nothing if it is not there.
    pub(super) fn child(&self, kind: [u8; 4]) -> &'a [u8] {
        let wave = || find(find(self.children, *b"wave")?, kind);
        find(self.children, kind).or_else(wave).unwrap_or_default()
    }

    /// The object type of MPEG-4 audio.
    pub(super) fn object(&self) -> Option<u8> {
        self.descriptor.map(|descriptor| descriptor.object)
    }

    /// The decoder configuration of MPEG-4 audio.
    pub(super) fn config(&self) -> &'a [u8] {
        self.descriptor.map_or(&[], |descriptor| descriptor.specific)
    }

    /// Why there is no decoder for it.
    pub(super) fn refusal(&self) -> Reason {
        let name = match (&self.kind, self.object()) {
            (_, Some(object)) => object_name(object),
            (b"enca", _) => {
                let scheme = find_path(self.children, &[*b"sinf", *b"schm"]);
                let scheme = scheme.and_then(|body| body.get(4..8)).map(printable);
                let scheme = scheme.map_or_else(String::new, |name| format!(" ({name})"));
                format!("an encrypted MP4 track{scheme}")
            }
            (b"drms", _) => "a track under iTunes DRM (FairPlay)".to_owned(),
            (kind, _) => match kind_name(*kind) {
                Some(name) => name.to_owned(),
                None => format!("MP4 with {}", printable(kind)),
            },
        };
        Reason::UnsupportedCodec(name)
    }
}

/// Objects of MPEG-4 audio that are not decoded here.
fn object_name(object: u8) -> String {
    match object {
        0x66 => "AAC Main".to_owned(),
        0x68 => "AAC-SSR".to_owned(),
        0x69 | 0x6B => "MP3 in MP4".to_owned(),
        0xA5 => "AC-3".to_owned(),
        0xDD => "Vorbis in MP4".to_owned(),
        object => format!("MP4 audio of object type {object:#04x}"),
    }
}

/// What the `esds` box holds, ISO/IEC 14496-1 section 7.2.6.
#[derive(Clone, Copy, Debug)]
struct Descriptor<'a> {
    object: u8,
    specific: &'a [u8],
}

impl<'a> Descriptor<'a> {
    fn read(esds: &'a [u8]) -> Result<Self, Reason> {
        Self::parse(esds).ok_or_else(|| Reason::malformed("the esds box does not parse"))
    }

    fn parse(esds: &'a [u8]) -> Option<Self> {
        let stream = descriptor(from(esds, 4), 3)?;
        let flags = u8_at(stream, 2)?;
        let mut at = 3;
        at += if flags & 0x80 != 0 { 2 } else { 0 };
        at += if flags & 0x40 != 0 { 1 + usize::from(u8_at(stream, at)?) } else { 0 };
        at += if flags & 0x20 != 0 { 2 } else { 0 };
        let config = descriptor(from(stream, at), 4)?;
        Some(Self {
            object: u8_at(config, 0)?,
            specific: descriptor(from(config, 13), 5).unwrap_or_default(),
        })
    }
}

/// The body of the descriptor with this tag that `bytes` begin with.
fn descriptor(bytes: &[u8], tag: u8) -> Option<&[u8]> {
    if u8_at(bytes, 0)? != tag {
        return None;
    }
    let (mut at, mut len) = (1, 0);
    for _ in 0..4 {
        let byte = u8_at(bytes, at)?;
        at += 1;
        len = len << 7 | usize::from(byte & 0x7F);
        if byte & 0x80 == 0 {
            break;
        }
    }
    let body = from(bytes, at);
    body.get(..len.min(body.len()))
}

fn printable(kind: impl AsRef<[u8]>) -> String {
    kind.as_ref().escape_ascii().to_string()
}

fn kind_name(kind: [u8; 4]) -> Option<&'static str> {
    Some(match &kind {
        b".mp3" | b"mp3 " => "MP3 in MP4",
        b"ac-3" => "AC-3",
        b"ec-3" => "E-AC-3",
        b"ac-4" => "AC-4",
        b"samr" | b"sawb" => "AMR",
        b"dtsc" | b"dtse" | b"dtsh" | b"dtsl" => "DTS",
        b"mhm1" | b"mha1" => "MPEG-H",
        b"sowt" | b"twos" | b"in24" | b"in32" | b"fl32" | b"fl64" | b"lpcm" | b"raw " | b"ipcm"
        | b"fpcm" => "PCM in MP4 or QuickTime",
        b"ulaw" | b"alaw" => "A-law or mu-law in MP4 or QuickTime",
        _ => return None,
    })
}
