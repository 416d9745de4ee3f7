//! The bit reservoir: main data of a frame may begin in the bytes of frames before it.

/// How far back they may begin.
const MAX_BACK: usize = 511;
/// The most main data of a frame: 320 kbit/s at 32 kHz, or 160 at 8 kHz, with a byte of padding.
const MAX_FRAME: usize = 1441;

/// The last main data, in the order of their frames.
#[derive(Clone, Debug)]
pub(super) struct Reservoir {
    bytes: [u8; MAX_BACK + MAX_FRAME],
    /// Of earlier frames.
    n_before: usize,
    len: usize,
}

impl Default for Reservoir {
    fn default() -> Self {
        Self { bytes: [0; MAX_BACK + MAX_FRAME], n_before: 0, len: 0 }
    }
}

impl Reservoir {
    /// Takes the main data of the next frame.
    pub(super) fn push(&mut self, main_data: &[u8]) {
        let n = self.len.min(MAX_BACK);
        self.bytes.copy_within(self.len - n..self.len, 0);
        self.n_before = n;
        let room = self.bytes.get_mut(n..).unwrap_or_default();
        let n_new = main_data.len().min(room.len());
        for (to, from) in room.iter_mut().zip(main_data) {
            *to = *from;
        }
        self.len = n + n_new;
    }

    /// The main data of the last frame, which begin so many bytes before its own, and how many of
    /// these bytes are missing.
    pub(super) fn main_data(&self, begin: usize) -> (&[u8], usize) {
        let start = self.n_before.saturating_sub(begin);
        let data = self.bytes.get(start..self.len).unwrap_or_default();
        (data, begin.saturating_sub(self.n_before))
    }

    /// Forgets all: what comes next does not follow.
    pub(super) fn clear(&mut self) {
        (self.n_before, self.len) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn equals_all_that_came(
            frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..900), 1..8),
            begin in 0usize..=MAX_BACK,
        ) {
            let mut reservoir = Reservoir::default();
            for frame in &frames {
                reservoir.push(frame);
            }
            let all = frames.concat();
            let own = all.len() - frames.last().map_or(0, Vec::len);
            let (data, n_missing) = reservoir.main_data(begin);
            prop_assert_eq!(n_missing, begin.saturating_sub(own));
            prop_assert_eq!(data, &all[own.saturating_sub(begin)..]);
        }
    }
}
