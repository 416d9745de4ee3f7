//! Feeds mutants of the seeds to targets and prints what came of it.

use std::{error::Error, fs, path::PathBuf, process::ExitCode, time::Duration};

use gristmill_fuzz::{TARGETS, Target, Totals, public_corpora, run, seeds};

const USAGE: &str = "\
fuzz-run [--target NAME|all] [--inputs N] [--seed S] [--seconds T] [--out FOLDER]
fuzz-run --target NAME --replay FILE

Feeds N mutants of the seeds (default 10000) to each target, for at most T seconds each. What
breaks a property, and one input for each place where other code panicked, is written to FOLDER
(default target/fuzz-findings). The exit status is 1 where there was a finding. A replay gives one
file to the target and leaves panics to say what they have to say.";

struct Options {
    target: String,
    n_inputs: u64,
    seed: u64,
    time: Duration,
    out: PathBuf,
    replay: Option<PathBuf>,
}

impl Options {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let mut options = Self {
            target: "all".to_owned(),
            n_inputs: 10_000,
            seed: 1,
            time: Duration::from_secs(24 * 3600),
            out: PathBuf::from("target/fuzz-findings"),
            replay: None,
        };
        while let Some(name) = args.next() {
            let value = args.next().ok_or(USAGE)?;
            match name.as_str() {
                "--target" => options.target = value,
                "--inputs" => options.n_inputs = value.parse()?,
                "--seed" => options.seed = value.parse()?,
                "--seconds" => options.time = Duration::from_secs(value.parse()?),
                "--out" => options.out = value.into(),
                "--replay" => options.replay = Some(value.into()),
                _ => return Err(USAGE.into()),
            }
        }
        Ok(options)
    }
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let options = Options::parse(std::env::args().skip(1))?;
    let is_wanted = |t: &Target| options.target == "all" || options.target == t.name;
    let targets: Vec<_> = TARGETS.into_iter().filter(is_wanted).collect();
    if targets.is_empty() {
        return Err(format!("there is no target '{}'", options.target).into());
    }
    if let Some(path) = &options.replay {
        let bytes = fs::read(path)?;
        for target in targets {
            println!("{}: {:?}", target.name, (target.holds)(&bytes));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut n_findings = 0;
    for target in targets {
        let mut seeds = seeds(target.name);
        // Long files are slow, and damage is lost in them.
        seeds.extend(public_corpora(target.name).into_iter().filter(|s| s.bytes.len() < 8192));
        let totals = run(target, &seeds, options.n_inputs, options.seed, options.time);
        print(target, &totals);
        write(target, &totals, &options.out)?;
        n_findings += totals.n_findings;
    }
    Ok(if n_findings > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn print(target: Target, totals: &Totals) {
    let Totals { n_inputs, n_data, time, most_memory, .. } = totals;
    println!(
        "{:16} {n_inputs:>9} inputs, {:>5.1} % with data, {:>6.1} s, slowest {:>7.1} ms, \
         at most {:>5.1} MiB, {} contained panics, {} findings",
        target.name,
        100.0 * *n_data as f64 / (*n_inputs).max(1) as f64,
        time.as_secs_f64(),
        totals.slowest.0.as_secs_f64() * 1e3,
        *most_memory as f64 / f64::from(1 << 20),
        totals.contained.values().sum::<u64>(),
        totals.n_findings,
    );
    for (place, n) in &totals.contained {
        println!("    contained {n:>6} at {place}");
    }
    for finding in &totals.findings {
        println!("    finding: {}", finding.what);
    }
}

fn write(target: Target, totals: &Totals, out: &std::path::Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(out)?;
    for (i, finding) in totals.findings.iter().enumerate() {
        fs::write(out.join(format!("{}-{i}", target.name)), &finding.bytes)?;
    }
    for (place, bytes) in &totals.examples {
        let place: String =
            place.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        fs::write(out.join(format!("{}-contained-{place}", target.name)), bytes)?;
    }
    fs::write(out.join(format!("{}-slowest", target.name)), &totals.slowest.1)?;
    Ok(())
}
