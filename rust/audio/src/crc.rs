//! CRC-32 of Ogg pages, and of what is kept here: polynomial 0x04C11DB7, most significant bit first, no
//! inversion.

const POLYNOMIAL: u32 = 0x04C1_1DB7;

/// `TABLES[k][b]`: the CRC of byte `b` followed by `k` zero bytes.
static TABLES: [[u32; 256]; 16] = tables();

#[allow(clippy::indexing_slicing)] // evaluated by the compiler, which checks the bounds
const fn tables() -> [[u32; 256]; 16] {
    let mut tables = [[0; 256]; 16];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u32) << 24;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc >> 31 == 1 { crc << 1 ^ POLYNOMIAL } else { crc << 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut k = 1;
    while k < 16 {
        let mut byte = 0;
        while byte < 256 {
            let crc = tables[k - 1][byte];
            tables[k][byte] = crc << 8 ^ tables[0][(crc >> 24) as usize];
            byte += 1;
        }
        k += 1;
    }
    tables
}

/// Carries a CRC on over `bytes`.
#[allow(clippy::indexing_slicing)] // a byte is below 256
pub(crate) fn update(mut crc: u32, bytes: &[u8]) -> u32 {
    let (blocks, rest) = bytes.as_chunks::<16>();
    for block in blocks {
        let mut block = *block;
        for (byte, crc) in block.iter_mut().zip(crc.to_be_bytes()) {
            *byte ^= crc;
        }
        crc = 0;
        for (byte, table) in block.iter().zip(TABLES.iter().rev()) {
            crc ^= table[usize::from(*byte)];
        }
    }
    for &byte in rest {
        crc = crc << 8 ^ TABLES[0][usize::from((crc >> 24) as u8 ^ byte)];
    }
    crc
}

#[cfg(test)]
mod tests {
    /// One bit at a time, as the specification has it.
    fn naive(bytes: &[u8]) -> u32 {
        let mut crc = 0u32;
        for &byte in bytes {
            crc ^= u32::from(byte) << 24;
            for _ in 0..8 {
                crc = if crc >> 31 == 1 { crc << 1 ^ super::POLYNOMIAL } else { crc << 1 };
            }
        }
        crc
    }

    proptest::proptest! {
        #[test]
        fn equals_the_naive_crc(bytes: Vec<u8>, cut in 0usize..100) {
            let (head, tail) = bytes.split_at(cut.min(bytes.len()));
            assert_eq!(super::update(super::update(0, head), tail), naive(&bytes));
        }
    }
}
