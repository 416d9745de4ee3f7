//! Times: `cargo bench -p gristmill-benches --bench audio`. Each result is checked before it is timed.

mod cases;

use cases::{Job, RATES, RECORDINGS, symphonia::Peer};
use divan::{Bencher, counter::ItemsCount};

fn main() {
    divan::main();
}

fn run(bencher: Bencher<'_, '_>, mut job: Job) {
    time(bencher, job.n_samples(), || job.run());
}

fn run_peer(bencher: Bencher<'_, '_>, mut job: Job) {
    let mut peer = Peer::of(&mut job);
    time(bencher, job.n_samples(), || peer.run());
}

fn time<T>(bencher: Bencher<'_, '_>, n_samples: usize, job: impl FnMut() -> T) {
    bencher.counter(ItemsCount::new(n_samples)).bench_local(job);
}

#[divan::bench(args = RECORDINGS)]
fn whole(bencher: Bencher<'_, '_>, name: &str) {
    run(bencher, Job::whole(name));
}

#[divan::bench(args = RECORDINGS)]
fn crop(bencher: Bencher<'_, '_>, name: &str) {
    run(bencher, Job::crop(name));
}

/// What Symphonia takes for the same: `whole` and `crop` of these recordings.
const OF_SYMPHONIA: [&str; 2] = ["vorbis-mono", "vorbis-stereo"];

#[divan::bench(args = OF_SYMPHONIA)]
fn whole_by_symphonia(bencher: Bencher<'_, '_>, name: &str) {
    run_peer(bencher, Job::whole(name));
}

#[divan::bench(args = OF_SYMPHONIA)]
fn crop_by_symphonia(bencher: Bencher<'_, '_>, name: &str) {
    run_peer(bencher, Job::crop(name));
}

#[divan::bench(args = RATES.map(|of| of.0))]
fn resample(bencher: Bencher<'_, '_>, name: &str) {
    run(bencher, Job::resampled(name));
}
