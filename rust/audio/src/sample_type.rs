//! What samples are stored as.

/// What samples are stored as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SampleType {
    /// 32-bit float: as computed, nothing rounded or clamped.
    #[default]
    F32,
    /// 16-bit float, to the nearest, ties to even. Above 65 504 it is infinite.
    F16,
    /// The upper half of an `f32`, to the nearest, ties to even.
    Bf16,
    /// 16-bit integer: times 32 768, to the nearest, ties to even, and held within -32 768 and
    /// 32 767. So 16-bit files keep their numbers.
    I16,
}

impl SampleType {
    /// All of them, by NumPy's names.
    pub const ALL: [(&'static str, Self); 4] = [
        ("float32", Self::F32),
        ("float16", Self::F16),
        ("bfloat16", Self::Bf16),
        ("int16", Self::I16),
    ];

    /// NumPy's name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }

    /// Bytes of one sample.
    pub fn n_bytes(self) -> usize {
        match self {
            Self::F32 => size_of::<f32>(),
            Self::F16 | Self::Bf16 | Self::I16 => size_of::<u16>(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_numpys() {
        for (name, sample_type) in SampleType::ALL {
            assert_eq!(sample_type.name(), name);
        }
    }
}
