//! What a container is.

use crate::{
    cancel::Cancel,
    error::Reason,
    names::Codec,
    report::Ledger,
    stream::{Recording, Scratch},
};

/// A kind of container.
pub(crate) trait Container: Sync {
    /// Where it begins, if it begins at `at` or as soon after it as it may. Tags end at `at`.
    fn find(&self, bytes: &[u8], at: usize) -> Option<usize>;

    /// The codec, as far as the first bytes tell: what an error in the headers is an error of.
    fn codec(&self, bytes: &[u8], at: usize) -> Option<Codec>;

    /// Reads headers and framing; nothing is decoded.
    ///
    /// Damage goes through the ledger, which makes an error or a count of it.
    fn open(&self, input: Input<'_>, scratch: &mut Scratch, ledger: &mut Ledger) -> OpenResult;
}

/// What [`Container::open`] gives.
pub(crate) type OpenResult = Result<Box<dyn Recording>, Reason>;

/// What is opened.
#[derive(Clone, Copy)]
pub(crate) struct Input<'a> {
    pub(crate) bytes: &'a [u8],
    /// Where [`Container::find`] found it.
    pub(crate) at: usize,
    pub(crate) cancel: &'a Cancel,
}
