//! Whole-number arithmetic that the sound depends on bit for bit.

/// `a` times the low half of `b`, which has its point at bit 16.
#[inline]
pub(super) fn times_half(a: i32, b: i32) -> i32 {
    ((i64::from(a) * i64::from(b as i16)) >> 16) as i32
}

/// The same of two whole numbers.
#[inline]
pub(super) fn times(a: i32, b: i32) -> i32 {
    ((i64::from(a) * i64::from(b)) >> 16) as i32
}

/// The upper half of a product.
#[inline]
pub(super) fn times_high(a: i32, b: i32) -> i32 {
    ((i64::from(a) * i64::from(b)) >> 32) as i32
}

/// `a / 2^shift`, rounded; `shift` is at least one.
#[inline]
pub(super) fn rounded(a: i32, shift: u32) -> i32 {
    ((a >> (shift - 1)).wrapping_add(1)) >> 1
}

/// The same of a product.
#[inline]
pub(super) fn rounded_long(a: i64, shift: u32) -> i64 {
    ((a >> (shift - 1)) + 1) >> 1
}

#[inline]
pub(super) fn to_sample(a: i32) -> i16 {
    a.clamp(i32::from(i16::MIN), i32::from(i16::MAX)) as i16
}

/// `a * 2^shift`, as far as it fits.
#[inline]
pub(super) fn raised(a: i32, shift: u32) -> i32 {
    a.clamp(i32::MIN >> shift, i32::MAX >> shift) << shift
}

/// The next of a sequence that looks random.
#[inline]
pub(super) fn next_random(seed: i32) -> i32 {
    seed.wrapping_mul(196_314_165).wrapping_add(907_633_515)
}

/// `a` and how many bits it was raised by so that it fills the word.
fn filled(a: i32) -> (i32, i32) {
    let room = (a.unsigned_abs().leading_zeros() as i32 - 1).clamp(0, 30);
    (a << room, room)
}

/// Brings an approximation to the wanted place of its point.
fn placed(a: i32, shift: i32) -> i32 {
    match shift {
        ..0 => raised(a, shift.unsigned_abs().min(31)),
        0..32 => a >> shift,
        _ => 0,
    }
}

/// About `2^place / b`, for a `b` that is not zero.
pub(super) fn inverse(b: i32, place: i32) -> i32 {
    let (b, room) = filled(if b == 0 { 1 } else { b });
    let about = (i32::MAX >> 2) / (b >> 16);
    let rest = (1i32 << 29).wrapping_sub(times_half(b, about)) << 3;
    let result = (about << 16).wrapping_add(times(rest, about));
    placed(result, 61 - room - place)
}

/// About `a * 2^place / b`, for a `b` that is not zero.
pub(super) fn quotient(a: i32, b: i32, place: i32) -> i32 {
    let (a, room_a) = filled(a);
    let (b, room_b) = filled(if b == 0 { 1 } else { b });
    let about = (i32::MAX >> 2) / (b >> 16);
    let result = times_half(a, about);
    let rest = a.wrapping_sub(times_high(b, result).wrapping_shl(3));
    placed(result.wrapping_add(times_half(rest, about)), 29 + room_a - room_b - place)
}

/// About the root of `a`.
pub(super) fn root(a: i32) -> i32 {
    if a <= 0 {
        return 0;
    }
    let zeros = a.leading_zeros();
    let fraction = (a as u32).rotate_right((56 - zeros) % 32) as i32 & 0x7f;
    let about = if zeros & 1 == 1 { 32_768 } else { 46_214 } >> (zeros >> 1);
    about + times_half(about, 213 * fraction)
}

/// About `2^(log / 128)`.
pub(super) fn power(log: i32) -> i32 {
    if log < 0 {
        return 0;
    }
    if log >= 3_967 {
        return i32::MAX;
    }
    let (whole, fraction) = (1i32 << (log >> 7), log & 0x7f);
    let curved = fraction + times_half(fraction * (128 - fraction), -174);
    if log < 2_048 { whole + ((whole * curved) >> 7) } else { whole + (whole >> 7) * curved }
}

/// The energy of samples, and by how many bits it was lowered to leave two free.
pub(super) fn energy(x: &[i16]) -> (i32, u32) {
    let sum = |first: i32, shift: u32| {
        x.chunks(2).fold(first, |sum, pair| {
            let two: u32 = pair.iter().map(|&x| i32::from(x).pow(2) as u32).sum();
            sum.wrapping_add((two >> shift) as i32)
        })
    };
    let len = x.len() as i32;
    let shift = 31 - len.leading_zeros().min(31);
    let first = sum(len, shift);
    let shift = (shift + 3).saturating_sub(first.leading_zeros());
    (sum(0, shift), shift)
}
