//! Decoders that rows share.

use std::sync::Arc;

use super::{Decoder, transform::Transform};
use crate::error::Reason;

/// Decoders by their headers, most recently used last: all files of one encoder setting share theirs.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    decoders: Vec<(Box<[u8]>, Decoder)>,
    /// By the length of blocks, of which there are eight.
    transforms: Vec<(u32, Arc<Transform>)>,
}

const MAX_DECODERS: usize = 16;

/// The most bytes of all decoders but the last one.
const MAX_BYTES: usize = 32 << 20;

impl Cache {
    /// The decoder for these headers, as good as new.
    pub(crate) fn get(&mut self, headers: &[u8]) -> Result<&mut Decoder, Reason> {
        let decoders = &mut self.decoders;
        let hit = decoders.iter().position(|(key, _)| **key == *headers);
        let decoder = if let Some(at) = hit {
            decoders.remove(at)
        } else {
            let transforms = &mut self.transforms;
            let decoder = Decoder::new(headers, |len| shared(transforms, len))?;
            let n_bytes = |decoders: &[(_, Decoder)]| {
                decoders.iter().map(|(_, decoder)| decoder.n_bytes()).sum::<usize>()
            };
            while decoders.len() >= MAX_DECODERS || n_bytes(decoders) > MAX_BYTES {
                decoders.remove(0);
            }
            (headers.into(), decoder)
        };
        decoders.push(decoder);
        let last = decoders.last_mut().ok_or_else(|| Reason::malformed("there is no decoder"));
        last.map(|(_, decoder)| {
            decoder.reset();
            decoder
        })
    }
}

fn shared(transforms: &mut Vec<(u32, Arc<Transform>)>, block_len: u32) -> Arc<Transform> {
    if let Some((_, transform)) = transforms.iter().find(|(len, _)| *len == block_len) {
        return Arc::clone(transform);
    }
    let transform = Arc::new(Transform::new(block_len));
    transforms.push((block_len, Arc::clone(&transform)));
    transform
}
