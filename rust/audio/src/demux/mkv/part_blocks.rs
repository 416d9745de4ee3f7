//! The blocks of a part of a file, which begins with an element and ends with one.

use super::{block::Block, ebml::Element, id};
use crate::{error::Reason, stream::unexpected};

/// Gives the place and the length of each packet of a track to `push`, and returns where the elements end.
pub(in crate::demux) fn packets(
    bytes: &[u8],
    track: u64,
    mut push: impl FnMut(usize, usize) -> Result<(), Reason>,
) -> Result<usize, Reason> {
    let mut at = 0;
    while at < bytes.len() {
        let element = Element::read(bytes, at).ok_or_else(unexpected)?;
        if matches!(element.id, id::CLUSTER | id::BLOCK_GROUP) {
            at = element.body;
            continue;
        }
        let end = element.end().filter(|&end| end <= bytes.len()).ok_or_else(unexpected)?;
        if matches!(element.id, id::SIMPLE_BLOCK | id::BLOCK) {
            let block = Block::read(element.data(bytes))?;
            let mut packet = element.body + block.payload;
            for len in block.lens {
                if block.track == track {
                    push(packet, len)?;
                }
                packet += len;
            }
        }
        at = end;
    }
    Ok(at)
}
