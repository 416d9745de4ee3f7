//! Packets to planes.

use super::{
    Head,
    frames::{delimited, frames},
    packet_len,
    stream::{Config, Stream},
};
use crate::error::Reason;

/// Where a channel in Vorbis order, which is that of mapping family 1, stands in the order of WAV
/// files, by the number of channels.
pub(crate) const PLANES: [&[usize]; 8] = [
    &[0],
    &[0, 1],
    &[0, 2, 1],
    &[0, 1, 2, 3],
    &[0, 2, 1, 3, 4],
    &[0, 2, 1, 4, 5, 3],
    &[0, 2, 1, 5, 6, 4, 3],
    &[0, 2, 1, 6, 7, 4, 5, 3],
];

/// How the channels of several streams are mapped to those in Vorbis order, by their number: how many
/// streams there are, how many of the first of them are stereo, and which of their channels each is.
/// RFC 7845, section 5.1.1.2.
pub(super) const LAYOUTS: [(usize, usize, &[usize]); 8] = [
    (1, 0, &[0]),
    (1, 1, &[0, 1]),
    (2, 1, &[0, 2, 1]),
    (2, 2, &[0, 1, 2, 3]),
    (3, 2, &[0, 4, 1, 2, 3]),
    (4, 2, &[0, 4, 1, 2, 3, 5]),
    (4, 3, &[0, 4, 1, 2, 3, 5, 6]),
    (5, 3, &[0, 6, 1, 2, 3, 4, 5, 7]),
];

/// Decodes the packets of one track in their order.
pub(crate) struct PacketDecoder {
    /// Each with the planes of its channels.
    streams: Vec<(Stream, Vec<Vec<f32>>)>,
    /// Where the channels of the streams go, one after the other.
    order: Vec<usize>,
    gain: f32,
    planes: Vec<Vec<f32>>,
}

impl PacketDecoder {
    /// A decoder for a track.
    ///
    /// # Errors
    /// The header has more channels than any layout.
    pub(crate) fn new(head: &Head) -> Result<Self, Reason> {
        let n_channels = usize::from(head.n_channels);
        let missing = || Reason::malformed("the Opus header has no known number of channels");
        let number = n_channels.checked_sub(1).ok_or_else(missing)?;
        let &(n_streams, n_stereo, mapping) = LAYOUTS.get(number).ok_or_else(missing)?;
        let wav = PLANES.get(number).ok_or_else(missing)?;
        let streams = (0..n_streams)
            .map(|i| {
                let n_channels = if i < n_stereo { 2 } else { 1 };
                (Stream::new(n_channels), vec![Vec::new(); n_channels])
            })
            .collect();
        let mut order: Vec<_> = mapping.iter().copied().zip(wav.iter().copied()).collect();
        order.sort_unstable();
        let order = order.into_iter().map(|(_, plane)| plane).collect();
        Ok(Self { streams, order, gain: head.gain, planes: vec![Vec::new(); n_channels] })
    }

    /// Decodes one packet; `None` if it is corrupt.
    pub(crate) fn decode(&mut self, packet: &[u8]) -> Option<&[Vec<f32>]> {
        let n_frames = packet_len(packet)? as usize;
        // A packet is taken or left as a whole.
        let (mut parts, mut rest) = (Vec::new(), packet);
        for i in 1..=self.streams.len() {
            let (&toc, len) = (rest.first()?, packet_len(rest)?);
            let frames = if i == self.streams.len() {
                frames(rest)?
            } else {
                let (frames, behind) = delimited(rest)?;
                rest = behind;
                frames
            };
            (len as usize == n_frames).then_some(())?;
            parts.push((Config::of(toc), frames));
        }
        if let [(stream, _)] = self.streams.as_mut_slice() {
            run(stream, parts.first()?, n_frames, &mut self.planes);
        } else {
            let mut order = self.order.iter();
            for ((stream, planes), part) in self.streams.iter_mut().zip(&parts) {
                run(stream, part, n_frames, planes);
                for (plane, &to) in planes.iter_mut().zip(&mut order) {
                    std::mem::swap(plane, self.planes.get_mut(to)?);
                }
            }
        }
        if self.gain.to_bits() != 1.0f32.to_bits() {
            self.planes.iter_mut().flatten().for_each(|x| *x *= self.gain);
        }
        Some(&self.planes)
    }
}

/// Decodes the frames of one stream.
fn run(stream: &mut Stream, part: &(Config, Vec<&[u8]>), n_frames: usize, planes: &mut [Vec<f32>]) {
    let (config, frames) = part;
    for plane in planes.iter_mut() {
        plane.resize(n_frames, 0.0);
    }
    for (i, frame) in frames.iter().enumerate() {
        stream.decode(*config, frame, planes, i * config.len);
    }
}
