//! A-law and mu-law, ITU-T G.711: eight bits that stand for a sample on a logarithmic scale.

/// The 16-bit samples that A-law codes stand for.
pub(crate) static A_LAW: [i16; 256] = table(true);

/// The 16-bit samples that mu-law codes stand for.
pub(crate) static MU_LAW: [i16; 256] = table(false);

#[allow(clippy::indexing_slicing)] // evaluated by the compiler, which would refuse a wrong index
const fn table(is_a_law: bool) -> [i16; 256] {
    let mut table = [0; 256];
    let mut code = 0;
    while code < 256 {
        table[code] = if is_a_law { a_law(code as u8) } else { mu_law(code as u8) };
        code += 1;
    }
    table
}

const fn a_law(code: u8) -> i16 {
    // Even bits come inverted.
    let code = code ^ 0x55;
    let (exponent, mantissa) = (code >> 4 & 7, (code & 15) as i16);
    let magnitude = match exponent {
        0 => (mantissa << 4) + 8,
        _ => ((mantissa << 4) + 0x108) << (exponent - 1),
    };
    if code & 0x80 == 0 { -magnitude } else { magnitude }
}

const fn mu_law(code: u8) -> i16 {
    let code = !code;
    let (exponent, mantissa) = (code >> 4 & 7, (code & 15) as i16);
    let magnitude = (((mantissa << 3) + 0x84) << exponent) - 0x84;
    if code & 0x80 != 0 { -magnitude } else { magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_stand_for_what_the_standard_says() {
        assert_eq!([A_LAW[0xD5], A_LAW[0x55], A_LAW[0xAA], A_LAW[0x2A]], [8, -8, 32_256, -32_256]);
        assert_eq!([MU_LAW[0xFF], MU_LAW[0x7F], MU_LAW[0x80], MU_LAW[0]], [0, 0, 32_124, -32_124]);
    }

    #[test]
    fn magnitudes_rise_with_the_code() {
        let mut codes: Vec<i16> =
            (0..128u8).map(|code| A_LAW[usize::from((code | 0x80) ^ 0x55)]).collect();
        assert!(codes.is_sorted_by(|a, b| a < b));
        codes = (0..128u8).map(|code| MU_LAW[usize::from(!code)]).collect();
        assert!(codes.is_sorted_by(|a, b| a > b) || codes.is_sorted_by(|a, b| a < b));
    }
}
