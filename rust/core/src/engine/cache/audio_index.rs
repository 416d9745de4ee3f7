//! What a stream knows of its recordings before they are read: their entries in the shards' audio
//! indexes, and those that it learns.
//!
//! An index is loaded with the first row of its shard, and may be evicted for another shard's ([`index_room`]).
//! Decoding a row that was read whole yields an entry. New entries are written now and then, and when the stream
//! is closed. Only which bytes are read depends on any of this, never what is delivered.
//!
//! [`index_room`]: super::index_room

use std::{
    collections::VecDeque,
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, OnceLock},
};

#[cfg(feature = "shuttle")]
use shuttle::thread::JoinHandle;
#[cfg(not(feature = "shuttle"))]
use std::thread::JoinHandle;

use super::index_room::IndexRoom;
use crate::{
    engine::dataset::Options,
    memory::{Account, Permit},
    shard::{AudioEntry, AudioIndex, IndexDir, Shard},
    sync::lock_std,
    threads,
};
use gristmill_audio::{DecodeError, Entry};

/// Entries of another version are made anew. Counts up when the decoder finds more than it did, so that
/// recordings are looked at again.
const VERSION: u64 = 1;

/// The part of the budget that the indexes of a stream may take, as a divisor. Rows of shards whose
/// index finds no room are read whole.
const SHARE: usize = 16;

/// The part of that room that is kept free for what is learned, as a divisor.
const FREE_SHARE: usize = 8;

/// An index is kept once it has this many new entries, and half as many new ones as old ones: so an
/// entry is written about three times, however large the shard.
const MIN_NEW: usize = 16;

/// The audio indexes of a stream's shards.
#[derive(Debug)]
pub(crate) struct AudioIndexes {
    is_on: bool,
    account: Arc<Account>,
    /// Threads that keep indexes when the stream is closed.
    n_threads: usize,
    room: IndexRoom,
    /// Set once the shards are open.
    opened: OnceLock<Opened>,
    writer: Mutex<Writer>,
}

/// The shards, and by their numbers what is known of their recordings.
#[derive(Debug)]
struct Opened {
    shards: Arc<[Shard]>,
    indexes: Vec<Mutex<ShardIndex>>,
}

/// What is known of the recordings of one shard.
#[derive(Debug, Default)]
struct ShardIndex {
    state: State,
    index: AudioIndex,
    /// Entries that the file may lack.
    n_new: usize,
    /// Whether it waits for the writing thread.
    is_due: bool,
    permit: Option<Permit>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Not looked up yet.
    #[default]
    Unknown,
    Loaded,
    /// There was no room for its bytes, so many.
    Crowded(usize),
    /// The shard can have none.
    Off,
}

/// The thread that keeps indexes while the stream runs, if there is one.
#[derive(Debug, Default)]
struct Writer {
    /// Shards to keep.
    due: VecDeque<usize>,
    is_running: bool,
    is_closed: bool,
    thread: Option<JoinHandle<()>>,
}

/// What is known of a recording.
#[derive(Debug)]
pub(crate) enum Known {
    /// There is no index here that could tell.
    Hidden,
    /// It is to be read whole, and nothing to be learned of it.
    Nothing,
    /// It was not looked at: what is learned of it is worth keeping.
    Unseen,
    /// It was.
    Entry(Box<Entry>),
}

impl AudioIndexes {
    /// Those of a stream whose shards are not open yet.
    pub(crate) fn new(options: &Options, account: &Arc<Account>) -> Arc<Self> {
        Arc::new(Self {
            is_on: options.audio_index && options.index_dir != IndexDir::Nowhere,
            account: Arc::clone(account),
            n_threads: options.n_openers(),
            room: IndexRoom::new(options.memory_budget / SHARE),
            opened: OnceLock::new(),
            writer: Mutex::default(),
        })
    }

    /// The shards are open: their indexes are looked up from now on.
    pub(crate) fn open(&self, shards: &Arc<[Shard]>) {
        if self.is_on {
            let indexes = || shards.iter().map(|_| Mutex::default()).collect();
            self.opened.get_or_init(|| Opened { shards: Arc::clone(shards), indexes: indexes() });
        }
    }

