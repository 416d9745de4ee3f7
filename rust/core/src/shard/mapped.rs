//! Files on local disks, read through a memory map. This crate sees copies of their bytes alone:
//! what others may change or cut short is never behind a reference here.

use std::{fmt::Debug, fs::File, io, path::Path, sync::Arc};

use super::storage::{Handle, Mounted, Stamp, Storage};

/// Shorter reads are positional: bringing in the pages of a map takes a call too.
const SHORTEST: usize = 64 << 10;

/// Maps files.
pub trait Mapper: Debug + Send + Sync {
    /// Maps the first `len` bytes.
    ///
    /// # Errors
    ///
    /// Any: the file is then read by position.
    fn map(&self, file: &File, len: u64) -> io::Result<Box<dyn Mapped>>;
}

/// A mapped file, until it is dropped.
pub trait Mapped: Debug + Send + Sync {
    /// Fills `into` with the bytes from `offset` on. The file had them a moment ago.
    ///
    /// # Errors
    ///
    /// Any, with anything in `into`: the bytes are then read by position, which says what is wrong.
    fn copy(&self, offset: u64, into: &mut [u8]) -> io::Result<()>;
}

/// The file systems that the operating system has mounted, read through maps.
#[derive(Debug)]
pub(super) struct MappedFiles(pub(super) Arc<dyn Mapper>);

impl Storage for MappedFiles {
    fn stamp(&self, path: &Path) -> io::Result<Stamp> {
        Mounted.stamp(path)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Handle>> {
        let file = File::open(path)?;
        let len = file.stamp()?.len;
        Ok(match self.0.map(&file, len) {
            Ok(map) => Box::new(MappedFile { file, len, map }),
            Err(_) => Box::new(file),
        })
    }
}

/// An open file and its map: one descriptor, one map, bounded and closed together.
#[derive(Debug)]
struct MappedFile {
    file: File,
    /// Of the map.
    len: u64,
    map: Box<dyn Mapped>,
}

impl Handle for MappedFile {
    fn stamp(&self) -> io::Result<Stamp> {
        self.file.stamp()
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        if buf.len() >= SHORTEST {
            let end = offset.saturating_add(buf.len() as u64);
            // Of a file that was shortened nothing is copied: the system would end the process.
            let is_there = end <= self.len.min(self.file.stamp()?.len);
            if is_there && self.map.copy(offset, buf).is_ok() {
                return Ok(buf.len());
            }
        }
        Handle::read_at(&self.file, buf, offset)
    }

    fn announce(&self, offset: u64, len: usize) {
        self.file.announce(offset, len);
    }

    fn drop_cached(&self, offset: u64, len: usize) {
        self.file.drop_cached(offset, len);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::OpenOptions,
        io::Write,
        sync::atomic::{AtomicUsize, Ordering::Relaxed},
    };

    use super::{super::source::Source, *};
    use crate::{ErrorKind, shard::Files};

    const LEN: usize = 300_000;

    /// "Maps" by reading the whole file, and fails at every other copy.
    #[derive(Debug, Default)]
    struct Fickle(Arc<AtomicUsize>);

    #[derive(Debug)]
    struct Bytes(Vec<u8>, Arc<AtomicUsize>);

    impl Mapper for Fickle {
        fn map(&self, file: &File, len: u64) -> io::Result<Box<dyn Mapped>> {
            let mut bytes = vec![0; len as usize];
            std::os::unix::fs::FileExt::read_exact_at(file, &mut bytes, 0)?;
            Ok(Box::new(Bytes(bytes, Arc::clone(&self.0))))
        }
    }

    impl Mapped for Bytes {
        fn copy(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
            if self.1.fetch_add(1, Relaxed) % 2 == 1 {
                into.fill(0xee);
                return Err(io::ErrorKind::Other.into());
            }
            let from = offset as usize..offset as usize + into.len();
            into.copy_from_slice(&self.0[from]);
            Ok(())
        }
    }

    fn setup() -> (tempfile::TempDir, Arc<AtomicUsize>, Source, Vec<u8>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shard");
        let bytes: Vec<u8> = (0..LEN).map(|k| (k % 251) as u8).collect();
        File::create(&path).unwrap().write_all(&bytes).unwrap();
        let mapper = Fickle::default();
        let copies = Arc::clone(&mapper.0);
        let files = Arc::new(Files::default().with_mapper(Some(Arc::new(mapper))));
        let source = Source::open(&files, &path).unwrap();
        (folder, copies, source, bytes)
    }

    #[test]
    fn what_a_map_cannot_copy_is_read() {
        let (_folder, copies, source, bytes) = setup();
        for (start, end, n_copies) in
            [(0, LEN, 1), (1, LEN, 2), (7, 7 + SHORTEST, 3), (100, 99 + SHORTEST, 3), (9, 9, 3)]
        {
            let mut read = Vec::new();
            source.read_range(start as u64..end as u64, &mut read).unwrap();
            assert_eq!(read, bytes[start..end]);
            assert_eq!(copies.load(Relaxed), n_copies, "short reads are no copies");
        }
    }

    #[test]
    fn of_a_shortened_file_nothing_is_copied() {
        let (folder, copies, source, bytes) = setup();
        let mut read = vec![0; SHORTEST];
        source.read_exact_at(0, &mut read).unwrap();
        assert_eq!(read, bytes[..SHORTEST]);
        let path = folder.path().join("shard");
        OpenOptions::new().write(true).open(path).unwrap().set_len(SHORTEST as u64 - 1).unwrap();
        let error = source.read_exact_at(0, &mut read).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Corrupt(why) if why.contains("shortened")));
        assert_eq!(copies.load(Relaxed), 1);
    }
}
