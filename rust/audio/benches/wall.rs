//! Times: `cargo bench -p gristmill-audio`. Each result is checked before it is timed.

mod cases;

use cases::{Job, RATES, RECORDINGS};
use divan::{Bencher, counter::ItemsCount};

fn main() {
    divan::main();
}

fn run(bencher: Bencher<'_, '_>, mut job: Job) {
    let samples = ItemsCount::new(job.n_samples());
    bencher.counter(samples).bench_local(|| job.run());
}

#[divan::bench(args = RECORDINGS)]
fn whole(bencher: Bencher<'_, '_>, name: &str) {
    run(bencher, Job::whole(name));
}

#[divan::bench(args = RECORDINGS)]
fn crop(bencher: Bencher<'_, '_>, name: &str) {
    run(bencher, Job::crop(name));
}

#[divan::bench(args = RATES.map(|of| of.0))]
fn resample(bencher: Bencher<'_, '_>, name: &str) {
    run(bencher, Job::resampled(name));
}
