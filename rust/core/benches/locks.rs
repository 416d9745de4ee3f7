//! The crop job on more and more threads, and what its locks cost: `make bench-locks`.
//!
//! Crops of 3 s out of Ogg Vorbis recordings of 4 s, shuffled, in batches of 64, from the page
//! cache. The locks are those of the engine, with clocks around them; the crate that users get has
//! none. How long the queue's lock is held for a row bounds how many threads can share it, which can
//! be told on any number of CPUs. `-- --marks` fails where it is more than a microsecond.

#![allow(clippy::expect_used, clippy::unwrap_used)] // as in tests

mod cases;

use std::{
    env, fs,
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use cases::{BATCH, Written};
use gristmill_audio::{AudioSpec, Channels, Crop};
use gristmill_core::{
    batch::{Batch, Binary, Column, Styles},
    bench::{LockTimes, lock_times, measure_locks},
    engine::{
        AudioRequest, Next, OnError, Options, Pipeline, Remainder, Runtime, SourceOptions, Start,
        usable_cpus,
    },
    order::{OrderSpec, Shuffle},
    select::RowSpec,
    shard::{IndexDir, Labels},
    store::StorageOptions,
};

const THREADS: [usize; 5] = [1, 2, 4, 8, 16];
const SECONDS: f64 = 3.0;
const MARK_US: f64 = 1.0;

fn main() -> ExitCode {
    let has = |flag: &str| env::args().any(|arg| arg == flag);
    let (n_rounds, took) = if has("--quick") { (3, 0.3) } else { (9, 1.0) };
    let recording =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../audio/benches/recordings/vorbis-mono");
    let written = Written::of_rows(&vec![fs::read(recording).unwrap(); 100], 10);
    let n_cpus = usable_cpus();
    println!(
        "{n_cpus} CPUs, {n_rounds} rounds: the median of the rates; of the locks the best round,"
    );
    println!("since what else the machine does only adds. The queue's lock, a row:");
    println!(
        "threads  rows/s  of one  taken  held us  in long holds us  waited us  all waiting, %"
    );
    let (mut first, mut is_met) = (None, true);
    for n_threads in THREADS.into_iter().filter(|n| *n <= n_cpus.max(2)) {
        let rounds = run(&written, n_threads, n_rounds, Duration::from_secs_f64(took));
        let mut rates: Vec<_> = rounds.iter().map(|round| round.rate).collect();
        rates.sort_by(f64::total_cmp);
        let rate = *rates.get(n_rounds / 2).expect("there are rounds");
        let one = *first.get_or_insert(rate);
        let best = rounds.iter().min_by(|a, b| a.held_us.total_cmp(&b.held_us));
        let Round { taken, held_us, long_us, waited_us, waiting, .. } = best.unwrap();
        println!(
            "{n_threads:7} {rate:7.0} {:7.2} {taken:6.1} {held_us:8.2} {long_us:17.2} {waited_us:10.2} \
             {waiting:15.3}",
            rate / one,
        );
        is_met &= *held_us <= MARK_US;
    }
    let verdict = if is_met { "met" } else { "MISSED" };
    println!("{verdict}: the queue's lock is held for at most {MARK_US} us a row");
    ExitCode::from(u8::from(has("--marks") && !is_met))
}

/// Rows a second, and what the queue's lock did for each of them.
struct Round {
    rate: f64,
    taken: f64,
    held_us: f64,
    long_us: f64,
    waited_us: f64,
    /// Percent of the decode threads' time that went to waiting for any lock.
    waiting: f64,
}

fn run(written: &Written, n_threads: usize, n_rounds: usize, took: Duration) -> Vec<Round> {
    let started =
        Pipeline::start(options(written, n_threads), Start::default(), &Runtime::default());
    let pipeline = started.unwrap();
    check(&next(&pipeline));
    let round = |_| {
        measure_locks();
        let (began, mut rows) = (Instant::now(), 0);
        while began.elapsed() < took {
            rows += next(&pipeline).n_rows;
        }
        let (seconds, locks, rows) = (began.elapsed().as_secs_f64(), lock_times(), rows as f64);
        // By its module: the queue and the lock around it.
        let is_queue =
            |lock: &&LockTimes| lock.guards.starts_with("gristmill_core::engine::shared_queue");
        let queue = locks.iter().find(is_queue).expect("the queue has a lock");
        let a_row = |time: Duration| 1e6 * time.as_secs_f64() / rows;
        let waited: Duration = locks.iter().map(|lock| lock.waited).sum();
        Round {
            rate: rows / seconds,
            taken: queue.n as f64 / rows,
            held_us: a_row(queue.held),
            long_us: a_row(queue.long),
            waited_us: a_row(queue.waited),
            waiting: 100.0 * waited.as_secs_f64() / (seconds * n_threads as f64),
        }
    };
    (0..n_rounds).map(round).collect()
}

fn next(pipeline: &Pipeline) -> Batch {
    loop {
        match pipeline.next(Duration::from_secs(1)).unwrap() {
            Next::Batch(batch) => return batch,
            Next::Pending => {}
            Next::End => panic!("the stream has no end"),
        }
    }
}

fn check(batch: &Batch) {
    let audio = batch.columns.iter().find_map(|(_, column)| match column {
        Column::Samples { shape, .. } => Some(shape),
        _ => None,
    });
    assert_eq!(audio.unwrap(), &[BATCH, (32_000.0 * SECONDS) as usize]);
}

fn options(written: &Written, n_threads: usize) -> Options {
    let crop = Crop::Random { seconds: SECONDS };
    let spec = AudioSpec { channels: Channels::Mono, crop, ..AudioSpec::WHOLE };
    let shuffle = Shuffle { seed: 1, window: None, reshuffle: true };
    let source = SourceOptions {
        paths: vec![written.path.clone()],
        labels: Labels::Map,
        storage_options: StorageOptions::default(),
        columns: None,
        audio: AudioRequest::Decode { column: Some("audio".to_owned()), spec },
        order: OrderSpec { shuffle: Some(shuffle), epochs: None, ..OrderSpec::ONCE },
        root: None,
        events: None,
        crop_seed: 1,
        rows: RowSpec::default(),
        weights: None,
        exclude: Vec::new(),
        expected_rows: Vec::new(),
        max_missing: None,
    };
    Options {
        sources: vec![source],
        mixture: None,
        on_error: OnError::Raise,
        batch_size: Some(BATCH),
        remainder: Remainder::Keep,
        styles: Styles::default(),
        binary: Binary::Bytes,
        with_row_id: false,
        with_crop: false,
        n_threads: Some(n_threads),
        n_requests: None,
        memory_budget: 1 << 30,
        prefetch_batches: 4,
        index_dir: IndexDir::Nowhere,
        audio_index: false,
        range_cache: None,
        retries: 0,
        page_cache: true,
    }
}
