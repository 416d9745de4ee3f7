//! Sidecars: a shard's metadata in a small file, so that it is read once.
//!
//! A sidecar is never needed and never trusted. One that is missing, damaged, of another version of
//! the format or of the shard is ignored, and one that cannot be written is not written. Processes
//! may read and write the same one at the same time: it is written under another name and then
//! renamed, so that a reader finds the old one or the new one, whole.
//!
//! The bytes, version 1: all numbers are little-endian `u64`; bytes follow their length. A sidecar
//! is a prefix of eight bytes that names the format and its version, the FNV-1a hash of what
//! follows, the shard (its path or URL, length, and modification time in seconds and nanoseconds, or
//! in seconds and a hash of its `ETag`), the id of its [`Format`](super::format::Format), and what
//! that format writes.
//!
//! FNV-1a maps each byte one to one, so that no single changed byte leaves the hash as it was. What
//! passes it is checked like the shard's own bytes.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::{
        ffi::OsStrExt,
        fs::{DirBuilderExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{SystemTime, UNIX_EPOCH},
};

use super::format::{FORMATS, FormatReader};
use crate::{
    hash,
    store::{FileVersion, RangeReader, base_name, identity, is_remote},
};

/// The last byte is the version.
const MAGIC: &[u8; 8] = b"GMINDEX\x01";

/// Appended to the shard's name.
const EXTENSION: &str = ".gmindex";

/// The largest sidecar. One of a shard with 100,000 messages has a twentieth of that.
pub(super) const MAX_BYTES: u64 = 64 << 20;

/// Where sidecars are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum IndexDir {
    /// Nowhere: metadata is read at every opening.
    #[default]
    Nowhere,
    /// In each shard's own folder, as `<name>.gmindex`; nowhere for shards behind URLs.
    Beside,
    /// In this folder, under the shard's base name and a hash of its absolute path, or of its URL
    /// without what is secret in it. It is made
    /// when it is missing, for this user alone.
    Folder(PathBuf),
}

impl IndexDir {
    /// The path of this shard's sidecar; `None` where it has none.
    pub(super) fn path(&self, shard: &Path) -> Option<PathBuf> {
        let name = base_name(shard);
        match self {
            Self::Nowhere => None,
            Self::Beside if is_remote(shard) => None,
            Self::Beside => {
                let mut name = name.into_owned();
                name.push(EXTENSION);
                Some(shard.with_file_name(name))
            }
            Self::Folder(folder) => {
                let path = identity(shard)?;
                let key = hash::fnv1a(path.as_os_str().as_bytes());
                // Shortened, since a file's name has at most 255 bytes.
                let name: String = name.to_string_lossy().chars().take(40).collect();
                Some(folder.join(format!("{name}-{key:016x}{EXTENSION}")))
            }
        }
    }

    /// The path of a file of this name for what is worked out from shards, of which this is the first.
    fn derived_path(&self, first: &Path, name: &str) -> Option<PathBuf> {
        match self {
            Self::Nowhere => None,
            Self::Beside => (!is_remote(first)).then(|| first.with_file_name(name)),
            Self::Folder(folder) => Some(folder.join(name)),
        }
    }

    /// Makes the folder, if there is to be one.
    pub(super) fn make(&self) {
        if let Self::Folder(folder) = self {
            // Fails where it exists, which does not matter.
            let _ = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        }
    }

    /// The path by which a sidecar names its shard. Beside the shard it is the name alone, so that
    /// both can be moved.
    pub(super) fn shard_path(&self, shard: &Path) -> Option<PathBuf> {
        match self {
            Self::Nowhere => None,
            Self::Beside => Some(PathBuf::from(shard.file_name()?)),
            Self::Folder(_) => identity(shard),
        }
    }
}

/// A shard's metadata from its sidecar; `None` where it has none that is valid.
pub(super) fn load(reader: &RangeReader, dir: &IndexDir) -> Option<Box<dyn FormatReader>> {
    if !reader.may_be_kept() {
        return None;
    }
    let path = dir.path(reader.path())?;
    let shard = dir.shard_path(reader.path())?;
    decode(&read(&path, MAX_BYTES).ok()?, &shard, reader.version())
}

