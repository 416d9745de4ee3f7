//! Files that are replaced as a whole, or stay as they are.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::Path,
    process,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{SystemTime, UNIX_EPOCH},
};

/// Replaces the file at `path` by what `write` writes, or leaves it as it is.
pub(super) fn replace(
    path: &Path,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    // Unique among the threads of this process by the count, among processes by their number, and
    // by the time where several machines share the folder.
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}-{}-{time:x}", process::id(), COUNT.fetch_add(1, Relaxed)));
    let temporary = path.with_file_name(name);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&temporary)?;
    // Without `fsync`: the checksums find a file that a crash left incomplete.
    write(&mut file)
        .and_then(|()| fs::rename(&temporary, path))
        .inspect_err(|_| drop(fs::remove_file(&temporary)))
}
