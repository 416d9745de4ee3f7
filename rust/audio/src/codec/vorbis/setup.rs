//! The setup header, Vorbis I section 4.2.4: all that packets are decoded with.

use super::{
    bits::width,
    codebook::{Book, Budget},
    fields::{Fields, broken},
    floor::Floor,
    ident::Ident,
    residue::{Kind, Residue},
};
use crate::error::Reason;

/// Two channels that are coded together, section 4.3.5.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) magnitude: usize,
    pub(super) angle: usize,
}

/// The floor and the residue of some channels.
#[derive(Clone, Debug)]
pub(super) struct Submap {
    pub(super) floor: usize,
    pub(super) residue: usize,
    pub(super) channels: Vec<usize>,
}

#[derive(Clone, Debug)]
pub(super) struct Mapping {
    pub(super) steps: Vec<Step>,
    pub(super) submaps: Vec<Submap>,
    /// The submap of each channel.
    pub(super) submap_of: Vec<usize>,
    /// Whether it is stereo as encoders write it: an interleaved residue of two channels, which are coupled.
    pub(super) is_joint_stereo: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Mode {
    pub(super) is_long: bool,
    pub(super) mapping: usize,
}

/// What the headers of a stream say.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) ident: Ident,
    pub(super) books: Vec<Book>,
    pub(super) floors: Vec<Floor>,
    pub(super) residues: Vec<Residue>,
    pub(super) mappings: Vec<Mapping>,
    pub(super) modes: Vec<Mode>,
}

/// Bytes of the identification header.
const IDENT_LEN: usize = 30;

impl Setup {
    /// Reads the identification header and the setup header, which follow each other.
    pub(super) fn read(headers: &[u8]) -> Result<Self, Reason> {
        let parts = headers.split_at_checked(IDENT_LEN);
        let (ident_header, setup) = parts.ok_or_else(|| broken("there is nothing"))?;
        let ident = Ident::read(ident_header)?;
        let [b"\x01vorbis\0\0\0\0", ..] = [ident_header.get(..11).unwrap_or_default()] else {
            return Err(Reason::malformed("the Vorbis version is not 0"));
        };
        let is_framed = ident_header.last().is_some_and(|byte| byte & 1 == 1);
        if ident.n_channels == 0 || ident.rate_hz == 0 || !is_framed {
            return Err(Reason::malformed("the Vorbis identification header is broken"));
        }
        let setup = setup.strip_prefix(b"\x05vorbis");
        Self::read_fields(ident, &mut Fields::new(setup.ok_or_else(|| broken("there is nothing"))?))
    }

    fn read_fields(ident: Ident, fields: &mut Fields<'_>) -> Result<Self, Reason> {
        let mut budget = Budget::default();
        let books = fields.list(8, |fields| Book::read(fields, &mut budget))?;
        fields.list(6, |fields| match fields.take(16)? {
            0 => Ok(()),
            _ => Err(broken("a time domain transform is not 0")),
        })?;
        let floors = fields.list(6, |fields| Floor::read(fields, &books, ident.block_lens))?;
        let residues = fields.list(6, |fields| Residue::read(fields, &books, &mut budget))?;
        let n_channels = usize::from(ident.n_channels);
        let mappings =
            fields.list(6, |fields| Mapping::read(fields, n_channels, floors.len(), &residues))?;
        let modes = fields.list(6, |fields| {
            let is_long = fields.flag()?;
            if fields.take(32)? != 0 {
                return Err(broken("a window or transform is of an unknown kind"));
            }
            Ok(Mode { is_long, mapping: fields.below(8, mappings.len())? })
        })?;
        if !fields.flag()? {
            return Err(broken("the last bit is not set"));
        }
        Ok(Self { ident, books, floors, residues, mappings, modes })
    }

    /// About how many bytes it takes.
    pub(super) fn n_bytes(&self) -> usize {
        self.books.iter().map(Book::n_bytes).sum::<usize>()
            + self.residues.iter().map(Residue::n_bytes).sum::<usize>()
    }
}

impl Mapping {
    fn read(
        fields: &mut Fields<'_>,
        n_channels: usize,
        n_floors: usize,
        residues: &[Residue],
    ) -> Result<Self, Reason> {
        if fields.take(16)? != 0 {
            return Err(broken("a mapping is of an unknown kind"));
        }
        let n_submaps = if fields.flag()? { fields.take(4)? as usize + 1 } else { 1 };
        let mut steps = Vec::new();
        if fields.flag()? {
            let n_bits = width(n_channels as u32 - 1);
            steps = fields.list(8, |fields| {
                let magnitude = fields.below(n_bits, n_channels)?;
                let angle = fields.below(n_bits, n_channels)?;
                if magnitude == angle {
                    return Err(broken("a channel is coupled with itself"));
                }
                Ok(Step { magnitude, angle })
            })?;
        }
        if fields.take(2)? != 0 {
            return Err(broken("a mapping has bits that are reserved"));
        }
        let submap_of: Vec<usize> = if n_submaps > 1 {
            (0..n_channels).map(|_| fields.below(4, n_submaps)).collect::<Result<_, _>>()?
        } else {
            vec![0; n_channels]
        };
        let submap = |submap| {
            fields.take(8)?; // a time domain transform
            let (floor, residue) = (fields.below(8, n_floors)?, fields.below(8, residues.len())?);
            let channels = submap_of.iter().zip(0..).filter(|&(&of, _)| of == submap);
            Ok(Submap { floor, residue, channels: channels.map(|(_, channel)| channel).collect() })
        };
        let submaps: Vec<_> = (0..n_submaps).map(submap).collect::<Result<_, Reason>>()?;
        let is_interleaved = |submap: &Submap| {
            residues.get(submap.residue).is_some_and(|residue| residue.kind == Kind::Interleaved)
        };
        let is_joint_stereo = n_channels == 2
            && matches!(steps[..], [Step { magnitude: 0, angle: 1 }])
            && matches!(&submaps[..], [submap] if is_interleaved(submap));
        Ok(Self { steps, submaps, submap_of, is_joint_stereo })
    }
}
