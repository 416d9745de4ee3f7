//! Opus in the packets of a container.

use super::{FRAME_LEN, Head, PacketDecoder, RATE_HZ, has_silk, packet_len, pre_roll};
use crate::{
    error::Reason,
    names::Codec,
    stream::{
        Coding, Counter, Decode, DecoderResult, Kept, Outcome, Packet, PacketSink, Shape, ToldBy,
        Track, WarmUp,
    },
};

/// The track of this header, which was read from these bytes.
pub(crate) fn track(head: Head, header: &[u8]) -> Track {
    let n_channels = head.n_channels;
    let stream = Stream { head, header: header.into(), has_silk: true };
    Track { frame_len: FRAME_LEN, ..Track::new(Codec::Opus, RATE_HZ, n_channels, stream) }
}

/// Packets of Opus.
#[derive(Clone, Debug)]
struct Stream {
    head: Head,
    /// What it was read from.
    header: Box<[u8]>,
    /// Whether a packet may have SILK in it.
    has_silk: bool,
}

/// The coding that [`Coding::seek_header`] stands for, if it has so many channels.
pub(crate) fn from_seek_header(header: &[u8], n_channels: u16) -> Option<Box<dyn Coding>> {
    let (&silk, header) = header.split_first()?;
    // The box of MP4 begins with its version, which is 0.
    let is_packet = header.first() == Some(&b'O');
    let head = if is_packet { Head::read(header) } else { Head::read_specific(header) };
    let head = head.ok().filter(|head| head.n_channels == n_channels)?;
    Some(Box::new(Stream { head, header: header.into(), has_silk: silk != 0 }))
}

impl Coding for Stream {
    fn seek_header(&self) -> Option<Vec<u8>> {
        Some([&[u8::from(self.has_silk)], &self.header[..]].concat())
    }

    fn warm_up(&self) -> WarmUp {
        WarmUp::Frames(pre_roll(&self.head, self.has_silk))
    }

    fn told_by(&self) -> ToldBy {
        ToldBy::Each
    }

    fn packet_len(&self, packet: &[u8]) -> Option<u32> {
        packet_len(packet)
    }

    fn counter(&self, _: &Track) -> Result<Counter, Reason> {
        let lost = || Reason::malformed("a packet is no Opus packet");
        Ok(Box::new(move |packet| packet_len(packet).ok_or_else(lost)))
    }

    fn settle(&mut self, bytes: &[u8], packets: &[Packet], _: u32) -> Result<(), Reason> {
        self.has_silk = packets.iter().filter_map(|packet| packet.data(bytes)).any(has_silk);
        Ok(())
    }

    fn decoder<'a>(&'a self, _: Shape, _: &'a mut Kept) -> DecoderResult<'a> {
        let inner = PacketDecoder::new(&self.head)?;
        Ok(Box::new(Decoder { stream: self, inner }))
    }
}

struct Decoder<'a> {
    stream: &'a Stream,
    inner: PacketDecoder,
}

impl Decode for Decoder<'_> {
    fn decode(&mut self, packet: &[u8], out: &mut PacketSink<'_, '_>) -> Result<Outcome, Reason> {
        let planes = self.inner.decode(packet);
        let outcome = planes.map_or(Outcome::Corrupt, |planes| out.push(planes));
        if outcome == Outcome::Corrupt {
            self.lose();
        }
        Ok(outcome)
    }

    fn lose(&mut self) {
        // One could be made for this header before.
        if let Ok(inner) = PacketDecoder::new(&self.stream.head) {
            self.inner = inner;
        }
    }
}
