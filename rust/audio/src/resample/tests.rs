//! The resampler beside its definition, in double precision.

use proptest::prelude::*;

use super::*;

fn noise(n: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 8) as f32 / 8_388_608.0 - 1.0
    })
    .take(n)
    .collect()
}

/// Output frames `first..end` of `x`.
fn crop(filter: Filter, x: &[f32], first: u64, end: u64) -> Vec<f32> {
    let (start, len) = filter.input_window(first, end);
    let window = (start..start + len as i64)
        .map(|i| usize::try_from(i).ok().and_then(|i| x.get(i)).copied().unwrap_or(0.0));
    let window: Vec<f32> = window.collect();
    let mut out = vec![f32::NAN; (end - first) as usize];
    let (tables, scratch) = (shared(filter), &mut Scratch::default());
    tables.resample(first, &window, &mut out, scratch, &Cancel::default()).unwrap();
    out
}

fn filter(from: u32, to: u32, resampler: Resampler) -> Filter {
    Filter { ratio: Ratio::of(from, to).unwrap().unwrap(), resampler }
}

/// One output frame in double precision, straight from the filter.
fn naive(filter: Filter, x: &[f32], m: u64) -> f64 {
    let design = filter.resampler.design(filter.ratio);
    let place = m as f64 * filter.ratio.down as f64 / filter.ratio.up as f64;
    let (first, last) = (place - design.half_width, place + design.half_width);
    let (mut sum, mut gain) = (0.0, 0.0);
    for i in first.ceil() as i64..=last.floor() as i64 {
        let h = design.at(i as f64 - place);
        gain += h;
        sum += h * usize::try_from(i).ok().and_then(|i| x.get(i)).map_or(0.0, |&x| x.into());
    }
    if design.is_band_limited { sum / gain } else { sum }
}

const RATES: [u32; 12] = [
    8_000, 11_025, 16_000, 22_050, 24_000, 32_000, 44_099, 44_100, 48_000, 50_000, 96_000, 192_000,
];

fn filters() -> impl Strategy<Value = Filter> {
    let rate = || prop::sample::select(&RATES[..]);
    let resampler = prop::sample::select(&Resampler::ALL[..]);
    (rate(), rate(), resampler)
        .prop_filter("equal rates are copied", |(from, to, _)| from != to)
        .prop_map(|(from, to, (_, resampler))| filter(from, to, resampler))
}

/// How far frame `m` may be from the definition: what rounding makes, and where phases are
/// interpolated, an eighth of the second difference at each tap, and the step in which the
/// window ends, if a tap is within one phase of it.
fn bound(filter: Filter, m: u64) -> f64 {
    let (design, tables) = (filter.resampler.design(filter.ratio), shared(filter));
    let Method::Direct(direct::Table { is_interpolated: true, n_phases, .. }) = tables.method
    else {
        return 3e-6;
    };
    let place = m as f64 * filter.ratio.down as f64 / filter.ratio.up as f64;
    let ends = [place - design.half_width, place + design.half_width];
    let phase = 1.0 / n_phases as f64;
    let n_steps = ends.iter().filter(|end| (**end - end.round()).abs() <= phase).count();
    let step = design.at(design.half_width * (1.0 - 1e-12)).abs();
    let taps = (ends[0].ceil() as i64..=ends[1].floor() as i64).map(|i| i as f64 - place);
    let bend = |t: f64| design.at(t - phase) - 2.0 * design.at(t) + design.at(t + phase);
    3e-6 + taps.map(|t| bend(t).abs() / 8.0).sum::<f64>() + n_steps as f64 * step
}

