//! Mutants of seeds.

use crate::draw::Draw;

/// The longest mutant.
const MAX_LEN: usize = 64 << 10;

/// Changes `bytes` in one to eight places. Foreign pieces are taken from `other`.
pub(crate) fn mutate(bytes: &mut Vec<u8>, other: &[u8], draw: &mut Draw) {
    let n = if draw.one_in(2) { 1 } else { 1 + draw.below(4) * draw.below(3) };
    // The first kinds keep the length, so that framing mostly stays valid and decoders are reached.
    let n_kinds = if draw.one_in(2) { 11 } else { 16 };
    for _ in 0..n.min(8) {
        if bytes.is_empty() {
            bytes.push(draw.word() as u8);
        }
        once(bytes, other, draw.below(n_kinds), draw);
        bytes.truncate(MAX_LEN);
    }
}

fn once(bytes: &mut Vec<u8>, other: &[u8], kind: u64, draw: &mut Draw) {
    let at = offset(bytes.len(), draw);
    match kind {
        0..=3 => bytes[at] ^= 1 << draw.below(8),
        4..=6 => {
            let any = draw.word() as u8;
            bytes[at] = draw.pick(&[0, 1, 0x7F, 0x80, 0xFE, 0xFF, any, any]);
        }
        7..=10 => number(bytes, at, draw),
        11 => bytes.truncate(at),
        12 => {
            let end = (at + 1 + draw.index(64)).min(bytes.len());
            bytes.drain(at..end);
        }
        13 => {
            let end = (at + 1 + draw.index(512)).min(bytes.len());
            let block = bytes[at..end].to_vec();
            let n = 1 + draw.index(4);
            bytes.splice(at..at, block.repeat(n));
        }
        14 => {
            let from = draw.index(other.len().max(1));
            let until = (from + 1 + draw.index(512)).min(other.len());
            let piece = other.get(from..until).unwrap_or_default();
            // Overwritten or inserted.
            let end = if draw.one_in(2) { at } else { (at + piece.len()).min(bytes.len()) };
            bytes.splice(at..end, piece.iter().copied());
        }
        _ => {
            let end = (at + 1 + draw.index(256)).min(bytes.len());
            let value = draw.pick(&[0, 0xFF, 0x55]);
            bytes[at..end].fill(value);
        }
    }
}

/// An offset, more often in headers and footers than between.
fn offset(len: usize, draw: &mut Draw) -> usize {
    match draw.below(8) {
        0 => draw.index(len.min(64)),
        1 => draw.index(len.min(512)),
        2 => len - 1 - draw.index(len.min(128)),
        _ => draw.index(len),
    }
}

/// Changes a number of 2, 4 or 8 bytes, which may be a length, count or offset.
fn number(bytes: &mut [u8], at: usize, draw: &mut Draw) {
    let width = draw.pick(&[2, 4, 4, 8]);
    let at = if draw.one_in(2) { at } else { at - at % width };
    let len = bytes.len() as u64;
    let Some(field) = bytes.get_mut(at..at + width) else { return };
    let is_big = draw.one_in(3);
    let mut word = [0; 8];
    word[..width].copy_from_slice(field);
    if is_big {
        word[..width].reverse();
    }
    let old = u64::from_le_bytes(word);
    let top = 1u64 << (width * 8 - 1);
    let step = 1 + draw.below(16);
    let any = draw.word();
    let new = match draw.below(10) {
        0 => old.wrapping_add(step),
        1 => old.wrapping_sub(step),
        2 => 0,
        3 => u64::MAX,
        4 => top.wrapping_sub(1),
        5 => top,
        6 => len.wrapping_add(step).wrapping_sub(8),
        7 => old.wrapping_mul(2),
        8 => 1 << draw.below(width as u64 * 8),
        _ => any,
    };
    word = new.to_le_bytes();
    if is_big {
        word[..width].reverse();
    }
    field.copy_from_slice(&word[..width]);
}
