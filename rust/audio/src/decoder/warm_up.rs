//! Tables that the decoders of other crates make when they are first used.
//!
//! A thread that finds another one making such a table waits for it. In a child that was forked
//! in that moment there is no other thread, and it would wait for ever. So they are made before
//! the first thread that decodes is started.

use std::sync::Once;

use crate::{AudioSpec, Decoder};

/// A short recording for each codec whose decoder has such tables.
const SAMPLES: [&[u8]; 4] = [
    include_bytes!("warm_up/stereo.mp3"),
    include_bytes!("warm_up/mono.mp2"),
    include_bytes!("warm_up/stereo.aac"),
    include_bytes!("warm_up/mono.opus"),
];

/// Has the decoders make their tables, once in a process; it takes some milliseconds.
pub fn warm_up() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for bytes in SAMPLES {
            decode(bytes);
        }
    });
}

/// Decodes the whole recording; whether that went well.
fn decode(bytes: &[u8]) -> bool {
    let mut decoder = Decoder::default();
    let Ok(plan) = decoder.plan(bytes, &AudioSpec::WHOLE, 0) else { return false };
    decoder.render(bytes, &plan, &mut vec![0.0; plan.n_samples()]).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_samples_decode() {
        for (k, bytes) in SAMPLES.into_iter().enumerate() {
            assert!(decode(bytes), "sample {k}");
        }
    }
}
