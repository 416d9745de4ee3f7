//! MPEG-1/2/2.5, layers I to III: own header scan, own timeline, own decoder of layer III; frames
//! of the others are fed to Symphonia's.

mod ahead;
mod decode;
mod header;
mod index;
mod layer3;
mod scan;
mod tag;
#[cfg(test)]
mod tests;
mod walk;

pub(super) use decode::{Entry, decode};
pub(super) use index::Index;
pub(super) use layer3::Decoder;
pub(super) use scan::{Layout, codec, find_first, open, refusal};

/// Rate, channels and PCM frames of one MPEG frame that a container delimits.
pub(super) fn packet_shape(packet: &[u8]) -> Option<(u32, u16, u32)> {
    let header = header::Header::read(packet, 0).ok()?;
    (header.layer == header::Layer::Three && header.len == packet.len())
        .then(|| (header.rate_hz, header.n_channels(), header.n_frames() as u32))
}
