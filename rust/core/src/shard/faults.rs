//! Storage that fails: what is read through it is right, or ends in an error that says where.

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
    files::Files,
    open_files::OpenFiles,
    source::Source,
    storage::{Handle, Stamp, Storage},
};
use crate::{Error, ErrorKind, threads};

const EIO: i32 = 5;
const ESTALE: i32 = 116;
const ENOTCONN: i32 = 107;
const EACCES: i32 = 13;
const EMFILE: i32 = 24;
const LEN: usize = 5_000_000;
/// Long enough for other threads to come meanwhile.
const OPENS_IN: Duration = Duration::from_millis(2);

/// What happens at one request.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// A read fails with this number.
    Errno(i32),
    /// A read brings this many bytes at most.
    Short(usize),
    /// A read fails, and so does opening the file again, once, with this number.
    Gone(i32),
    /// The file changes while it is read: its length and modification time.
    Change(u64, i64),
}

/// One file of `LEN` bytes, byte `k` being `k % 251`, and the faults of its next requests.
#[derive(Debug)]
struct Faulty(Arc<State>);

#[derive(Debug)]
struct State {
    stamp: Mutex<Stamp>,
    faults: Mutex<Vec<Fault>>,
    opening: Mutex<Option<i32>>,
}

#[derive(Debug)]
struct Open(Arc<State>);

impl Storage for Faulty {
    fn stamp(&self, _: &Path) -> io::Result<Stamp> {
        Ok(*self.0.stamp.lock().unwrap())
    }

    fn open(&self, _: &Path) -> io::Result<Box<dyn Handle>> {
        thread::sleep(OPENS_IN);
        match self.0.opening.lock().unwrap().take() {
            Some(code) => Err(io::Error::from_raw_os_error(code)),
            None => Ok(Box::new(Open(Arc::clone(&self.0)))),
        }
    }
}

impl Handle for Open {
    fn stamp(&self) -> io::Result<Stamp> {
        Ok(*self.0.stamp.lock().unwrap())
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
                let mut stamp = self.0.stamp.lock().unwrap();
                (stamp.len, stamp.modified.0) = (len, at);
            }
        }
        let len = self.0.stamp.lock().unwrap().len;
        let end = len.min(offset + most as u64);
        for (byte, at) in buf.iter_mut().zip(offset..end) {
            *byte = (at % 251) as u8;
        }
        Ok(end.saturating_sub(offset) as usize)
    }

    fn announce(&self, _: u64, _: usize) {}

    fn drop_cached(&self, _: u64, _: usize) {}
}

struct Setup {
    source: Source,
    files: Arc<Files>,
    cancel: Arc<AtomicBool>,
}

/// A source whose reads meet `faults`, in this order.
fn setup(faults: &[Fault], retries: u32) -> Setup {
    let state = State {
        stamp: Mutex::new(Stamp { len: LEN as u64, inode: 7, modified: (100, 5) }),
        faults: Mutex::new(faults.iter().rev().copied().collect()),
        opening: Mutex::default(),
    };
    let cancel = Arc::<AtomicBool>::default();
    let files =
        Files::new(&OpenFiles::new(2)).with_cancel(Arc::clone(&cancel)).with_retries(retries);
    let files = Arc::new(files.with_storage(Arc::new(Faulty(Arc::new(state)))));
    Setup { source: Source::open(&files, Path::new("shard.arrow")).unwrap(), files, cancel }
}

/// Reads everything from byte 10 on.
fn read(source: &Source) -> Result<(), Error> {
    let mut bytes = Vec::new();
    source.read_range(10..LEN as u64, &mut bytes)?;
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
fn threads_that_come_at_once_open_a_file_once() {
    let Setup { source, files, .. } = setup(&[], 0);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| read(&source).unwrap());
        }
    });
    assert_eq!(files.requests().counts().0, 1);
}

#[test]
fn faults_that_pass_leave_no_trace() {
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
        read(&setup.source).unwrap();
    }
    // Each of the two blocks has its own retries.
    let setup = setup(&[Fault::Errno(EIO), Fault::Short(1 << 23), Fault::Errno(EIO)], 1);
    read(&setup.source).unwrap();
    assert_eq!(setup.files.requests().counts().1, 2);
}

#[test]
fn faults_that_stay_name_the_shard_the_byte_and_the_cause() {
    let setup = setup(&[Fault::Short(1000), Fault::Errno(EIO), Fault::Errno(EIO)], 1);
    let error = read(&setup.source).unwrap_err();
    assert_eq!(errno(&error), Some(EIO));
    assert_eq!(error.at().shard.as_deref(), Some("shard.arrow"));
    assert_eq!(error.at().byte, Some(1010));
    assert_eq!(setup.files.requests().counts().1, 1);
}

#[test]
fn what_cannot_pass_is_not_tried_again() {
    let setup = setup(&[Fault::Errno(EACCES)], 100);
    assert_eq!(errno(&read(&setup.source).unwrap_err()), Some(EACCES));
    assert_eq!(setup.files.requests().counts().1, 0);
    read(&setup.source).unwrap();
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
        let error = read(&setup.source).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Corrupt(why) if why.contains(said)), "{error}");
        assert_eq!(setup.files.requests().counts().1, 0);
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
    let error = read(&setup.source).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Closed), "{error}");
    // Fifty retries would take minutes.
    assert!(begin.elapsed() < Duration::from_secs(30));
    canceller.unwrap().join().unwrap();
}
