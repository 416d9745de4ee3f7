//! Packets to planes.

use super::{
    Head,
    frames::{delimited, frames},
    packet_len,
    stream::{Config, Stream},
};
use crate::error::Reason;

/// The place of a channel in Vorbis order, which is that of mapping family 1, in the order of WAV
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

/// Decodes the packets of one track in their order.
pub(crate) struct PacketDecoder {
    /// Each with the planes of its channels.
    streams: Vec<(Stream, Vec<Vec<f32>>)>,
    /// Of each plane, the stream that it comes from and the channel of that; `None` if it is silent.
    sources: Vec<Option<(usize, usize)>>,
    /// Whether the planes are those of the only stream.
    is_direct: bool,
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
        let wav = PLANES.get(n_channels.wrapping_sub(1)).ok_or_else(missing)?;
        let mapping = &head.mapping;
        let streams = (0..mapping.n_streams)
            .map(|i| {
                let n_channels = if i < mapping.n_coupled { 2 } else { 1 };
                (Stream::new(n_channels), vec![Vec::new(); n_channels])
            })
            .collect();
        let mut sources = vec![None; n_channels];
        for (channel, &plane) in wav.iter().enumerate() {
            let plane = if mapping.is_discrete { channel } else { plane };
            let n_paired = 2 * mapping.n_coupled;
            let source = mapping.source(channel).map(|from| match from.checked_sub(n_paired) {
                Some(beyond) => (mapping.n_coupled + beyond, 0),
                None => (from / 2, from % 2),
            });
            *sources.get_mut(plane).ok_or_else(missing)? = source;
        }
        let is_direct = mapping.n_streams == 1
            && n_channels == 1 + mapping.n_coupled
            && sources.iter().enumerate().all(|(i, &source)| source == Some((0, i)));
        let planes = vec![Vec::new(); n_channels];
        Ok(Self { streams, sources, is_direct, gain: head.gain, planes })
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
        if let ([(stream, _)], true) = (self.streams.as_mut_slice(), self.is_direct) {
            run(stream, parts.first()?, n_frames, &mut self.planes);
        } else {
            for ((stream, planes), part) in self.streams.iter_mut().zip(&parts) {
                run(stream, part, n_frames, planes);
            }
            for (plane, source) in self.planes.iter_mut().zip(&self.sources) {
                plane.clear();
                match source {
                    Some((i, channel)) => {
                        plane.extend_from_slice(self.streams.get(*i)?.1.get(*channel)?);
                    }
                    None => plane.resize(n_frames, 0.0),
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