    /// What is known of the recording in this range of a shard.
    ///
    /// Blocks for a small read where it is the first of its shard.
    pub(crate) fn find(self: &Arc<Self>, shard: u32, range: &Range<u64>) -> Known {
        let Some(mut of) = self.shard(shard) else { return Known::Hidden };
        let is_loaded = of.state == State::Loaded;
        self.room.looked_up(is_loaded.then_some(shard));
        if !is_loaded {
            return Known::Hidden;
        }
        let Some(AudioEntry { bytes, headers }) = of.index.get(range.start) else {
            return Known::Unseen;
        };
        if bytes.is_empty() {
            return Known::Nothing;
        }
        if let Some(entry) = sound(AudioEntry { bytes, headers }, range) {
            return Known::Entry(Box::new(entry));
        }
        self.change(&mut of, |index| index.remove(range.start));
        Known::Unseen
    }

    /// Adds what planning the recording that begins at this byte of a shard has found. Without an entry,
    /// and where its bytes are nothing that can be planned, it is remembered that it must be read whole.
    pub(crate) fn learned(
        self: &Arc<Self>,
        shard: u32,
        start: u64,
        found: Result<Option<&Entry>, &DecodeError>,
    ) {
        let entry = match found {
            Ok(entry) => entry,
            Err(error) if error.reason.is_of_bytes() => None,
            Err(_) => return,
        };
        let Some(mut of) = self.shard(shard).filter(|of| of.state == State::Loaded) else {
            return;
        };
        let bytes = entry.map(Entry::to_bytes).unwrap_or_default();
        let headers = entry.map_or(&[][..], Entry::headers);
        let entry = AudioEntry { bytes: &bytes, headers };
        if !self.room.has(0) || !self.change(&mut of, |index| index.add(start, entry)) {
            return;
        }
        of.n_new += 1;
        // A third of all is half of the others.
        let is_due = of.n_new >= MIN_NEW.max(of.index.len() / 3) && !of.is_due;
        of.is_due |= is_due;
        drop(of);
        if is_due {
            self.keep_soon(shard as usize);
        }
        self.make_room(self.room.limit() / FREE_SHARE);
    }

    /// Forgets an entry whose part was not what it should be: the recording is read whole from now on.
    pub(crate) fn forget(self: &Arc<Self>, shard: u32, start: u64) {
        if let Some(mut of) = self.shard(shard).filter(|of| of.state == State::Loaded) {
            self.change(&mut of, |index| {
                index.remove(start);
                index.add(start, AudioEntry { bytes: &[], headers: &[] })
            });
            of.n_new += 1;
        }
    }

    /// Changes an index, and counts its bytes.
    fn change<T>(&self, of: &mut ShardIndex, change: impl FnOnce(&mut AudioIndex) -> T) -> T {
        let before = of.index.n_bytes();
        let result = change(&mut of.index);
        self.room.give_back(before);
        self.room.grow(of.index.n_bytes());
        of.count_bytes(&self.account);
        result
    }

