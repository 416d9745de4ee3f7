//! Reads through a backend that fails: right bytes, or an error that says where.

use std::{
    io,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use super::{
    DescriptorCache, RangeReader, Store,
    backend::{Backend, FileVersion, ReadAt},
};
use crate::{Error, ErrorKind, threads};

const EIO: i32 = 5;
const ESTALE: i32 = 116;
const ENOTCONN: i32 = 107;
const EACCES: i32 = 13;
const EMFILE: i32 = 24;
const LEN: usize = 5_000_000;
/// Long enough for other threads to ask for the file meanwhile.
const OPENS_IN: Duration = Duration::from_millis(2);

/// What happens at one request.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// A read fails with this number.
    Errno(i32),
    /// A read returns this many bytes at most.
    Short(usize),
    /// A read fails, and then opening the file again, once, with this number.
    Gone(i32),
    /// The file changes while it is read: its length and modification time.
    Change(u64, i64),
}

/// One file of `LEN` bytes, byte `k` being `k % 251`, and the faults of its next requests.
#[derive(Debug)]
struct FaultyBackend(Arc<State>);

#[derive(Debug)]
struct State {
    version: Mutex<FileVersion>,
    faults: Mutex<Vec<Fault>>,
    opening: Mutex<Option<i32>>,
}

#[derive(Debug)]
struct FaultyFile(Arc<State>);

impl Backend for FaultyBackend {
    fn version(&self, _: &Path) -> io::Result<FileVersion> {
        Ok(*self.0.version.lock().unwrap())
    }

    fn open(&self, _: &Path, _: &FileVersion) -> io::Result<Box<dyn ReadAt>> {
        thread::sleep(OPENS_IN);
        match self.0.opening.lock().unwrap().take() {
            Some(code) => Err(io::Error::from_raw_os_error(code)),
            None => Ok(Box::new(FaultyFile(Arc::clone(&self.0)))),
        }
    }
}

impl ReadAt for FaultyFile {
    fn version(&self) -> io::Result<FileVersion> {
        Ok(*self.0.version.lock().unwrap())
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut most = buf.len();
        match self.0.faults.lock().unwrap().pop() {
            None => {}
            Some(Fault::Errno(code)) => return Err(io::Error::from_raw_os_error(code)),
            Some(Fault::Short(n)) => most = most.min(n),
            Some(Fault::Gone(code)) => {
                *self.0.opening.lock().unwrap() = Some(code);
                return Err(io::Error::from_raw_os_error(ESTALE));
            }
            Some(Fault::Change(len, at)) => {
                let mut version = self.0.version.lock().unwrap();
                (version.len, version.modified.0) = (len, at);
            }
        }
        let len = self.0.version.lock().unwrap().len;
        let end = len.min(offset + most as u64);
        for (byte, at) in buf.iter_mut().zip(offset..end) {
            *byte = (at % 251) as u8;
        }
        Ok(end.saturating_sub(offset) as usize)
    }

    fn readahead(&self, _: u64, _: usize) {}

    fn drop_cached(&self, _: u64, _: usize) {}
}

struct Setup {
    reader: RangeReader,
    store: Arc<Store>,
    cancel: Arc<AtomicBool>,
}

/// A reader whose requests meet `faults`, in this order.
fn setup(faults: &[Fault], retries: u32) -> Setup {
    let state = State {
        version: Mutex::new(FileVersion { len: LEN as u64, id: 7, modified: (100, 5) }),
        faults: Mutex::new(faults.iter().rev().copied().collect()),
        opening: Mutex::default(),
    };
    let cancel = Arc::<AtomicBool>::default();
    let store =
        Store::new(&DescriptorCache::new(2)).with_cancel(Arc::clone(&cancel)).with_retries(retries);
    let store = Arc::new(store.with_backend(Arc::new(FaultyBackend(Arc::new(state)))));
    Setup { reader: RangeReader::new(&store, Path::new("shard.arrow")).unwrap(), store, cancel }
}

/// Reads everything from byte 10 on.
fn read(reader: &RangeReader) -> Result<(), Error> {
    let mut bytes = Vec::new();
    reader.read_range(10..LEN as u64, &mut bytes)?;
    let expected = (10..LEN as u64).map(|at| (at % 251) as u8);
    assert!(bytes.iter().copied().eq(expected), "other bytes than the file's");
    Ok(())
}

fn errno(error: &Error) -> Option<i32> {
    match error.kind() {
        ErrorKind::Io(e) => e.raw_os_error(),
        _ => None,
    }
}

#[test]
fn threads_that_need_a_file_at_once_open_it_once() {
    let Setup { reader, store, .. } = setup(&[], 0);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| read(&reader).unwrap());
        }
    });
    assert_eq!(store.metrics().counts().0, 1);
}

#[test]
fn transient_errors_leave_no_trace() {
    let faults = [
        Fault::Short(1),
        Fault::Errno(EIO),
        Fault::Short(1_000_003),
        Fault::Errno(ESTALE),
        Fault::Short(0),
        Fault::Gone(ENOTCONN),
        Fault::Gone(EMFILE),
        Fault::Short(17),
    ];
    for fault in faults {
        let setup = setup(&[fault], 2);
        read(&setup.reader).unwrap();
    }
    // Each of the two blocks has its own retries.
    let setup = setup(&[Fault::Errno(EIO), Fault::Short(1 << 23), Fault::Errno(EIO)], 1);
    read(&setup.reader).unwrap();
    assert_eq!(setup.store.metrics().counts().1, 2);
}

#[test]
fn persistent_errors_name_the_shard_the_byte_and_the_cause() {
    let setup = setup(&[Fault::Short(1000), Fault::Errno(EIO), Fault::Errno(EIO)], 1);
    let error = read(&setup.reader).unwrap_err();
    assert_eq!(errno(&error), Some(EIO));
    assert_eq!(error.at().shard.as_deref(), Some("shard.arrow"));
    assert_eq!(error.at().byte, Some(1010));
    assert_eq!(setup.store.metrics().counts().1, 1);
}

#[test]
fn permanent_errors_are_not_retried() {
    let setup = setup(&[Fault::Errno(EACCES)], 100);
    assert_eq!(errno(&read(&setup.reader).unwrap_err()), Some(EACCES));
    assert_eq!(setup.store.metrics().counts().1, 0);
    read(&setup.reader).unwrap();
}

#[test]
fn a_file_that_changes_while_it_is_read_is_refused() {
    let was = LEN as u64;
    for (fault, said) in [
        (Fault::Change(was, 101), "replaced or changed"),
        (Fault::Change(was + 8, 101), "still being written"),
        (Fault::Change(1000, 100), "shortened"),
        (Fault::Change(0, 101), "shortened"),
    ] {
        let setup = setup(&[Fault::Short(100), fault], 9);
        let error = read(&setup.reader).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Corrupt(why) if why.contains(said)), "{error}");
        assert_eq!(setup.store.metrics().counts().1, 0);
    }
}

#[test]
fn waiting_for_a_retry_ends_when_cancelled() {
    let setup = setup(&[Fault::Errno(EIO); 50], 50);
    let cancel = Arc::clone(&setup.cancel);
    let begin = Instant::now();
    let canceller = threads::spawn("gristmill-test", move || {
        std::thread::sleep(Duration::from_millis(150));
        cancel.store(true, Relaxed);
    });
    let error = read(&setup.reader).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Closed), "{error}");
    // Fifty retries would take minutes.
    assert!(begin.elapsed() < Duration::from_secs(30));
    canceller.unwrap().join().unwrap();
}
