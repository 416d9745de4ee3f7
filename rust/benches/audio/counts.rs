//! Instructions, which do not depend on what else the machine does: `make bench-counts`.

#![allow(missing_docs)] // the macros write items without documentation

mod cases;

use cases::Job;
use gungraun::{
    Callgrind, LibraryBenchmarkConfig, library_benchmark, library_benchmark_group, main,
};

/// Named one by one: what is compared between commits goes by these names.
macro_rules! each_recording {
    ($name:ident) => {
        #[library_benchmark(setup = Job::$name)]
        #[bench::wav("wav")]
        #[bench::flac_mono("flac-mono")]
        #[bench::alac_mono("alac-mono")]
        #[bench::vorbis_mono("vorbis-mono")]
        #[bench::vorbis_stereo("vorbis-stereo")]
        #[bench::mp3_stereo("mp3-stereo")]
        #[bench::opus_mono("opus-mono")]
        #[bench::aac_stereo("aac-stereo")]
        fn $name(mut job: Job) -> usize {
            job.run()
        }
    };
}

each_recording!(whole);
each_recording!(crop);

#[library_benchmark(setup = Job::resampled)]
#[bench::from_44100_to_32000("44100-to-32000")]
#[bench::from_48000_to_32000("48000-to-32000")]
#[bench::from_44100_to_16000("44100-to-16000")]
#[bench::from_22050_to_32000("22050-to-32000")]
#[bench::from_44100_to_48000("44100-to-48000")]
#[bench::from_44100_to_32000_torchaudio("44100-to-32000-torchaudio")]
fn resample(mut job: Job) -> usize {
    job.run()
}

library_benchmark_group!(name = codecs, benchmarks = [whole, crop, resample]);

main!(
    config = LibraryBenchmarkConfig::default().tool(Callgrind::with_args(["--cache-sim=no"])),
    library_benchmark_groups = codecs
);