    /// The index of a shard, loaded; `None` where there are none.
    fn shard(self: &Arc<Self>, number: u32) -> Option<MutexGuard<'_, ShardIndex>> {
        let Opened { shards, indexes } = self.opened.get()?;
        let mut of = lock_std(indexes.get(number as usize)?);
        let loads = match of.state {
            State::Unknown => true,
            State::Crowded(n_bytes) => self.make_room(n_bytes),
            State::Loaded | State::Off => false,
        };
        if loads {
            self.load(&mut of, shards.get(number as usize)?);
        }
        Some(of)
    }

    fn load(self: &Arc<Self>, of: &mut ShardIndex, shard: &Shard) {
        of.state = State::Off;
        // One that may still change is known by nothing that would change with it.
        if shard.version_key().is_none() {
            return;
        }
        let index = load(shard);
        let n_bytes = index.n_bytes();
        if self.make_room(n_bytes) && self.room.take(n_bytes) {
            (of.state, of.index) = (State::Loaded, index);
            of.count_bytes(&self.account);
        } else if n_bytes <= self.room.limit() {
            of.state = State::Crowded(n_bytes);
        }
    }

    /// Makes room for so many bytes, as far as others' indexes can give way. Returns whether there is room.
    ///
    /// One that has something new is kept first, which nobody waits for.
    fn make_room(self: &Arc<Self>, n_bytes: usize) -> bool {
        while !self.room.has(n_bytes) {
            let oldest = self.room.oldest().filter(|_| n_bytes <= self.room.limit());
            let Some((number, n_lookups)) = oldest else { return false };
            let of = self.opened.get().and_then(|opened| opened.indexes.get(number as usize));
            // A thread that holds it needs it; and it may wait for the one that the caller holds.
            let Some(mut of) = of.and_then(|of| of.try_lock().ok()) else { return false };
            if n_lookups <= of.index.len() as u64 {
                return false;
            }
            if of.n_new > 0 {
                let is_due = std::mem::replace(&mut of.is_due, true);
                drop(of);
                if !is_due {
                    self.keep_soon(number as usize);
                }
                return false;
            }
            self.room.removed(number);
            let freed = of.index.n_bytes();
            *of = ShardIndex { state: State::Crowded(freed), ..ShardIndex::default() };
            self.room.give_back(freed);
        }
        true
    }

    /// Has a thread keep the index of this shard.
    fn keep_soon(self: &Arc<Self>, shard: usize) {
        let mut writer = lock_std(&self.writer);
        if writer.is_closed {
            return;
        }
        writer.due.push_back(shard);
        if writer.is_running {
            return;
        }
        let this = Arc::clone(self);
        // If it cannot be started, the index is kept when the stream is closed.
        if let Ok(thread) = threads::spawn("gristmill-index", move || this.keep_due()) {
            (writer.thread, writer.is_running) = (Some(thread), true);
        }
    }

    /// What the writing thread does.
    fn keep_due(&self) {
        loop {
            let mut writer = lock_std(&self.writer);
            let Some(shard) = writer.due.pop_front().filter(|_| !writer.is_closed) else {
                writer.is_running = false;
                return;
            };
            drop(writer);
            self.keep(shard);
        }
    }

    /// Keeps the index of a shard, if that is possible.
    fn keep(&self, number: usize) {
        let Some(Opened { shards, indexes }) = self.opened.get() else { return };
        let Some((of, shard)) = indexes.get(number).zip(shards.get(number)) else { return };
        let mut locked = lock_std(of);
        (locked.n_new, locked.is_due) = (0, false);
        let mut index = locked.index.clone();
        drop(locked);
        // Without the lock, since rows may need the index while it is written.
        shard.save_audio_index(VERSION, &mut index);
    }

    /// Keeps what was learned, and frees the indexes. Nothing is learned after that.
    ///
    /// Blocks for a small read and a small write for each shard of which something was learned.
    pub(crate) fn close(&self) {
        let thread = {
            let mut writer = lock_std(&self.writer);
            writer.is_closed = true;
            writer.thread.take()
        };
        if let Some(thread) = thread {
            // A panic in it is no reason for another.
            let _ = thread.join();
        }
        let Some(Opened { indexes, .. }) = self.opened.get() else { return };
        let news = indexes.iter().enumerate().filter(|(_, of)| lock_std(of).n_new > 0);
        let news = news.map(|(number, _)| number).collect();
        threads::parallel_for_each("gristmill-index", news, self.n_threads, |k| self.keep(k));
        for of in indexes {
            *lock_std(of) = ShardIndex { state: State::Off, ..ShardIndex::default() };
        }
    }
}

/// How much is known of a shard's recordings: how many were looked at, and of how many parts can be
/// read.
///
/// Blocks for a small read.
pub fn audio_coverage(shard: &Shard) -> (u64, u64) {
    let index = load(shard);
    let has_parts = |entry: AudioEntry<'_>| {
        Entry::from_bytes(entry.bytes, entry.headers).is_some_and(|entry| entry.has_table())
    };
    let in_parts = index.iter().filter(|(_, entry)| has_parts(*entry)).count();
    (index.len() as u64, in_parts as u64)
}

/// What is kept of a shard's recordings.
pub(crate) fn load(shard: &Shard) -> AudioIndex {
    shard.load_audio_index(VERSION)
}

/// The entry of the recording in this range of the index's shard, if there is a sound one.
pub(crate) fn entry(index: &AudioIndex, range: &Range<u64>) -> Option<Entry> {
    sound(index.get(range.start)?, range)
}

fn sound(AudioEntry { bytes, headers }: AudioEntry<'_>, range: &Range<u64>) -> Option<Entry> {
    let entry = Entry::from_bytes(bytes, headers)?;
    (entry.n_bytes() == range.end - range.start).then_some(entry)
}

impl ShardIndex {
    fn count_bytes(&mut self, account: &Arc<Account>) {
        let n_bytes = self.index.n_bytes();
        self.permit.get_or_insert_with(|| account.take(0)).set(n_bytes);
    }
}
