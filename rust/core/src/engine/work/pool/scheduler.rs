//! Which client a thread works for next.
//!
//! A free thread goes to the client that has work and the fewest threads; among equals, to the one
//! with the least thread time so far. So threads are shared evenly between the clients that can use
//! them (max-min fairness), and a client whose rows take seconds slows down one whose rows take
//! milliseconds by no more than its share. A client that was idle gets no credit for that, as in
//! start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996).

use std::{sync::Arc, time::Duration};

use super::Work;
use crate::metrics::CpuTime;

/// How long a thread works for a client while no other has work.
const IDLE_SLICE: Duration = Duration::from_millis(1);

/// How long it works for the only client: so the pool's lock is taken less often.
const SOLE_SLICE: Duration = Duration::from_millis(4);

#[derive(Default)]
pub(super) struct Scheduler {
    clients: Vec<Entry>,
    next_id: u64,
    /// The virtual time, with which new and idle clients start: the highest of the clients that were
    /// served.
    virtual_time: Duration,
    /// Thread time of all work so far, of all clients.
    busy: Duration,
}

/// A client.
struct Entry {
    id: u64,
    work: Arc<dyn Work>,
    n_running: usize,
    is_leaving: bool,
    /// Its thread time so far, from the scheduler's virtual time on when it joined or was idle.
    virtual_time: Duration,
    busy: Duration,
    /// The pool's thread time and CPU time when it joined.
    before: (Duration, CpuTime),
}

/// The times of a client's work.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClientTimes {
    /// Thread time of its work.
    pub(crate) busy: Duration,
    /// Thread time of others' work since it joined.
    pub(crate) others: Duration,
    /// Its part of the CPU time of all; `None` where the system does not tell.
    pub(crate) cpu: Option<CpuTime>,
}

impl Entry {
    /// The number of threads that it could use in addition now.
    fn n_lacking(&self) -> usize {
        if self.is_leaving {
            return 0;
        }
        self.work.n_ready().min(self.work.max_threads().saturating_sub(self.n_running))
    }
}

impl Scheduler {
    pub(super) fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    /// The threads that clients ask for: all of them together, and the one that asks for most.
    pub(super) fn n_asked_for(&self) -> (usize, usize) {
        let asked = || self.clients.iter().map(|client| client.work.max_threads());
        (asked().fold(0, usize::saturating_add), asked().max().unwrap_or(0))
    }

    /// Adds a client. Returns its id.
    pub(super) fn add(&mut self, work: Arc<dyn Work>, cpu: CpuTime) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.clients.push(Entry {
            id,
            work,
            n_running: 0,
            is_leaving: false,
            virtual_time: self.virtual_time,
            busy: Duration::ZERO,
            before: (self.busy, cpu),
        });
        id
    }

    /// Gives this client no more threads. Returns how many still work for it.
    pub(super) fn stop(&mut self, id: u64) -> usize {
        let Some(client) = self.clients.iter_mut().find(|client| client.id == id) else { return 0 };
        client.is_leaving = true;
        client.n_running
    }

    /// Removes a client. The caller drops its work without the pool's lock.
    pub(super) fn remove(&mut self, id: u64, cpu: CpuTime) -> Option<(ClientTimes, Arc<dyn Work>)> {
        let times = self.times(id, cpu)?;
        let at = self.clients.iter().position(|client| client.id == id)?;
        Some((times, self.clients.swap_remove(at).work))
    }

    /// The times of a client; `None` if it does not exist.
    pub(super) fn times(&self, id: u64, cpu: CpuTime) -> Option<ClientTimes> {
        let client = self.clients.iter().find(|client| client.id == id)?;
        let (busy_before, cpu_before) = client.before;
        let all = self.busy.saturating_sub(busy_before);
        let share = client.busy.as_secs_f64() / all.as_secs_f64().max(f64::MIN_POSITIVE);
        Some(ClientTimes {
            busy: client.busy,
            others: all.saturating_sub(client.busy),
            cpu: (cpu != CpuTime::default()).then(|| cpu.since(cpu_before).part(share.min(1.0))),
        })
    }

    pub(super) fn has_work(&self) -> bool {
        self.clients.iter().any(|client| client.n_lacking() > 0)
    }

    /// The client to work for next, and for how long: one piece of work if others wait for a thread.
    pub(super) fn next(&mut self) -> Option<(u64, Arc<dyn Work>, Duration)> {
        let is_sole = self.clients.len() == 1;
        let mut best: Option<&mut Entry> = None;
        let mut n_waiting = 0;
        for client in &mut self.clients {
            if client.n_lacking() > 0 {
                n_waiting += 1;
                let key = |client: &Entry| (client.n_running, client.virtual_time);
                if best.as_ref().is_none_or(|best| key(client) < key(best)) {
                    best = Some(client);
                }
            } else if client.n_running == 0 {
                client.virtual_time = client.virtual_time.max(self.virtual_time);
            }
        }
        let client = best?;
        self.virtual_time = self.virtual_time.max(client.virtual_time);
        client.n_running += 1;
        let slice = match n_waiting {
            1 if is_sole => SOLE_SLICE,
            1 => IDLE_SLICE,
            _ => Duration::ZERO,
        };
        Some((client.id, Arc::clone(&client.work), slice))
    }

    /// Work for a client has ended, after this time. Returns whether the client waits for that, to
    /// leave.
    pub(super) fn done(&mut self, id: u64, took: Duration) -> bool {
        self.busy += took;
        let Some(client) = self.clients.iter_mut().find(|client| client.id == id) else {
            return false;
        };
        client.n_running -= 1;
        client.virtual_time += took;
        client.busy += took;
        client.is_leaving
    }
}
