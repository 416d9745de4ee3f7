//! Writes headers for tests: what the specification allows and encoders do not write.

/// Writes bits, the least significant first.
#[derive(Debug, Default)]
pub(super) struct Writer {
    bytes: Vec<u8>,
    n_bits: usize,
}

impl Writer {
    pub(super) fn put(&mut self, value: u32, n_bits: u32) {
        for i in 0..n_bits {
            if self.n_bits.is_multiple_of(8) {
                self.bytes.push(0);
            }
            *self.bytes.last_mut().unwrap() |=
                ((u64::from(value) >> i & 1) as u8) << (self.n_bits % 8);
            self.n_bits += 1;
        }
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// How a codebook's lengths are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Listed,
    Sparse,
    /// For lengths that do not fall.
    Ordered,
}

/// Vectors: the kind of lookup, whether each value continues from the last one, and the multiplicands.
#[derive(Clone, Debug)]
pub(super) struct Vectors {
    pub(super) kind: u32,
    pub(super) is_sequence: bool,
    pub(super) multiplicands: Vec<u32>,
}

#[derive(Clone, Debug)]
pub(super) struct Book {
    pub(super) n_dims: u32,
    pub(super) lens: Vec<u8>,
    pub(super) form: Form,
    pub(super) vectors: Option<Vectors>,
}

impl Book {
    /// Words for `n` numbers, all equally long.
    pub(super) fn scalar(n: usize) -> Self {
        let lens = vec![n.next_power_of_two().trailing_zeros() as u8; n];
        Self { n_dims: 1, lens, form: Form::Listed, vectors: None }
    }

    pub(super) fn write(&self, to: &mut Writer) {
        to.put(0x56_4342, 24);
        to.put(self.n_dims, 16);
        to.put(self.lens.len() as u32, 24);
        to.put(u32::from(self.form == Form::Ordered), 1);
        if self.form == Form::Ordered {
            self.write_ordered(to);
        } else {
            to.put(u32::from(self.form == Form::Sparse), 1);
            for &len in &self.lens {
                if self.form == Form::Sparse {
                    to.put(u32::from(len > 0), 1);
                }
                if len > 0 {
                    to.put(u32::from(len) - 1, 5);
                }
            }
        }
        let Some(vectors) = &self.vectors else { return to.put(0, 4) };
        to.put(vectors.kind, 4);
        to.put(float(-5, 4), 32); // least: -5/16
        to.put(float(3, 5), 32); // step: 3/32
        to.put(3, 4);
        to.put(u32::from(vectors.is_sequence), 1);
        vectors.multiplicands.iter().for_each(|&x| to.put(x, 4));
    }

    fn write_ordered(&self, to: &mut Writer) {
        let mut rest = self.lens.as_slice();
        let mut len = rest[0];
        to.put(u32::from(len) - 1, 5);
        while !rest.is_empty() {
            let n = rest.iter().take_while(|&&l| l == len).count();
            to.put(n as u32, 32 - (rest.len() as u32).leading_zeros());
            rest = &rest[n..];
            len += 1;
        }
    }
}

/// `mantissa / 2^shift` as a floating-point number of Vorbis.
fn float(mantissa: i32, shift: u32) -> u32 {
    u32::from(mantissa < 0) << 31 | (788 - shift) << 21 | mantissa.unsigned_abs()
}

/// The identification header.
pub(super) fn ident(n_channels: u8, rate_hz: u32, exponents: [u8; 2]) -> Vec<u8> {
    let mut bytes = b"\x01vorbis\0\0\0\0".to_vec();
    bytes.push(n_channels);
    bytes.extend(rate_hz.to_le_bytes());
    bytes.extend([0; 12]);
    bytes.extend([exponents[1] << 4 | exponents[0], 1]);
    bytes
}
