//! ALAC, as Apple published it in 2011: packets that need nothing of each other.
//!
//! A packet is a row of elements, one for each channel or pair of channels: the parameters of a
//! predictor, then what its prediction differs by, in a Golomb code whose parameter follows the mean.
//! The predictor learns from each difference; decoder and encoder must take the same steps.

mod config;
mod decode;
mod golomb;
#[cfg(target_arch = "x86_64")]
mod lanes;
mod packets;
mod predict;

#[cfg(test)]
mod tests;

pub(crate) use config::Config;
pub(crate) use packets::track;

use decode::Decoder;