#[test]
fn interpolated_tables_equal_the_definition() {
    for (_, resampler) in Resampler::ALL {
        for (from, to) in [(48_000, 44_099), (44_099, 32_000), (44_099, 48_000)] {
            let filter = filter(from, to, resampler);
            for seed in [216_548_116, 1, 2] {
                let x = noise(500, seed);
                let y = crop(filter, &x, 0, filter.ratio.n_out(500));
                for (m, &got) in y.iter().enumerate() {
                    let error = (f64::from(got) - naive(filter, &x, m as u64)).abs();
                    assert!(
                        error < bound(filter, m as u64),
                        "{filter:?}, seed {seed}, frame {m}: {error}"
                    );
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn equals_the_definition(filter in filters(), seed: u32, n in 1usize..3000) {
        let x = noise(n, seed);
        let n_out = filter.ratio.n_out(n as u64);
        let y = crop(filter, &x, 0, n_out);
        for m in (0..n_out).step_by(97) {
            let want = naive(filter, &x, m);
            let got = f64::from(y[m as usize]);
            prop_assert!((got - want).abs() < bound(filter, m), "{:?}, frame {}: {} {}", filter, m, got, want);
        }
    }

    #[test]
    fn a_crop_has_the_bits_of_the_whole(
        filter in filters(), seed: u32, n in 1usize..5000, a: u64, b: u64,
    ) {
        let x = noise(n, seed);
        let n_out = filter.ratio.n_out(n as u64);
        let first = a % n_out;
        let end = first + 1 + b % (n_out - first);
        let whole = crop(filter, &x, 0, n_out);
        let bits = |y: &[f32]| y.iter().map(|y| y.to_bits()).collect::<Vec<_>>();
        let slice = &whole[first as usize..end as usize];
        prop_assert_eq!(bits(&crop(filter, &x, first, end)), bits(slice));
    }
}

#[test]
fn every_instruction_set_gives_the_same_bits() {
    let rates = [(44_100, 32_000), (32_000, 16_000), (22_050, 48_000), (44_099, 32_000)];
    for ((from, to), (_, resampler)) in
        rates.into_iter().flat_map(|rates| Resampler::ALL.map(|r| (rates, r)))
    {
        let filter = filter(from, to, resampler);
        let (_, len) = filter.input_window(5, 9005);
        let x = noise(len, 3);
        let (mut fast, mut plain) = (vec![0.0; 9000], vec![0.0; 9000]);
        let (tables, cancel) = (shared(filter), Cancel::default());
        let scratch = &mut Scratch::default();
        tables.resample(5, &x, &mut fast, scratch, &cancel).unwrap();
        let scalar = pulp::Arch::Scalar;
        tables.resample_on(scalar, 5, &x, &mut plain, scratch, &cancel).unwrap();
        assert!(fast.iter().zip(&plain).all(|(a, b)| a.to_bits() == b.to_bits()), "{filter:?}");
    }
}

#[test]
fn a_tone_keeps_its_phase_and_gain() {
    let (from, to) = (44_100, 32_000);
    let tone =
        |rate: u32, i: u64| (2.0 * std::f64::consts::PI * 997.0 * i as f64 / f64::from(rate)).sin();
    let x: Vec<_> = (0..20_000).map(|i| tone(from, i) as f32).collect();
    let y = crop(filter(from, to, Resampler::Hq), &x, 1000, 9000);
    for (i, y) in y.iter().enumerate() {
        assert!((f64::from(*y) - tone(to, 1000 + i as u64)).abs() < 2e-6);
    }
}

fn filters_of(from: u32, to: u32) -> impl Iterator<Item = Filter> {
    Resampler::ALL.into_iter().map(move |(_, resampler)| filter(from, to, resampler))
}

#[test]
fn extreme_ratios_have_bounded_tables() {
    let rates = [(768_000, 751), (751, 768_000), (44_099, 32_000), (767_999, 768_000)];
    for (from, to) in rates.into_iter().chain([(48_000, 47_999), (5_000, 5), (1, 1_000)]) {
        for filter in filters_of(from, to) {
            if let Method::Direct(table) = Tables::new(filter).method {
                assert!(table.n_coefficients() <= 1 << 21, "{filter:?}: {table:?}");
            }
        }
    }
    assert!(Ratio::of(768_000, 700).is_err());
    assert!(Ratio::of(700, 768_000).is_err());
}
