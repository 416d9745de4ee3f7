//! Packets to planes.

use opus_pure::{OpusDecoder, OpusMSDecoder};

use super::{
    Head, RATE_HZ,
    celt::{self, Coding},
    frames::frames,
    packet_len,
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

enum Inner {
    Celt(Box<celt::Decoder>),
    One(Box<OpusDecoder>),
    Several(Box<OpusMSDecoder>),
}

/// Decodes the packets of one stream in their order.
pub(crate) struct PacketDecoder {
    inner: Inner,
    gain: f32,
    interleaved: Vec<f32>,
    planes: Vec<Vec<f32>>,
}

impl PacketDecoder {
    /// A decoder for a stream of which it is known whether any packet has SILK.
    pub(crate) fn new(head: &Head, has_silk: bool) -> Result<Self, Reason> {
        let n_channels = usize::from(head.n_channels);
        let failed = |e: opus_pure::Error| Reason::malformed(e.to_string());
        let rate_hz = RATE_HZ.cast_signed();
        let inner = if head.is_surround {
            let decoder = OpusMSDecoder::new(rate_hz, n_channels, 1).map_err(failed)?;
            Inner::Several(Box::new(decoder))
        } else if has_silk {
            Inner::One(Box::new(OpusDecoder::new(rate_hz, n_channels).map_err(failed)?))
        } else {
            Inner::Celt(Box::new(celt::Decoder::new(n_channels)))
        };
        let planes = vec![Vec::new(); n_channels];
        Ok(Self { inner, gain: head.gain, interleaved: Vec::new(), planes })
    }

    /// Decodes one packet; `None` if it is corrupt.
    pub(crate) fn decode(&mut self, packet: &[u8]) -> Option<&[Vec<f32>]> {
        let n_frames = packet_len(packet)? as usize;
        let n_channels = self.planes.len();
        if let Inner::Celt(decoder) = &mut self.inner {
            let coding = Coding::of(*packet.first()?)?;
            for plane in &mut self.planes {
                plane.resize(n_frames, 0.0);
            }
            // A packet is taken or left as a whole.
            let all = frames(packet)?;
            for (i, frame) in all.iter().enumerate() {
                decoder.decode(coding, frame, &mut self.planes, i * coding.frame_len());
            }
            if self.gain.to_bits() != 1.0f32.to_bits() {
                self.planes.iter_mut().flatten().for_each(|x| *x *= self.gain);
            }
            return Some(&self.planes);
        }
        // What is there is overwritten.
        self.interleaved.resize(n_frames * n_channels, 0.0);
        let pcm = &mut self.interleaved;
        let decoded = match &mut self.inner {
            Inner::Celt(_) => return None,
            Inner::One(decoder) => decoder.decode(packet, n_frames, pcm),
            Inner::Several(decoder) => decoder.decode(packet, n_frames, pcm),
        };
        if decoded.ok()? != n_frames {
            return None;
        }
        for plane in &mut self.planes {
            plane.resize(n_frames, 0.0);
        }
        let (pcm, gain) = (&self.interleaved, self.gain);
        if let [mono] = self.planes.as_mut_slice() {
            mono.iter_mut().zip(pcm).for_each(|(to, x)| *to = x * gain);
        } else if let [left, right] = self.planes.as_mut_slice() {
            let frames = left.iter_mut().zip(right).zip(pcm.as_chunks().0);
            frames.for_each(|((left, right), [l, r])| (*left, *right) = (l * gain, r * gain));
        } else {
            let order = PLANES.get(n_channels.checked_sub(1)?)?;
            for (channel, &plane) in order.iter().enumerate() {
                let samples = pcm.iter().skip(channel).step_by(n_channels);
                let plane = self.planes.get_mut(plane)?;
                plane.iter_mut().zip(samples).for_each(|(to, x)| *to = x * gain);
            }
        }
        Some(&self.planes)
    }
}
