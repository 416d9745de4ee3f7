//! MPEG-1/2/2.5 audio, layer III, and the header that all layers share.

pub(crate) mod header;
pub(crate) mod layer3;
mod packets;
#[cfg(test)]
mod tests;

pub(crate) use layer3::Decoder;
pub(crate) use packets::Coded;

/// Rate, channels and PCM frames of one MPEG frame that a container delimits.
fn packet_shape(packet: &[u8]) -> Option<(u32, u16, u32)> {
    let header = header::Header::read(packet, 0).ok()?;
    (header.layer == header::Layer::Three && header.len == packet.len())
        .then(|| (header.rate_hz, header.n_channels(), header.n_frames() as u32))
}
