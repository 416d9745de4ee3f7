//! Whose turn it is.
//!
//! A free thread goes to the seat that has work and the fewest threads, among equals to the one
//! that has had the least time. So threads are shared out evenly between those that can use them
//! (max-min fair), and what remains is shared by time: a pipeline whose rows take seconds does not
//! slow down one whose rows take milliseconds more than by its share. A seat that was idle is given
//! no credit for that, as in start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996).

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::Work;
use crate::stats::{Census, CpuTime, SeatTimes};

#[derive(Default)]
pub(super) struct Roster {
    seats: Vec<Place>,
    next_id: u64,
    /// The time that the seats which were served had had: what one gets that comes new or was idle.
    clock: Duration,
    /// Threads in a turn, for whichever seat.
    turns: Census,
}

/// A seat, as the roster sees it.
struct Place {
    id: u64,
    work: Arc<dyn Work>,
    /// So many threads may work for it at a time.
    most: usize,
    is_leaving: bool,
    /// The time that it has had, or that counts as had.
    had: Duration,
    /// Threads that it asks for.
    alive: Census,
    /// Threads in a turn for it.
    turns: Census,
    /// Threads that it could use, and that work for others.
    elsewhere: Census,
    /// The pool's own figures when it came.
    before: (Duration, CpuTime),
}

impl Place {
    /// Threads that could come to work for it now.
    fn n_lacking(&self) -> usize {
        if self.is_leaving {
            return 0;
        }
        self.work.n_ready().min(self.most.saturating_sub(self.turns.n()))
    }

    fn times(&self, turns: Duration, cpu: CpuTime, now: Instant) -> SeatTimes {
        let (turns_before, cpu_before) = self.before;
        let (mine, all) = (self.turns.total(now), turns.saturating_sub(turns_before));
        let share = mine.as_secs_f64() / all.as_secs_f64().max(f64::MIN_POSITIVE);
        SeatTimes {
            alive: self.alive.total(now),
            turns: mine,
            elsewhere: self.elsewhere.total(now),
            cpu: (cpu != CpuTime::default()).then(|| cpu.since(cpu_before).part(share.min(1.0))),
        }
    }
}

impl Roster {
    pub(super) fn is_empty(&self) -> bool {
        self.seats.is_empty()
    }

    /// Threads that the seats ask for: all together, and the one that asks for most.
    pub(super) fn n_asked_for(&self) -> (usize, usize) {
        let asked = || self.seats.iter().map(|seat| seat.most);
        (asked().fold(0, usize::saturating_add), asked().max().unwrap_or(0))
    }

    pub(super) fn enter(
        &mut self,
        work: Arc<dyn Work>,
        most: usize,
        cpu: CpuTime,
        now: Instant,
    ) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let mut alive = Census::default();
        alive.set(most, now);
        self.seats.push(Place {
            id,
            work,
            most,
            is_leaving: false,
            had: self.clock,
            alive,
            turns: Census::default(),
            elsewhere: Census::default(),
            before: (self.turns.total(now), cpu),
        });
        id
    }

    /// Takes no more turns for this seat; how many are still being done.
    pub(super) fn dismiss(&mut self, id: u64) -> usize {
        let Some(seat) = self.seats.iter_mut().find(|seat| seat.id == id) else { return 0 };
        seat.is_leaving = true;
        seat.turns.n()
    }

    pub(super) fn remove(&mut self, id: u64, cpu: CpuTime, now: Instant) -> Option<SeatTimes> {
        let times = self.times(id, cpu, now);
        self.seats.retain(|seat| seat.id != id);
        self.count_elsewhere(now, 0);
        times
    }

    /// `None` where there is no such seat.
    pub(super) fn times(&self, id: u64, cpu: CpuTime, now: Instant) -> Option<SeatTimes> {
        let seat = self.seats.iter().find(|seat| seat.id == id)?;
        Some(seat.times(self.turns.total(now), cpu, now))
    }

    pub(super) fn has_work(&self) -> bool {
        self.seats.iter().any(|seat| seat.n_lacking() > 0)
    }

    /// Begins a turn, if there is anything to do, while `n_idle` other threads have nothing to do.
    pub(super) fn next(&mut self, now: Instant, n_idle: usize) -> Option<(u64, Arc<dyn Work>)> {
        let mut best: Option<&mut Place> = None;
        for seat in &mut self.seats {
            if seat.n_lacking() > 0 {
                let key = |seat: &Place| (seat.turns.n(), seat.had);
                if best.as_ref().is_none_or(|best| key(seat) < key(best)) {
                    best = Some(seat);
                }
            } else if seat.turns.n() == 0 {
                seat.had = seat.had.max(self.clock);
            }
        }
        let chosen = best.map(|seat| {
            self.clock = self.clock.max(seat.had);
            seat.turns.enter(now);
            self.turns.enter(now);
            (seat.id, Arc::clone(&seat.work))
        });
        self.count_elsewhere(now, n_idle);
        chosen
    }

    /// Ends a turn that began at `began`; whether somebody waits for it in order to leave.
    pub(super) fn back(&mut self, id: u64, began: Instant, now: Instant) -> bool {
        self.turns.leave(now);
        let Some(seat) = self.seats.iter_mut().find(|seat| seat.id == id) else { return false };
        seat.turns.leave(now);
        seat.had += now.saturating_duration_since(began);
        if seat.work.is_over() {
            seat.alive.set(seat.turns.n(), now);
        }
        seat.is_leaving
    }

    /// Counts anew how many threads each seat lacks because of the others. Threads that idle are
    /// already on their way.
    fn count_elsewhere(&mut self, now: Instant, n_idle: usize) {
        let is_shared = self.seats.len() > 1 && n_idle == 0;
        for seat in &mut self.seats {
            let n = if is_shared { seat.n_lacking() } else { 0 };
            if n != seat.elsewhere.n() {
                seat.elsewhere.set(n, now);
            }
        }
    }
}
