//! The order: permutations, slices and excluded rows, against plain lists.

use gristmill_core::order::{
    Order, OrderSpec, Partition, Permutation, RowId, RowSlice, Rows, Shuffle, Slice, Window,
};

use crate::{Outcome, Verdict, draw::Fields, ensure};

/// Permutations are bijections, slices are Python's, and rows are those of a plain list. Numbers
/// larger than any data set have results inside the domain or typed errors.
pub fn order(data: &[u8]) -> Verdict {
    let mut fields = Fields(data);
    let (seed, epoch) = (fields.u64(), fields.u64());
    permutation(u64::from(fields.u16()) % 600, seed, epoch)?;
    large_permutation(fields.u64(), seed, epoch, fields.u64())?;
    let n_small = u64::from(fields.u8()) % 60;
    let slices: Vec<_> = (0..fields.u8() % 4).map(|_| slice(&mut fields)).collect();
    slicing(n_small, &slices)?;
    large_slicing(fields.u64(), &slices, fields.u64())?;
    rows(&mut fields, seed, epoch, &slices)
}

fn permutation(n: u64, seed: u64, epoch: u64) -> Result<(), String> {
    let permutation = Permutation::new(n, seed, epoch);
    let mut places: Vec<_> = (0..n).filter_map(|i| permutation.get(i)).collect();
    places.sort_unstable();
    ensure!(places.iter().copied().eq(0..n), "no permutation of 0..{n}");
    ensure!(permutation.get(n).is_none(), "a place for {n} in 0..{n}");
    Ok(())
}

fn large_permutation(n: u64, seed: u64, epoch: u64, position: u64) -> Result<(), String> {
    let n = n >> 2; // the most rows that there may be
    let permutation = Permutation::new(n, seed, epoch);
    let place = permutation.get(position);
    ensure!(place.is_some() == (position < n), "{position} of {n} goes to {place:?}");
    ensure!(place.is_none_or(|place| place < n), "{position} of {n} goes to {place:?}");
    let next = position.checked_add(1).and_then(|next| permutation.get(next));
    ensure!(place.is_none() || place != next, "{position} of {n} and the next go to {place:?}");
    Ok(())
}

fn slice(fields: &mut Fields<'_>) -> Slice {
    let mut bound = |allow_zero: bool| {
        let (kind, word) = (fields.u8(), fields.u64());
        let value = match kind % 8 {
            0 | 1 => return None,
            2 => word as i64,
            3 => i64::MIN.wrapping_add((word % 3) as i64),
            4 => i64::MAX.wrapping_sub((word % 3) as i64),
            _ => (word % 81) as i64 - 40,
        };
        Some(if value == 0 && !allow_zero { 1 } else { value })
    };
    let (start, stop, step) = (bound(true), bound(true), bound(false));
    Slice { start, stop, step, sequential: fields.u8().is_multiple_of(4) }
}

fn slicing(n: u64, slices: &[Slice]) -> Result<(), String> {
    let mut expected: Vec<u64> = (0..n).collect();
    let mut found = RowSlice::all(n);
    for slice in slices {
        expected = naive(&expected, slice);
        found = found.narrow(slice).map_err(|e| e.to_string())?;
    }
    let listed: Vec<_> = (0..found.len()).filter_map(|i| found.get(i)).collect();
    ensure!(listed == expected, "{n} by {slices:?}: {listed:?} instead of {expected:?}");
    ensure!(found.get(found.len()).is_none(), "{slices:?} has a row behind its end");
    Ok(())
}

/// The rule of Python's language reference, in numbers that cannot overflow.
fn naive(items: &[u64], slice: &Slice) -> Vec<u64> {
    let n = items.len() as i128;
    let step = i128::from(slice.step.unwrap_or(1));
    if let (true, Some(block), None) = (slice.sequential, slice.start, slice.stop) {
        let block = i128::from(block);
        if step > 1 && (0..step).contains(&block) {
            // The first ones have one more.
            let before = |block: i128| (block * (n / step) + block.min(n % step)) as usize;
            return items[before(block)..before(block + 1)].to_vec();
        }
    }
    let place = |bound: i64| i128::from(bound) + if bound < 0 { n } else { 0 };
    let (mut i, stop) = if step > 0 {
        let start = slice.start.map_or(0, |b| place(b).max(0));
        (start, slice.stop.map_or(n, |b| place(b).min(n)))
    } else {
        let start = slice.start.map_or(n - 1, |b| place(b).min(n - 1));
        (start, slice.stop.map_or(-1, |b| place(b).max(-1)))
    };
    let mut visited = Vec::new();
    while if step > 0 { i < stop } else { i > stop } {
        visited.push(items[i as usize]);
        i += step;
    }
    visited
}

