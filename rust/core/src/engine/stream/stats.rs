//! A snapshot of a stream's statistics.

use std::{
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

use super::context::StreamContext;
use crate::{
    engine::{
        dataset::Dataset,
        row::Context,
        work::{Client, ClientTimes, Queue, QueueDepths},
    },
    metrics::{
        Caches, Depths, MemoryUse, ReaderWaits, Snapshot, StageTimes, StorageTimes, ThreadTimes,
    },
    threads::usable_cpus,
};

/// All statistics until now. `tables` are the hits, the loads and the bytes of the table cache.
pub(crate) fn snapshot(stream: &StreamContext, tables: (u64, u64, usize)) -> Snapshot {
    let StreamContext { context, queue, reader_count, .. } = stream;
    let Context { options, metrics, account, store, .. } = &**context;
    let requests = store.metrics();
    let (n_opened, n_retries) = requests.counts();
    let (range_hits, range_bytes) = requests.cache_hits();
    let (fit, reads) = (requests.latency(), requests.timer());
    let now = metrics.ended.get().copied().unwrap_or_else(Instant::now);
    let opened = metrics.opened.get();
    let since_open =
        opened.map_or(Duration::ZERO, |opened| now.saturating_duration_since(opened.at));
    let QueueDepths { claimed, unfinished, read, open, ready } = queue.read(Queue::depths);
    let read_bytes = queue.read(|queue| queue.read().map(|row| row.n_bytes()).sum());
    let [prefetch_depth, memory_budget, load] = metrics.idle.totals();
    let clients = queue.clients();
    let times = |client: Option<&Client>| client.map(Client::times).unwrap_or_default();
    let (reading, decoding) =
        (times(clients.map(|(readers, _)| readers)), times(clients.map(|(_, decoders)| decoders)));
    let readers = threads(reader_count.get(), reader_count.thread_time(since_open), &reading);
    let n_threads = options.n_threads();
    let decoders = threads(n_threads, since_open * n_threads as u32, &decoding);
    let (elements, rows) = metrics.consumer.taken();
    let (mean_ready_batches, mean_read_rows) = metrics.consumer.mean_depths();
    let in_opening = opened.map_or((0, Duration::ZERO), |opened| (opened.requests, opened.busy));
    let read_busy = reads.sum().saturating_sub(in_opening.1);
    let retries =
        requests.pauses().saturating_sub(opened.map_or(Duration::ZERO, |opened| opened.pauses));
    let (resample, assemble) = (metrics.resample.stage(), metrics.assemble.stage());
    let opening = opened.map(|opened| opened.at.saturating_duration_since(metrics.began));
    Snapshot {
        elapsed: metrics.began.elapsed(),
        opening,
        first_element: metrics.consumer.first_wait(),
        elements,
        rows,
        bad_rows: metrics.n_bad.load(Relaxed),
        plan: StageTimes {
            count: claimed,
            // This includes threads that were woken and do not have a CPU yet.
            busy: readers.alive.saturating_sub(
                readers.elsewhere + prefetch_depth + memory_budget + load + read_busy + retries,
            ),
            waiting: load,
            percentiles: metrics.tables.percentiles(),
        },
        read: StageTimes {
            count: reads.count().saturating_sub(in_opening.0),
            busy: read_busy,
            waiting: prefetch_depth + memory_budget + retries,
            percentiles: reads.percentiles(),
        },
        decode: StageTimes {
            count: if options.is_decoding() { claimed - unfinished as u64 } else { 0 },
            busy: decoding.busy.saturating_sub(resample.busy + assemble.busy),
            waiting: decoders.alive.saturating_sub(decoding.busy + decoders.elsewhere),
            percentiles: metrics.decode.percentiles(),
        },
        resample,
        assemble,
        deliver: metrics.consumer.deliveries(),
        consumer: metrics.consumer.times(),
        pauses: metrics.consumer.pauses(),
        storage: StorageTimes {
            requests: reads.count(),
            bytes: requests.bytes(),
            busy: reads.sum(),
            throttled: requests.n_throttled(),
            retries: n_retries,
            latency: fit.and_then(|(latency_s, _)| Duration::try_from_secs_f64(latency_s).ok()),
            seconds_per_byte: fit.map(|(_, seconds)| seconds),
            spare_bytes: metrics.spare_bytes.load(Relaxed),
        },
        caches: Caches {
            table_hits: tables.0,
            table_loads: tables.1,
            table_bytes: tables.2,
            file_hits: reads.count().saturating_sub(n_opened),
            file_opens: n_opened,
            range_hits,
            range_bytes,
        },
        depths: Depths {
            unfinished_rows: unfinished,
            read_rows: read,
            read_bytes,
            open_batches: open,
            ready_batches: ready,
            mean_read_rows,
            mean_ready_batches,
        },
        memory: MemoryUse {
            used: account.used(),
            peak: account.peak(),
            budget: options.memory_budget,
        },
        usable_cpus: usable_cpus(),
        waits: ReaderWaits { prefetch_depth, memory_budget, tables: load, retries },
        readers,
        decoders,
        shards: context.dataset.get().map(Dataset::reads).unwrap_or_default(),
    }
}

fn threads(count: usize, alive: Duration, times: &ClientTimes) -> ThreadTimes {
    // Others' work may be more than the time that this client could have used.
    let elsewhere = times.others.min(alive.saturating_sub(times.busy));
    ThreadTimes { count, alive, elsewhere, cpu: times.cpu }
}
