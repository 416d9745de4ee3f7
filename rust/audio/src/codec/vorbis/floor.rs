//! Floors, Vorbis I sections 6 and 7: the outline of a channel's spectrum.

// What `pulp` compiles for an instruction set must be inlined into its function.
#![allow(clippy::inline_always)]

use super::{
    bits::Bits,
    codebook::Book,
    fields::{Fields, broken},
    floor0::{self, Floor0},
    floor1::{Floor1, Lines},
};
use crate::error::Reason;

/// The configuration of a floor.
#[derive(Clone, Debug)]
pub(super) enum Floor {
    /// A filter's response.
    Response(Box<Floor0>),
    /// Lines between points.
    Lines(Box<Floor1>),
}

/// The floor of a channel in one packet.
#[derive(Clone, Debug, Default)]
pub(super) struct Outline {
    kind: Drawn,
    filter: floor0::Filter,
    lines: Lines,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Drawn {
    #[default]
    Nothing,
    Response,
    Lines,
}

impl Floor {
    pub(super) fn read(
        fields: &mut Fields<'_>,
        books: &[Book],
        block_lens: [u32; 2],
    ) -> Result<Self, Reason> {
        match fields.take(16)? {
            0 => Ok(Self::Response(Box::new(Floor0::read(fields, books, block_lens)?))),
            1 => Ok(Self::Lines(Box::new(Floor1::read(fields, books)?))),
            _ => Err(broken("a floor is of an unknown kind")),
        }
    }

    /// Reads the floor of a channel. Nothing is drawn where the packet says so, and where it ends.
    #[inline(always)]
    pub(super) fn decode(&self, bits: &mut Bits<'_>, books: &[Book], outline: &mut Outline) {
        let (kind, drawn) = match self {
            Self::Response(floor) => {
                (Drawn::Response, floor.decode(bits, books, &mut outline.filter))
            }
            Self::Lines(floor) => (Drawn::Lines, floor.decode(bits, books, &mut outline.lines)),
        };
        outline.kind = if drawn.is_some() { kind } else { Drawn::Nothing };
    }

    /// Draws what the residue of a channel is to be multiplied by.
    #[inline(always)]
    pub(super) fn draw(&self, outline: &Outline, is_long: bool, curve: &mut [f32]) {
        match (self, outline.kind) {
            (Self::Response(floor), Drawn::Response) => {
                floor.draw(&outline.filter, is_long, curve);
            }
            (Self::Lines(_), Drawn::Lines) => outline.lines.draw(curve),
            _ => curve.fill(0.0),
        }
    }
}

impl Outline {
    /// Whether there is a floor: where there is none, the channel is silent.
    pub(super) fn is_drawn(&self) -> bool {
        self.kind != Drawn::Nothing
    }
}
