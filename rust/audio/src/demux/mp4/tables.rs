//! The sample tables of a `moov` box: which bytes are packets.

use super::boxes::find;
use crate::{
    bytes::{be_u16, be_u32, be_u64, from, u8_at},
    error::Reason,
    stream::List,
};

/// Where the tables contradict each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Odd {
    /// Packets that have a size and no place.
    pub(super) n_unplaced: u64,
    /// More packets are counted than have a size.
    pub(super) is_overcounted: bool,
}

/// Lists the packets. Fragmented files may have empty tables or none.
pub(super) fn list(
    stbl: &[u8],
    frame_len: u32,
    list: &mut List<'_>,
    is_fragmented: bool,
) -> Result<Odd, Reason> {
    let missing = |what: &str| Reason::malformed(format!("there is no {what} box"));
    let tables = (|| {
        let sizes = Sizes::read(stbl).ok_or_else(|| missing("stsz"))?;
        let chunks = Chunks::read(stbl).ok_or_else(|| missing("stco"))?;
        let runs = find(stbl, *b"stsc").ok_or_else(|| missing("stsc"))?;
        Ok((sizes, chunks, runs))
    })();
    let (sizes, chunks, runs) = match tables {
        Err(_) if is_fragmented => return Ok(Odd::default()),
        tables => tables?,
    };
    let mut runs = from(runs, 8).as_chunks::<12>().0.iter().peekable();
    let (mut n_runs, mut per_chunk) = (0, 0);
    let mut n = 0;
    for (i, offset) in chunks.offsets().enumerate() {
        while let Some(run) =
            // The first run begins with the first chunk, whatever it says.
            runs.next_if(|run| {
                n_runs == 0 || be_u32(*run, 0).is_some_and(|f| f as usize <= i + 1)
            })
        {
            n_runs += 1;
            per_chunk = be_u32(run, 4).unwrap_or(0);
            if be_u32(run, 8).is_some_and(|entry| entry > 1) {
                return Err(Reason::ParamsChanged);
            }
        }
        let mut at = usize::try_from(offset).unwrap_or(usize::MAX);
        for _ in 0..per_chunk {
            if n == sizes.count {
                break;
            }
            let len = sizes.get(n).ok_or_else(|| Reason::malformed("the stsz box is cut"))?;
            list.push(at, len, frame_len)?;
            at = at.saturating_add(len);
            n += 1;
        }
    }
    Ok(Odd { n_unplaced: (sizes.count - n) as u64, is_overcounted: sizes.is_overcounted })
}

/// The `stsz` box, or `stz2` where numbers are short: sizes of packets.
struct Sizes<'a> {
    all: usize,
    each: &'a [u8],
    count: usize,
    /// Of a number in `each`.
    n_bits: u8,
    /// Whether the box says that it has more sizes.
    is_overcounted: bool,
}

impl<'a> Sizes<'a> {
    fn read(stbl: &'a [u8]) -> Option<Self> {
        let stsz = find(stbl, *b"stsz");
        let body = stsz.or_else(|| find(stbl, *b"stz2"))?;
        let (all, n_bits) = match stsz {
            Some(_) => (be_u32(body, 4)? as usize, 32),
            None => (0, u8_at(body, 7)?),
        };
        let (each, told) = (from(body, 12), be_u32(body, 8)? as usize);
        let most = if all > 0 { told } else { 8 * each.len() / usize::from(n_bits.max(1)) };
        Some(Self { all, each, count: told.min(most), n_bits, is_overcounted: told > most })
    }

    fn get(&self, n: usize) -> Option<usize> {
        if self.all > 0 {
            return Some(self.all);
        }
        match self.n_bits {
            4 => u8_at(self.each, n / 2).map(|two| usize::from(two >> (4 - 4 * (n % 2)) & 15)),
            8 => u8_at(self.each, n).map(usize::from),
            16 => be_u16(self.each, n.checked_mul(2)?).map(usize::from),
            32 => be_u32(self.each, n.checked_mul(4)?).map(|size| size as usize),
            _ => None,
        }
    }
}

/// Where the sizes of all packets are in the file, if each has one of its own.
pub(super) fn sizes_at(bytes: &[u8], stbl: &[u8]) -> Option<u64> {
    let Sizes { all, each, count, n_bits, .. } = Sizes::read(stbl)?;
    let each = each.get(..count.checked_mul(4)?).filter(|_| all == 0 && n_bits == 32)?;
    // They are part of the file.
    let at = each.as_ptr().addr().checked_sub(bytes.as_ptr().addr())?;
    (bytes.get(at..at.checked_add(each.len())?)? == each).then_some(at as u64)
}

/// The `stco` or `co64` box: where runs of packets begin.
struct Chunks<'a> {
    offsets: &'a [u8],
    count: usize,
    width: usize,
}

impl<'a> Chunks<'a> {
    fn read(stbl: &'a [u8]) -> Option<Self> {
        let (width, body) = match find(stbl, *b"stco") {
            Some(body) => (4, body),
            None => (8, find(stbl, *b"co64")?),
        };
        Some(Self { offsets: from(body, 8), count: be_u32(body, 4)? as usize, width })
    }

    fn offsets(&self) -> impl Iterator<Item = u64> {
        let width = self.width;
        self.offsets.chunks_exact(width).take(self.count).map(move |bytes| {
            let offset =
                if width == 4 { be_u32(bytes, 0).map(u64::from) } else { be_u64(bytes, 0) };
            offset.unwrap_or(u64::MAX)
        })
    }
}

/// What the `stts` box says of time, in the track's timescale.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Times {
    /// The sum of all durations; the share of the last packet tells how much of it is meant to be heard.
    pub(super) sum: u64,
    /// How many packets have one.
    pub(super) n_packets: u64,
    /// The duration of the first packet.
    pub(super) first: u64,
    /// Whether all packets but the last have one duration.
    pub(super) is_uniform: bool,
}

impl Times {
    pub(super) fn read(stbl: &[u8]) -> Self {
        let stts = find(stbl, *b"stts").unwrap_or_default();
        let entries = from(stts, 8).as_chunks::<8>().0.iter();
        let mut times = Self::default();
        for (i, entry) in entries.take(be_u32(stts, 4).unwrap_or(0) as usize).enumerate() {
            let [count, delta] = [0, 4].map(|at| u64::from(be_u32(entry, at).unwrap_or(0)));
            times.sum = times.sum.saturating_add(count * delta);
            times.n_packets += count;
            times.first = if i == 0 { delta } else { times.first };
            times.is_uniform = i == 0 && count > 1 || i == 1 && count == 1 && times.is_uniform;
        }
        times
    }
}
