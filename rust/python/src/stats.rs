//! A snapshot of the statistics as plain Python values, by the names of `gristmill.metrics.stats`.

use std::time::Duration;

use gristmill_core::metrics::{Snapshot, StageTimes, ThreadTimes};
use pyo3::{
    prelude::*,
    types::{PyDict, PyList},
};

use crate::text::text;

/// A dictionary of dictionaries of numbers, which `gristmill.metrics.stats` makes its classes of.
pub(crate) fn to_dict<'py>(py: Python<'py>, stats: &Snapshot) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    all.set_item("elapsed_seconds", seconds(stats.elapsed))?;
    all.set_item("opening_seconds", stats.opening.map(seconds))?;
    all.set_item("first_element_seconds", stats.first_element.map(seconds))?;
    all.set_item("elements", stats.elements)?;
    all.set_item("rows", stats.rows)?;
    all.set_item("bad_rows", stats.bad_rows)?;
    all.set_item("usable_cpus", stats.usable_cpus)?;
    let stages = PyDict::new(py);
    for (name, times) in [
        ("plan", &stats.plan),
        ("read", &stats.read),
        ("decode", &stats.decode),
        ("resample", &stats.resample),
        ("assemble", &stats.assemble),
        ("deliver", &stats.deliver),
        ("consumer", &stats.consumer),
    ] {
        stages.set_item(name, stage(py, times)?)?;
    }
    all.set_item("stages", stages)?;
    all.set_item("storage", storage(py, stats)?)?;
    all.set_item("caches", caches(py, stats)?)?;
    all.set_item("queues", queues(py, stats)?)?;
    let memory = PyDict::new(py);
    memory.set_item("used_bytes", stats.memory.used)?;
    memory.set_item("peak_bytes", stats.memory.peak)?;
    memory.set_item("budget_bytes", stats.memory.budget)?;
    all.set_item("memory", memory)?;
    let pauses = PyDict::new(py);
    pauses.set_item("count", stats.pauses.count)?;
    pauses.set_item("seconds", seconds(stats.pauses.total))?;
    all.set_item("pauses", pauses)?;
    let waits = PyDict::new(py);
    waits.set_item("look_ahead_seconds", seconds(stats.waits.prefetch_depth))?;
    waits.set_item("memory_budget_seconds", seconds(stats.waits.memory_budget))?;
    waits.set_item("tables_seconds", seconds(stats.waits.tables))?;
    all.set_item("reader_waits", waits)?;
    all.set_item("readers", threads(py, &stats.readers)?)?;
    all.set_item("decoders", threads(py, &stats.decoders)?)?;
    let shards = PyList::empty(py);
    for shard in &stats.shards {
        let dict = PyDict::new(py);
        dict.set_item("path", text(py, &shard.name)?)?;
        dict.set_item("requests", shard.requests)?;
        dict.set_item("bytes", shard.bytes)?;
        dict.set_item("busy_seconds", seconds(shard.busy))?;
        dict.set_item("decoded_rows", shard.rows.decoded)?;
        dict.set_item("bad_rows", shard.rows.bad)?;
        dict.set_item("damaged_rows", shard.rows.damaged)?;
        dict.set_item("bad_busy_seconds", seconds(shard.rows.bad_busy))?;
        shards.append(dict)?;
    }
    all.set_item("shards", shards)?;
    Ok(all)
}

fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

fn stage<'py>(py: Python<'py>, times: &StageTimes) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("count", times.count)?;
    dict.set_item("busy_seconds", seconds(times.busy))?;
    dict.set_item("waiting_seconds", seconds(times.waiting))?;
    dict.set_item("p50_seconds", seconds(times.percentiles.p50))?;
    dict.set_item("p90_seconds", seconds(times.percentiles.p90))?;
    dict.set_item("p99_seconds", seconds(times.percentiles.p99))?;
    Ok(dict)
}

fn storage<'py>(py: Python<'py>, stats: &Snapshot) -> PyResult<Bound<'py, PyDict>> {
    let storage = &stats.storage;
    let dict = PyDict::new(py);
    dict.set_item("requests", storage.requests)?;
    dict.set_item("bytes", storage.bytes)?;
    dict.set_item("busy_seconds", seconds(storage.busy))?;
    dict.set_item("latency_seconds", storage.latency.map(seconds))?;
    dict.set_item("seconds_per_byte", storage.seconds_per_byte)?;
    Ok(dict)
}

fn caches<'py>(py: Python<'py>, stats: &Snapshot) -> PyResult<Bound<'py, PyDict>> {
    let caches = &stats.caches;
    let dict = PyDict::new(py);
    dict.set_item("table_hits", caches.table_hits)?;
    dict.set_item("table_loads", caches.table_loads)?;
    dict.set_item("table_bytes", caches.table_bytes)?;
    dict.set_item("file_hits", caches.file_hits)?;
    dict.set_item("file_opens", caches.file_opens)?;
    Ok(dict)
}

fn queues<'py>(py: Python<'py>, stats: &Snapshot) -> PyResult<Bound<'py, PyDict>> {
    let depths = &stats.depths;
    let dict = PyDict::new(py);
    dict.set_item("unfinished_rows", depths.unfinished_rows)?;
    dict.set_item("read_rows", depths.read_rows)?;
    dict.set_item("read_bytes", depths.read_bytes)?;
    dict.set_item("open_batches", depths.open_batches)?;
    dict.set_item("ready_batches", depths.ready_batches)?;
    dict.set_item("mean_read_rows", depths.mean_read_rows)?;
    dict.set_item("mean_ready_batches", depths.mean_ready_batches)?;
    Ok(dict)
}

fn threads<'py>(py: Python<'py>, times: &ThreadTimes) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("count", times.count)?;
    dict.set_item("alive_seconds", seconds(times.alive))?;
    dict.set_item("elsewhere_seconds", seconds(times.elsewhere))?;
    dict.set_item("cpu_seconds", times.cpu.map(|cpu| seconds(cpu.used)))?;
    dict.set_item("cpu_queue_seconds", times.cpu.map(|cpu| seconds(cpu.queued)))?;
    Ok(dict)
}
