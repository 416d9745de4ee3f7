//! Times: `cargo bench -p gristmill-benches --bench core`. Results are checked before.

mod cases;

use cases::{Assembly, BATCH, POSITIONS, ROW_BYTES, Reading, Written};
use divan::{Bencher, counter::ItemsCount};
use gristmill_core::order::Order;

fn main() {
    divan::main();
}

/// Positions of 10^9 rows, one after another; with weights, of 10^8.
#[divan::bench(args = ["file order", "global", "windowed", "mixture of 10", "weighted"])]
fn order(bencher: Bencher<'_, '_>, name: &str) {
    let order: Order = match name {
        "global" => cases::global(),
        "windowed" => cases::windowed(),
        "mixture of 10" => cases::mixture(),
        "weighted" => cases::weighted(),
        _ => cases::file_order(),
    };
    bencher.counter(ItemsCount::new(POSITIONS)).bench(|| cases::positions(&order));
}

/// Headers of record batches of 100 rows of audio.
#[divan::bench(args = [1, 50])]
fn open_shard(bencher: Bencher<'_, '_>, n_batches: usize) {
    let written = Written::audio(n_batches, ROW_BYTES);
    bencher.counter(ItemsCount::new(n_batches)).bench(|| written.open());
}

/// Rows of 10 kB, each with the table of its record batch, from the page cache.
#[divan::bench]
fn read_rows(bencher: Bencher<'_, '_>) {
    let mut reading = Reading::new();
    bencher.counter(ItemsCount::new(BATCH)).bench_local(|| reading.read());
}

/// A column of a batch.
#[divan::bench(args = ["numbers", "strings", "tokens"])]
fn assemble(bencher: Bencher<'_, '_>, column: &str) {
    let assembly = match column {
        "numbers" => Assembly::numbers(),
        "strings" => Assembly::strings(),
        _ => Assembly::tokens(),
    };
    bencher.counter(ItemsCount::new(BATCH)).bench(|| assembly.join());
}

/// All events of a row at the queue and its lock.
#[divan::bench]
fn queue(bencher: Bencher<'_, '_>) {
    assert!(cases::queue().into_iter().eq(0..cases::QUEUED));
    bencher.counter(ItemsCount::new(cases::QUEUED)).bench(cases::queue);
}
