//! Sidecars: what a shard's headers said, kept in a small file so that they are read once.
//!
//! A sidecar is never needed and never trusted: one that is missing, of another version, of another
//! state of the shard, or damaged is the same as none, and one that cannot be written is not
//! written. Processes may read and write the same one at the same time: it is written under another
//! name and then renamed, so that a reader finds the old one or the new one, whole.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::{
        ffi::OsStrExt,
        fs::{DirBuilderExt, OpenOptionsExt},
    },
    path::{self, Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::{
    index::MessageIndex,
    sidecar_format::{self, Key},
    source::Source,
};
use crate::hash;

/// Follows the shard's name.
const EXTENSION: &str = ".gmindex";

/// No sidecar is larger: one of a shard with 100,000 messages has a twentieth of that.
const MAX_BYTES: u64 = 64 << 20;

/// A shard that changed less than this ago may change again without a later modification time:
/// file systems count time in steps of up to a second.
const SETTLED: Duration = Duration::from_secs(2);

/// Where sidecars are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum IndexDir {
    /// Not at all: headers are read at every opening.
    #[default]
    Nowhere,
    /// In each shard's own folder, as `<name>.gmindex`.
    Beside,
    /// In this folder, under the shard's base name and a hash of its absolute path. It is made
    /// when it is missing, for this user alone.
    Folder(PathBuf),
}

impl IndexDir {
    /// Where the sidecar of this shard is; `None` where there is none to be.
    fn place(&self, shard: &Path) -> Option<PathBuf> {
        let name = shard.file_name()?;
        match self {
            Self::Nowhere => None,
            Self::Beside => {
                let mut name = name.to_owned();
                name.push(EXTENSION);
                Some(shard.with_file_name(name))
            }
            Self::Folder(folder) => {
                let path = path::absolute(shard).ok()?;
                let key = hash::fnv1a(path.as_os_str().as_bytes());
                // Shortened: a file's name has at most 255 bytes.
                let name: String = name.to_string_lossy().chars().take(40).collect();
                Some(folder.join(format!("{name}-{key:016x}{EXTENSION}")))
            }
        }
    }

    /// What a sidecar must say of the shard to be its own. Beside the shard it is the name alone
    /// that counts, so that both can be moved.
    fn key(&self, source: &Source) -> Option<Key> {
        let path = match self {
            Self::Nowhere => return None,
            Self::Beside => PathBuf::from(source.path().file_name()?),
            Self::Folder(_) => path::absolute(source.path()).ok()?,
        };
        Some(Key::new(path.as_os_str().as_bytes(), source.stamp()))
    }
}

/// The index of a shard from its sidecar; `None` where there is none that holds.
pub(super) fn load(source: &Source) -> Option<MessageIndex> {
    let dir = source.files().index_dir();
    let (path, key) = (dir.place(source.path())?, dir.key(source)?);
    sidecar_format::decode(&read(&path).ok()?, &key)
}

/// Writes the sidecar of a shard whose headers have just been read; whether there is one now.
///
/// Whatever goes wrong (a folder that is read-only, a disk that is full) leaves things as they
/// were: the next opening reads the headers again.
pub(super) fn save(source: &Source, index: &MessageIndex) -> bool {
    let dir = source.files().index_dir();
    let Some((path, key)) = dir.place(source.path()).zip(dir.key(source)) else {
        return false;
    };
    if !is_settled(source.stamp().modified.0) {
        return false;
    }
    if let IndexDir::Folder(folder) = dir {
        // One that exists is an error here, and none that matters.
        let _ = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    }
    let bytes = sidecar_format::encode(&key, index);
    bytes.len() as u64 <= MAX_BYTES && replace(&path, &bytes).is_ok()
}

fn is_settled(modified_s: i64) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let modified = Duration::from_secs(modified_s.max(0) as u64);
    modified + SETTLED <= now
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    // Asked before opening: a pipe in its place would wait for its writer.
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() || metadata.len() > MAX_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Puts a whole file in the place of what is at `path`, or leaves that as it is.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    // Unique among the threads of this process by the count, among processes by their number and,
    // where several machines share the folder, by the time.
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}-{}-{time:x}", process::id(), COUNT.fetch_add(1, Relaxed)));
    let temporary = path.with_file_name(name);
    let write = || {
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(0o644).open(&temporary)?;
        file.write_all(bytes)?;
        // Not synchronised: what a crash leaves incomplete, its checksum tells.
        fs::rename(&temporary, path)
    };
    write().inspect_err(|_| drop(fs::remove_file(&temporary)))
}