/// Writes the sidecar of a shard whose metadata has just been read. Returns whether it has one now.
///
/// Errors (a read-only folder, a full disk) are ignored: the next opening reads the metadata again.
pub(super) fn save(reader: &RangeReader, dir: &IndexDir, contents: &dyn FormatReader) -> bool {
    let Some((path, shard)) = dir.path(reader.path()).zip(dir.shard_path(reader.path())) else {
        return false;
    };
    if !reader.may_be_kept() {
        return false;
    }
    dir.make();
    let bytes = encode(&shard, reader.version(), contents);
    bytes.len() as u64 <= MAX_BYTES && replace(&path, &bytes).is_ok()
}

/// What [`save_derived`] wrote, of at most so many bytes; `None` where nothing can be read.
pub(crate) fn read_derived(
    dir: &IndexDir,
    first: &Path,
    name: &str,
    most: usize,
) -> Option<Vec<u8>> {
    read(&dir.derived_path(first, name)?, most as u64).ok()
}

/// Writes a file of what was worked out from shards, of which `first` is the first. As with
/// sidecars, errors are ignored, and readers must not trust it.
pub(crate) fn save_derived(dir: &IndexDir, first: &Path, name: &str, bytes: &[u8]) {
    if let Some(path) = dir.derived_path(first, name) {
        dir.make();
        let _ = replace(&path, bytes);
    }
}

fn encode(shard: &Path, version: &FileVersion, contents: &dyn FormatReader) -> Vec<u8> {
    let mut out = SidecarWriter(Vec::new());
    let (modified_s, modified_ns) = version.modified;
    out.bytes(shard.as_os_str().as_bytes());
    out.words(&[version.len, modified_s as u64, modified_ns as u64, contents.format().id]);
    contents.save(&mut out);
    let mut bytes = MAGIC.to_vec();
    bytes.extend(hash::fnv1a(&out.0).to_le_bytes());
    bytes.extend(out.0);
    bytes
}

/// The metadata in a sidecar; `None` where it is damaged, or not of this version of this shard.
fn decode(bytes: &[u8], shard: &Path, version: &FileVersion) -> Option<Box<dyn FormatReader>> {
    let (sum, payload) = bytes.strip_prefix(MAGIC)?.split_first_chunk()?;
    if u64::from_le_bytes(*sum) != hash::fnv1a(payload) {
        return None;
    }
    let mut saved = SidecarReader(payload);
    let path = saved.bytes()?;
    let (len, modified) = (saved.word()?, (saved.word()? as i64, saved.word()? as i64));
    let of_version = (path, len, modified);
    if of_version != (shard.as_os_str().as_bytes(), version.len, version.modified) {
        return None;
    }
    let id = saved.word()?;
    let format = FORMATS.iter().find(|format| format.id == id)?;
    let contents = (format.restore)(&mut saved, len)?;
    saved.0.is_empty().then_some(contents)
}

/// Writes the numbers and bytes of a sidecar.
#[derive(Default)]
pub(super) struct SidecarWriter(Vec<u8>);

impl SidecarWriter {
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    pub(super) fn words(&mut self, words: &[u64]) {
        self.0.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.words(&[bytes.len() as u64]);
        self.0.extend(bytes);
    }
}

/// Reads the numbers and bytes of a sidecar; `None` beyond its end.
pub(super) struct SidecarReader<'a>(&'a [u8]);

impl<'a> SidecarReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Whether all was read.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn take(&mut self, n_bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n_bytes)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn word(&mut self) -> Option<u64> {
        self.take(8)?.first_chunk().map(|word| u64::from_le_bytes(*word))
    }

    /// Numbers after their count.
    pub(super) fn words(&mut self) -> Option<Vec<u64>> {
        let n = usize::try_from(self.word()?).ok()?;
        let words = self.take(n.checked_mul(8)?)?.as_chunks().0;
        Some(words.iter().map(|word| u64::from_le_bytes(*word)).collect())
    }

    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.word()?).ok()?;
        self.take(len)
    }
}

/// A file of at most `most` bytes.
pub(super) fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    // Before opening: a pipe in its place would wait for its writer.
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() || metadata.len() > most {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Replaces the file at `path` by one of these bytes, or leaves it as it is.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    // Unique among the threads of this process by the count, among processes by their number, and
    // by the time where several machines share the folder.
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}-{}-{time:x}", process::id(), COUNT.fetch_add(1, Relaxed)));
    let temporary = path.with_file_name(name);
    let write = || {
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(0o644).open(&temporary)?;
        file.write_all(bytes)?;
        // Without `fsync`: the checksum finds a file that a crash left incomplete.
        fs::rename(&temporary, path)
    };
    write().inspect_err(|_| drop(fs::remove_file(&temporary)))
}
