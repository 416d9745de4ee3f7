//! The two checksums of a FLAC frame, RFC 9639 sections 9.1.8 and 9.3.

/// CRC-8 with polynomial 0x07, over a frame's header.
pub(crate) fn crc_8(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |crc, &byte| look_up(&CRC_8, crc ^ byte))
}

/// Whether the bytes of a frame are those that were written. Zeros behind it do no harm.
pub(crate) fn is_intact(frame: &[u8]) -> bool {
    crc_16(frame) == 0
}

/// CRC-16 with polynomial 0x8005. Over a whole frame, its own checksum included, it is 0.
pub(crate) fn crc_16(bytes: &[u8]) -> u16 {
    let (words, rest) = bytes.as_chunks::<8>();
    let [t0, t1, t2, t3, t4, t5, t6, t7] = &CRC_16;
    // Eight bytes a step: a byte's table has the zeros behind it counted in.
    let crc = words.iter().fold(0u16, |crc, &[a, b, c, d, e, f, g, h]| {
        let [high, low] = crc.to_be_bytes();
        (look_up(t7, a ^ high) ^ look_up(t6, b ^ low))
            ^ (look_up(t5, c) ^ look_up(t4, d))
            ^ (look_up(t3, e) ^ look_up(t2, f))
            ^ (look_up(t1, g) ^ look_up(t0, h))
    });
    rest.iter().fold(crc, |crc, &byte| crc << 8 ^ look_up(t0, (crc >> 8) as u8 ^ byte))
}

fn look_up<T: Copy + Default>(table: &[T; 256], at: u8) -> T {
    table.get(usize::from(at)).copied().unwrap_or_default()
}

static CRC_8: [u8; 256] = {
    let wide = table(0x0700);
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        #[allow(clippy::indexing_slicing)] // the compiler evaluates it, and refuses a wrong index
        {
            table[i] = (wide[i] >> 8) as u8;
        }
        i += 1;
    }
    table
};

static CRC_16: [[u16; 256]; 8] = {
    let mut tables = [table(0x8005); 8];
    let mut n_zeros = 1;
    while n_zeros < 8 {
        let mut i = 0;
        while i < 256 {
            #[allow(clippy::indexing_slicing)] // as above
            {
                let crc = tables[n_zeros - 1][i];
                tables[n_zeros][i] = crc << 8 ^ tables[0][(crc >> 8) as usize];
            }
            i += 1;
        }
        n_zeros += 1;
    }
    tables
};

/// What a byte in the upper half becomes after eight shifts.
const fn table(polynomial: u16) -> [u16; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = (i as u16) << 8;
        let mut n_bits = 0;
        while n_bits < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ polynomial };
            n_bits += 1;
        }
        #[allow(clippy::indexing_slicing)] // as above
        {
            table[i] = crc;
        }
        i += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        // The check values of CRC-8/SMBUS and CRC-16/UMTS.
        assert_eq!(crc_8(b"123456789"), 0xF4);
        assert_eq!(crc_16(b"123456789"), 0xFEE8);
    }

    proptest::proptest! {
        #[test]
        fn eight_bytes_a_step_give_the_same(
            bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..100)
        ) {
            let slow = bytes.iter().fold(0u16, |crc, &byte| {
                (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| {
                    if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x8005 }
                })
            });
            proptest::prop_assert_eq!(crc_16(&bytes), slow);
            let closed = [&bytes[..], &slow.to_be_bytes()].concat();
            proptest::prop_assert_eq!(crc_16(&closed), 0);
        }
    }
}
