//! A snapshot of the statistics as `gristmill.metrics.stats.Stats`.

use std::time::Duration;

use gristmill_core::metrics::{Snapshot, StageTimes, ThreadTimes};
use pyo3::{prelude::*, types::PyTuple};

use crate::{classes::make, text::text};

/// The classes of Python's, filled.
pub(crate) fn to_python<'py>(py: Python<'py>, stats: &Snapshot) -> PyResult<Bound<'py, PyAny>> {
    let Snapshot { storage, caches, depths, memory, waits, pauses, .. } = stats;
    let shards = stats.shards.iter().map(|shard| {
        make!(SHARD {
            py,
            path: text(py, &shard.name)?,
            dataset: shard.data_set,
            requests: shard.requests,
            bytes: shard.bytes,
            busy_seconds: seconds(shard.busy),
            throttled: shard.throttled,
            retries: shard.retries,
            decoded_rows: shard.rows.decoded,
            bad_rows: shard.rows.bad,
            damaged_rows: shard.rows.damaged,
            decode_busy_seconds: seconds(shard.rows.busy),
            bad_busy_seconds: seconds(shard.rows.bad_busy),
        })
    });
    make!(STATS {
        py,
        elapsed_seconds: seconds(stats.elapsed),
        opening_seconds: stats.opening.map(seconds),
        first_element_seconds: stats.first_element.map(seconds),
        elements: stats.elements,
        rows: stats.rows,
        bad_rows: stats.bad_rows,
        stages: make!(STAGES {
            py,
            plan: stage(py, &stats.plan)?,
            read: stage(py, &stats.read)?,
            decode: stage(py, &stats.decode)?,
            resample: stage(py, &stats.resample)?,
            assemble: stage(py, &stats.assemble)?,
            deliver: stage(py, &stats.deliver)?,
            consumer: stage(py, &stats.consumer)?,
        })?,
        storage: make!(STORAGE {
            py,
            requests: storage.requests,
            bytes: storage.bytes,
            busy_seconds: seconds(storage.busy),
            throttled: storage.throttled,
            retries: storage.retries,
            latency_seconds: storage.latency.map(seconds),
            seconds_per_byte: storage.seconds_per_byte,
            spare_bytes: storage.spare_bytes,
        })?,
        caches: make!(CACHES {
            py,
            table_hits: caches.table_hits,
            table_loads: caches.table_loads,
            table_bytes: caches.table_bytes,
            file_hits: caches.file_hits,
            file_opens: caches.file_opens,
            range_hits: caches.range_hits,
            range_bytes: caches.range_bytes,
        })?,
        queues: make!(QUEUES {
            py,
            unfinished_rows: depths.unfinished_rows,
            read_rows: depths.read_rows,
            read_bytes: depths.read_bytes,
            open_batches: depths.open_batches,
            ready_batches: depths.ready_batches,
            mean_read_rows: depths.mean_read_rows,
            mean_ready_batches: depths.mean_ready_batches,
        })?,
        memory: make!(MEMORY {
            py,
            used_bytes: memory.used,
            peak_bytes: memory.peak,
            budget_bytes: memory.budget,
        })?,
        reader_waits: make!(READER_WAITS {
            py,
            look_ahead_seconds: seconds(waits.prefetch_depth),
            memory_budget_seconds: seconds(waits.memory_budget),
            tables_seconds: seconds(waits.tables),
            retries_seconds: seconds(waits.retries),
        })?,
        pauses: make!(PAUSES { py, count: pauses.count, seconds: seconds(pauses.total) })?,
        readers: threads(py, &stats.readers)?,
        decoders: threads(py, &stats.decoders)?,
        shards: PyTuple::new(py, shards.collect::<PyResult<Vec<_>>>()?)?,
        settings: make!(SETTINGS {
            py,
            num_threads: stats.decoders.count,
            num_requests: stats.readers.count,
            usable_cpus: stats.usable_cpus,
        })?,
    })
}

fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

fn stage<'py>(py: Python<'py>, times: &StageTimes) -> PyResult<Bound<'py, PyAny>> {
    make!(STAGE {
        py,
        count: times.count,
        busy_seconds: seconds(times.busy),
        waiting_seconds: seconds(times.waiting),
        p50_seconds: seconds(times.percentiles.p50),
        p90_seconds: seconds(times.percentiles.p90),
        p99_seconds: seconds(times.percentiles.p99),
    })
}

fn threads<'py>(py: Python<'py>, times: &ThreadTimes) -> PyResult<Bound<'py, PyAny>> {
    make!(THREADS {
        py,
        count: times.count,
        alive_seconds: seconds(times.alive),
        cpu_seconds: times.cpu.map(|cpu| seconds(cpu.used)),
        cpu_queue_seconds: times.cpu.map(|cpu| seconds(cpu.queued)),
        elsewhere_seconds: seconds(times.elsewhere),
    })
}