fn large_slicing(n: u64, slices: &[Slice], i: u64) -> Result<(), String> {
    let n = n >> 2;
    let mut found = RowSlice::all(n);
    for slice in slices {
        let before = found.len();
        found = found.narrow(slice).map_err(|e| e.to_string())?;
        ensure!(found.len() <= before, "{slice:?} makes {before} rows {}", found.len());
    }
    let ends = [0, i % found.len().max(1), found.len().saturating_sub(1)];
    for i in ends.into_iter().filter(|&i| i < found.len()) {
        let place = found.get(i);
        ensure!(place.is_some_and(|p| p < n), "row {i} of {n} by {slices:?} is at {place:?}");
    }
    ensure!(found.get(found.len()).is_none(), "{slices:?} has a row behind its end");
    Ok(())
}

/// The whole stream of an order against lists, or typed errors for invalid parts.
fn rows(fields: &mut Fields<'_>, seed: u64, epoch: u64, slices: &[Slice]) -> Verdict {
    let is_lying = fields.u8().is_multiple_of(16);
    let count = |fields: &mut Fields<'_>| {
        if is_lying { fields.u64() } else { u64::from(fields.u8() % 20) }
    };
    let counts: Vec<_> = (0..fields.u8() % 6).map(|_| count(fields)).collect();
    let picks: Vec<_> = (0..fields.u8() % 8)
        .map(|_| (u32::from(fields.u8() % 6), u64::from(fields.u8() % 20)))
        .collect();
    let exists = |&(shard, row): &(u32, u64)| counts.get(shard as usize).is_some_and(|&n| row < n);
    let total =
        counts.iter().try_fold(0u64, |sum, &n| sum.checked_add(n)).filter(|&n| n <= 1 << 62);
    let is_sound = total.is_some() && picks.iter().all(exists);
    let rows = match Rows::new(&counts, &picks) {
        Ok(rows) => rows,
        Err(error) if is_sound => return Err(format!("{counts:?} without {picks:?}: {error}")),
        Err(_) => return Ok(Outcome::Refused),
    };
    ensure!(is_sound, "{counts:?} without {picks:?} are allowed");
    let n = rows.len();
    ensure!(rows.get(n).is_none(), "a row behind {n}");
    if n > 200 {
        let last = rows.get(n - 1);
        ensure!(last.is_some_and(|r| exists(&(r.shard, r.row))), "the last row is {last:?}");
        return Ok(Outcome::Data);
    }
    let listed: Vec<RowId> = (0u32..)
        .zip(&counts)
        .flat_map(|(shard, &n)| (0..n).map(move |row| RowId { shard, row }))
        .filter(|id| !picks.contains(&(id.shard, id.row)))
        .collect();
    ensure!((0..n).filter_map(|i| rows.get(i)).eq(listed.iter().copied()), "rows of {counts:?}");
    let positions = slices.iter().fold((0..n).collect(), |all: Vec<_>, s| naive(&all, s));
    let shuffle =
        (!seed.is_multiple_of(3)).then_some(Shuffle { seed, window: None, reshuffle: true });
    let slices = slices.to_vec();
    let spec = OrderSpec { shuffle, slices, epochs: Some(3), ..OrderSpec::ONCE };
    windowed(&rows, fields)?;
    let mut order = Order::new(rows, &spec).map_err(|e| e.to_string())?;
    let epoch = epoch % 3;
    let permutation = shuffle.map(|shuffle| Permutation::new(n, shuffle.seed, epoch));
    for (i, &position) in (0u64..).zip(&positions) {
        let nth = permutation.as_ref().map_or(Some(position), |p| p.get(position));
        let expected = nth.map(|nth| listed[nth as usize]);
        let index = order.resume_at(epoch, i, 0).map_err(|e| e.to_string())?;
        let step = order.step(index);
        ensure!(
            step.is_some_and(|s| s.epoch == epoch && Some(s.row) == expected),
            "step {index} is {step:?} instead of {expected:?}"
        );
    }
    let end = 3 * positions.len() as u64;
    ensure!(order.len() == Some(end) && order.step(end).is_none(), "a step behind {end}");
    ensure!(order.resume_at(epoch, end + 1, 0).is_err(), "a state behind the end");
    Ok(Outcome::Data)
}

/// All hosts of a windowed order together have every row of an epoch once.
fn windowed(rows: &Rows, fields: &mut Fields<'_>) -> Result<(), String> {
    let window = Window { rows: fields.u64() % 64, streams: fields.u64() % 16 };
    let shuffle = Shuffle { seed: fields.u64(), window: Some(window), reshuffle: true };
    let n_hosts = u64::from(fields.u8() % 5) + 1;
    let mut delivered = Vec::new();
    for offset in 0..n_hosts {
        let partition = Partition { offset, stride: n_hosts, multiple_of: 1 };
        let spec = OrderSpec { shuffle: Some(shuffle), partition, ..OrderSpec::ONCE };
        match Order::new(rows.clone(), &spec) {
            Ok(order) => delivered.extend((0..).map_while(|i| order.step(i)).map(|step| step.row)),
            Err(_) if window.rows == 0 || window.streams == 0 => return Ok(()),
            Err(error) => return Err(format!("{spec:?}: {error}")),
        }
    }
    delivered.sort_unstable();
    ensure!(
        delivered.into_iter().eq((0..).map_while(|i| rows.get(i))),
        "{shuffle:?}: not every row once"
    );
    Ok(())
}
