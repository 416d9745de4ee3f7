//! Decompressing the buffers of a record batch, with an error where the system has no memory.
//!
//! `arrow-ipc` decompresses as well, but a failed allocation aborts the process there.

use std::io::Read;

use arrow_buffer::Buffer;
use arrow_ipc::CompressionType;
use bytes::Bytes;
use lz4_flex::frame::FrameDecoder;
use zstd::bulk::Decompressor;

use super::super::guard;
use crate::{
    Error, Result,
    memory::{ALIGNMENT, AlignedBuf, Buffer as Owned},
};

/// Smaller record batches, by their decompressed bytes, are left to `arrow-ipc`: allocations of their
/// size are made everywhere.
const LARGE: usize = 1 << 20;

/// Decompressed buffers.
pub(super) struct Decompressed {
    pub(super) data: Buffer,
    /// The offset and the length of each.
    pub(super) spans: Vec<(usize, usize)>,
}

/// The bytes of a buffer behind its length.
#[derive(Clone, Copy)]
enum Content<'a> {
    Uncompressed(&'a [u8]),
    Compressed(&'a [u8], usize),
}

impl<'a> Content<'a> {
    fn read(buffer: &'a [u8]) -> Result<Self> {
        let Some((prefix, data)) = buffer.split_first_chunk() else {
            return Ok(Self::Uncompressed(&[])); // an empty buffer has no length
        };
        match i64::from_le_bytes(*prefix) {
            -1 => Ok(Self::Uncompressed(data)),
            0 => Ok(Self::Uncompressed(&[])),
            n => usize::try_from(n)
                .map(|n| Self::Compressed(data, n))
                .map_err(|_| Error::corrupt(format!("a buffer of {n} bytes"))),
        }
    }

    fn len(self) -> usize {
        match self {
            Self::Uncompressed(data) => data.len(),
            Self::Compressed(_, n) => n,
        }
    }
}

/// Decompresses these buffers, whose claims were checked. `None` where they are left to `arrow-ipc`:
/// few bytes, or mostly uncompressed ones, which would be copied here.
///
/// # Errors
///
/// `Corrupt`; `OutOfMemory` where the system refuses the memory for them.
pub(super) fn large(codec: CompressionType, buffers: &[&[u8]]) -> Result<Option<Decompressed>> {
    let contents = buffers.iter().map(|buffer| Content::read(buffer));
    let contents = contents.collect::<Result<Vec<_>>>()?;
    let (mut grown, mut kept, mut end) = (0_usize, 0_usize, 0_usize);
    let mut spans = Vec::with_capacity(contents.len());
    for content in &contents {
        let sum = if matches!(content, Content::Uncompressed(_)) { &mut kept } else { &mut grown };
        *sum = sum.saturating_add(content.len());
        spans.push((end, content.len()));
        end =
            end.saturating_add(content.len()).saturating_add(ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    if grown < LARGE || kept > grown {
        return Ok(None);
    }
    let mut data = AlignedBuf::zeroed(end)?;
    guard::contain("the record batch", || {
        let mut zstd = None;
        for (content, &(at, n)) in contents.into_iter().zip(&spans) {
            let into = data.as_bytes_mut().get_mut(at..at + n);
            let into = into.ok_or_else(|| Error::corrupt("a buffer outside its memory"))?;
            match content {
                Content::Uncompressed(data) => into.copy_from_slice(data),
                Content::Compressed(data, _) if codec == CompressionType::ZSTD => {
                    decompress_zstd(data, into, &mut zstd)?;
                }
                Content::Compressed(data, _) => decompress_lz4(data, into)?,
            }
        }
        Ok(())
    })?;
    let data = Bytes::from_owner(Owned::unpooled(data)).into();
    Ok(Some(Decompressed { data, spans }))
}

fn decompress_zstd(
    data: &[u8],
    into: &mut [u8],
    zstd: &mut Option<Decompressor<'static>>,
) -> Result<()> {
    let zstd = match zstd {
        Some(zstd) => zstd,
        None => zstd.insert(Decompressor::new().map_err(undecodable)?),
    };
    let n = zstd.decompress_to_buffer(data, into).map_err(undecodable)?;
    if n < into.len() { Err(undecodable(format!("{n} bytes of {}", into.len()))) } else { Ok(()) }
}

fn decompress_lz4(data: &[u8], into: &mut [u8]) -> Result<()> {
    let mut lz4 = FrameDecoder::new(data);
    lz4.read_exact(into).map_err(undecodable)?;
    match lz4.read(&mut [0]).map_err(undecodable)? {
        0 => Ok(()),
        _ => Err(undecodable(format!("more than {} bytes", into.len()))),
    }
}

fn undecodable(why: impl std::fmt::Display) -> Error {
    Error::corrupt(format!("the record batch does not decompress: {why}"))
}
