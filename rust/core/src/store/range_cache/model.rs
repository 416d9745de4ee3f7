//! The cache beside a naive model of it: what is there for each byte.

use std::{fs, path::PathBuf};

use proptest::{prelude::*, test_runner::TestCaseResult};

use super::{
    BYTES, CachedShard, LOG,
    ranges::CELL,
    tests::{LEN, Setup, has, put},
};

const N_PROCESSES: usize = 3;

/// What happens to a cache folder.
#[derive(Clone, Debug)]
enum Event {
    /// A process reads this many bytes from here on, from the shard where the cache has not all of them.
    Read { process: usize, start: u64, n: u64 },
    /// A bit of the cached bytes changes.
    Rot { at: usize, bit: u32 },
    /// So does one of the log.
    RotInLog { at: usize, bit: u32 },
    /// The log is cut short by this many bytes, as by a crash of the machine.
    Cut { n: usize },
    /// The files are removed, and all processes begin anew.
    Remove,
    /// One process ends, and another begins.
    Begin { process: usize },
}

fn reads() -> impl Strategy<Value = Event> {
    let start = prop_oneof![0..LEN, CELL - 3000..CELL + 3000, 0..3000_u64];
    let n = prop_oneof![1..2000_u64, 1..CELL + 5000];
    (0..N_PROCESSES, start, n).prop_map(|(process, start, n)| Event::Read {
        process,
        start,
        n: n.min(LEN - start),
    })
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        12 => reads(),
        2 => (any::<usize>(), 0..8_u32).prop_map(|(at, bit)| Event::Rot { at, bit }),
        1 => (any::<usize>(), 0..8_u32).prop_map(|(at, bit)| Event::RotInLog { at, bit }),
        1 => (0..140_usize).prop_map(|n| Event::Cut { n }),
        1 => Just(Event::Remove),
        2 => (0..N_PROCESSES).prop_map(|process| Event::Begin { process }),
    ];
    prop::collection::vec(event, 1..40)
}

/// Whether a byte is cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It never was.
    Not,
    /// It was, before something was damaged that it may go with.
    Maybe,
    /// It has to be.
    Surely,
}

struct Model {
    setup: Setup,
    processes: Vec<CachedShard>,
    bytes: Vec<State>,
}

impl Model {
    fn new() -> Self {
        let setup = Setup::new(1 << 30);
        let processes = (0..N_PROCESSES).map(|_| setup.shard("a")).collect();
        Self { setup, processes, bytes: vec![State::Not; LEN as usize] }
    }

    /// The file with this extension, and its bytes.
    fn file(&self, extension: &str) -> Option<(PathBuf, Vec<u8>)> {
        let path = self.setup.files(extension).pop()?;
        let bytes = fs::read(&path).unwrap();
        (!bytes.is_empty()).then_some((path, bytes))
    }

    fn apply(&mut self, event: &Event) -> TestCaseResult {
        match *event {
            Event::Read { process, start, n } => self.read(process, start, n)?,
            Event::Rot { at, bit } => {
                if let Some((path, mut bytes)) = self.file(BYTES) {
                    let at = at % bytes.len();
                    bytes[at] ^= 1 << bit;
                    fs::write(path, bytes).unwrap();
                    let cell = at / CELL as usize * CELL as usize;
                    let end = (cell + CELL as usize).min(self.bytes.len());
                    damage(&mut self.bytes[cell..end]);
                }
            }
            Event::RotInLog { at, bit } => {
                if let Some((path, mut log)) = self.file(LOG) {
                    let at = at % log.len();
                    log[at] ^= 1 << bit;
                    fs::write(path, log).unwrap();
                    damage(&mut self.bytes);
                    // What a record said that a damaged range is so is known to some, and now not to all.
                    self.begin_all();
                }
            }
            Event::Cut { n } => {
                if let Some((path, log)) = self.file(LOG) {
                    fs::write(path, &log[..log.len().saturating_sub(n)]).unwrap();
                    damage(&mut self.bytes);
                    // It may grow to the same length again before they look, with other ranges in it.
                    self.begin_all();
                }
            }
            Event::Remove => {
                for path in [LOG, BYTES].iter().flat_map(|extension| self.setup.files(extension)) {
                    fs::remove_file(path).unwrap();
                }
                self.bytes.fill(State::Not);
                // The next log may have the number and the time of this one.
                self.begin_all();
            }
            Event::Begin { process } => self.processes[process] = self.setup.shard("a"),
        }
        Ok(())
    }

    fn begin_all(&mut self) {
        self.processes = (0..N_PROCESSES).map(|_| self.setup.shard("a")).collect();
    }

    /// As a reader does: what is not there is read from the shard, and written.
    fn read(&mut self, process: usize, start: u64, n: u64) -> TestCaseResult {
        let shard = &self.processes[process];
        let range = start as usize..(start + n) as usize;
        let states = &mut self.bytes[range];
        if has(shard, start, n) {
            prop_assert!(!states.contains(&State::Not), "never written: {start}, {n}");
        } else {
            prop_assert!(states.iter().any(|s| *s != State::Surely), "lost: {start}, {n}");
            put(shard, start, n);
            states.fill(State::Surely);
        }
        Ok(())
    }
}

fn damage(bytes: &mut [State]) {
    for state in bytes.iter_mut().filter(|state| **state == State::Surely) {
        *state = State::Maybe;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// No read has wrong bytes (`has` asserts it), and none misses what has to be there.
    #[test]
    fn the_cache_has_what_the_model_has(events in events()) {
        let mut model = Model::new();
        for event in &events {
            model.apply(event)?;
        }
        // What is left is there for every process, and what is read once is there afterwards.
        for process in 0..N_PROCESSES {
            for start in (0..LEN).step_by(CELL as usize) {
                model.read(process, start, CELL.min(LEN - start))?;
            }
        }
        prop_assert!(has(&model.setup.shard("a"), 0, LEN));
    }
}
