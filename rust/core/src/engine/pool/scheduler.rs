//! Whose turn it is.
//!
//! A free thread goes to the client that has work and the fewest threads, among equals to the one
//! that has had the least time. So threads are shared out evenly between those that can use them
//! (max-min fair), and what remains is shared by time: a client whose rows take seconds slows down
//! one whose rows take milliseconds by no more than its share. A client that was idle gets no credit
//! for that, as in start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996).

use std::{sync::Arc, time::Duration};

use super::Work;
use crate::metrics::CpuTime;

#[derive(Default)]
pub(super) struct Scheduler {
    clients: Vec<Entry>,
    next_id: u64,
    /// The time that the clients which were served had had: what a new or idle one starts with.
    clock: Duration,
    /// Thread time of all work so far, for whichever client.
    busy: Duration,
}

/// A client, as the scheduler sees it.
struct Entry {
    id: u64,
    work: Arc<dyn Work>,
    n_running: usize,
    is_leaving: bool,
    /// The time that it has had, or that counts as had.
    had: Duration,
    busy: Duration,
    /// The pool's own figures when it joined.
    before: (Duration, CpuTime),
}

/// What a client had of the threads of its pool.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClientTimes {
    /// Thread time at work for it.
    pub(crate) busy: Duration,
    /// Thread time at work for others since it joined.
    pub(crate) others: Duration,
    /// Its part of the CPU time of all; `None` where the system does not tell.
    pub(crate) cpu: Option<CpuTime>,
}

impl Entry {
    /// Threads that could come to work for it now.
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

    /// Threads that the clients ask for: all together, and the one that asks for most.
    pub(super) fn n_asked_for(&self) -> (usize, usize) {
        let asked = || self.clients.iter().map(|client| client.work.max_threads());
        (asked().fold(0, usize::saturating_add), asked().max().unwrap_or(0))
    }

    pub(super) fn enter(&mut self, work: Arc<dyn Work>, cpu: CpuTime) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.clients.push(Entry {
            id,
            work,
            n_running: 0,
            is_leaving: false,
            had: self.clock,
            busy: Duration::ZERO,
            before: (self.busy, cpu),
        });
        id
    }

    /// Gives this client no more threads; how many still work for it.
    pub(super) fn dismiss(&mut self, id: u64) -> usize {
        let Some(client) = self.clients.iter_mut().find(|client| client.id == id) else { return 0 };
        client.is_leaving = true;
        client.n_running
    }

    /// Takes it out. Its work is to be dropped without the pool's lock.
    pub(super) fn remove(&mut self, id: u64, cpu: CpuTime) -> Option<(ClientTimes, Arc<dyn Work>)> {
        let times = self.times(id, cpu)?;
        let at = self.clients.iter().position(|client| client.id == id)?;
        Some((times, self.clients.swap_remove(at).work))
    }

    /// `None` where there is no such client.
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

    /// The client to work for next, and whether no other one has work, if there is anything to do.
    pub(super) fn next(&mut self) -> Option<(u64, Arc<dyn Work>, bool)> {
        let mut best: Option<&mut Entry> = None;
        let mut n_waiting = 0;
        for client in &mut self.clients {
            if client.n_lacking() > 0 {
                n_waiting += 1;
                let key = |client: &Entry| (client.n_running, client.had);
                if best.as_ref().is_none_or(|best| key(client) < key(best)) {
                    best = Some(client);
                }
            } else if client.n_running == 0 {
                client.had = client.had.max(self.clock);
            }
        }
        let client = best?;
        self.clock = self.clock.max(client.had);
        client.n_running += 1;
        Some((client.id, Arc::clone(&client.work), n_waiting == 1))
    }

    /// Work for a client has ended, which took so long; whether it waits for that in order to leave.
    pub(super) fn done(&mut self, id: u64, took: Duration) -> bool {
        self.busy += took;
        let Some(client) = self.clients.iter_mut().find(|client| client.id == id) else {
            return false;
        };
        client.n_running -= 1;
        client.had += took;
        client.busy += took;
        client.is_leaving
    }
}
