//! MPEG-1/2/2.5, layers I to III: own header scan, own timeline, own decoder of layer III; frames
//! of the others are fed to Symphonia's.

mod ahead;
mod decode;
mod header;
mod index;
mod layer3;
mod packets;
mod recording;
mod scan;
mod tag;
#[cfg(test)]
mod tests;
mod walk;

pub(super) use index::Index;
#[cfg(test)]
pub(super) use packets::Coded;
pub(super) use packets::InPackets;
pub(super) use recording::Mpeg;
pub(super) use scan::refusal;

use layer3::Decoder;

/// Rate, channels and PCM frames of one MPEG frame that a container delimits.
fn packet_shape(packet: &[u8]) -> Option<(u32, u16, u32)> {
    let header = header::Header::read(packet, 0).ok()?;
    (header.layer == header::Layer::Three && header.len == packet.len())
        .then(|| (header.rate_hz, header.n_channels(), header.n_frames() as u32))
}
