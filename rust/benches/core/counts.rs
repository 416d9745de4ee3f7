//! Instructions, which do not depend on what else the machine does: `make bench-counts`.

#![allow(missing_docs)] // the macros write items without documentation

mod cases;

use cases::{Assembly, ROW_BYTES, Reading, Written};
use gristmill_core::{order::Order, shard::Shard};
use gungraun::{
    Callgrind, LibraryBenchmarkConfig, library_benchmark, library_benchmark_group, main,
};

#[library_benchmark]
#[bench::file_order(cases::file_order())]
#[bench::global(cases::global())]
#[bench::windowed(cases::windowed())]
#[bench::mixture(cases::mixture())]
fn order(order: Order) -> u64 {
    cases::positions(&order)
}

#[library_benchmark]
#[bench::of_50_record_batches(Written::audio(50, ROW_BYTES))]
fn open_shard(written: Written) -> Shard {
    written.open()
}

#[library_benchmark]
#[bench::of_audio(Reading::new())]
fn read_rows(mut reading: Reading) -> usize {
    reading.read()
}

#[library_benchmark]
#[bench::numbers(Assembly::numbers())]
#[bench::strings(Assembly::strings())]
#[bench::tokens(Assembly::tokens())]
fn assemble(assembly: Assembly) -> usize {
    assembly.join()
}

#[library_benchmark]
fn queue() -> Vec<u64> {
    cases::queue()
}

library_benchmark_group!(
    name = stages,
    benchmarks = [order, open_shard, read_rows, assemble, queue]
);

main!(
    config = LibraryBenchmarkConfig::default().tool(Callgrind::with_args(["--cache-sim=no"])),
    library_benchmark_groups = stages
);
