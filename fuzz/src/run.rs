//! Feeds a target and keeps count.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use crate::{Outcome, Seed, Target, draw::Draw, memory, mutate::mutate, panics, target};

/// What one input came to.
#[derive(Clone, Debug)]
pub struct Report {
    /// The outcome, or what is wrong.
    pub verdict: Result<Outcome, String>,
    /// Where code of others panicked and was contained.
    pub contained: Vec<String>,
    /// The most bytes that were allocated at a time.
    pub memory: usize,
}

/// An input that breaks its target's property.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The input.
    pub bytes: Vec<u8>,
    /// What is wrong.
    pub what: String,
}

/// What many inputs came to.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Inputs so far.
    pub n_inputs: u64,
    /// Those that ended in data.
    pub n_data: u64,
    /// Places where code of others panicked and was contained, and how often.
    pub contained: BTreeMap<String, u64>,
    /// One input for each of these places.
    pub examples: BTreeMap<String, Vec<u8>>,
    /// Time spent in the target.
    pub time: Duration,
    /// The longest that one input took, and the input.
    pub slowest: (Duration, Vec<u8>),
    /// The most memory that one input took.
    pub most_memory: usize,
    /// Broken properties, at most 20 of them.
    pub findings: Vec<Finding>,
    /// All broken properties.
    pub n_findings: u64,
}

/// Gives one input to a target. A panic that escapes, one in our own code even if it is contained,
/// and too much memory break every property.
pub fn run_one(target: Target, bytes: &[u8]) -> Report {
    let ((result, places), memory) = memory::measured(|| panics::watched(|| (target.holds)(bytes)));
    let mut verdict = result.unwrap_or_else(|message| Err(format!("panicked: {message}")));
    if let Some(place) = places.iter().find(|place| panics::is_ours(place)) {
        verdict = Err(format!("panicked in our own code, at {place}: {verdict:?}"));
    } else if verdict.is_ok() && memory > target.max_memory + 16 * bytes.len() {
        verdict = Err(format!("{memory} bytes of memory for {} bytes", bytes.len()));
    }
    Report { verdict, contained: places, memory }
}

/// Gives libFuzzer's input to a target, and ends the process where its property breaks.
///
/// libFuzzer's own hook would end it at every contained panic.
pub fn check(name: &str, bytes: &[u8]) {
    let target = target(name).expect("a target of this name");
    if let Err(what) = run_one(target, bytes).verdict {
        eprintln!("{name}: {what}");
        std::process::abort();
    }
}

/// Feeds mutants of `seeds` until there were `n_inputs` or `time` is over.
///
/// Mutant `i` depends on `seed`, `i` and the seeds alone.
pub fn run(target: Target, seeds: &[Seed], n_inputs: u64, seed: u64, time: Duration) -> Totals {
    let mut totals = Totals::default();
    let end = Instant::now() + time;
    for i in 0..n_inputs {
        let mut draw = Draw::new(seed ^ Draw::new(i).word());
        let (from, other) = (draw.index(seeds.len()), draw.index(seeds.len()));
        let mut bytes = seeds[from].bytes.clone();
        mutate(&mut bytes, &seeds[other].bytes, &mut draw);
        totals.add(target, bytes);
        if Instant::now() > end {
            break;
        }
    }
    totals
}

impl Totals {
    /// Gives one more input to the target.
    pub fn add(&mut self, target: Target, bytes: Vec<u8>) {
        let start = Instant::now();
        let report = run_one(target, &bytes);
        let time = start.elapsed();
        self.n_inputs += 1;
        self.n_data += u64::from(report.verdict == Ok(Outcome::Data));
        self.time += time;
        self.most_memory = self.most_memory.max(report.memory);
        for place in report.contained {
            self.examples.entry(place.clone()).or_insert_with(|| bytes.clone());
            *self.contained.entry(place).or_default() += 1;
        }
        if time > self.slowest.0 {
            self.slowest = (time, bytes.clone());
        }
        if let Err(what) = report.verdict {
            self.n_findings += 1;
            if self.findings.len() < 20 {
                self.findings.push(Finding { bytes, what });
            }
        }
    }
}
