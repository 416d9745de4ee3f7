//! Packets of ALAC in a file with valid tables, so that mutants reach the decoder.

/// The most frames in a packet.
const MAX_FRAME_LEN: u32 = 4_096;

/// An M4A file of the parts in `data`: seven bytes for the cookie (channels, bits, two for the frames
/// in a packet, and the code's pace, first mean and limit), and the packets, each after its length in
/// two bytes.
pub(crate) fn file(data: &[u8]) -> Vec<u8> {
    let mut head = [0; 7];
    let (fields, mut rest) = data.split_at(data.len().min(head.len()));
    head[..fields.len()].copy_from_slice(fields);
    let [channels, bits, high, low, pace, mean, max_k] = head;
    let n_channels = 1 + channels % 8;
    let bits = [16, 24, 20, 32, 1 + (bits >> 2) % 32][usize::from(bits % 4 + u8::from(bits > 128))];
    let frame_len = 1 + u32::from(u16::from_be_bytes([high, low])) % MAX_FRAME_LEN;
    let mut cookie = frame_len.to_be_bytes().to_vec();
    cookie.extend([0, bits, pace, mean, max_k, n_channels, 0, 255]);
    cookie.extend([0; 8]);
    cookie.extend(44_100u32.to_be_bytes());

    let (mut packets, mut lens, mut sizes) = (Vec::new(), Vec::new(), Vec::new());
    while let Some((len, behind)) = rest.split_first_chunk::<2>() {
        let (packet, behind) =
            behind.split_at(usize::from(u16::from_be_bytes(*len)).min(behind.len()));
        rest = behind;
        let mut packet = packet.to_vec();
        if let (Some(first), 1 | 2) = (packet.first_mut(), n_channels) {
            *first = *first & 0x1F | (n_channels - 1) << 5; // an element for all channels
        }
        packet.push(0xE0); // the end
        lens.extend([1, frames(&packet).unwrap_or(frame_len).clamp(1, frame_len)]);
        sizes.push(packet.len() as u32);
        packets.extend(packet);
    }

    let n_packets = sizes.len() as u32;
    let ftyp = atom("ftyp", b"M4A \0\0\0\0");
    let config = atom("alac", &[&[0; 4][..], &cookie].concat());
    let entry = atom("alac", &[&[0; 28][..], &config].concat());
    let tables = [
        atom("stsd", &[words(&[0, 1]), entry].concat()),
        atom("stts", &[words(&[0, n_packets]), words(&lens)].concat()),
        atom("stsz", &[words(&[0, 0, n_packets]), words(&sizes)].concat()),
        atom("stsc", &words(&[0, 1, 1, n_packets, 1])),
        atom("stco", &words(&[0, 1, ftyp.len() as u32 + 8])),
    ];
    let mdia = [
        atom("mdhd", &words(&[0, 0, 0, 44_100, 0, 0])),
        atom("hdlr", &[&[0; 8][..], b"soun", &[0; 12]].concat()),
        atom("minf", &atom("stbl", &tables.concat())),
    ];
    let trak = [atom("tkhd", &words(&[0, 0, 0, 1, 0, 0])), atom("mdia", &mdia.concat())];
    let mvhd = atom("mvhd", &words(&[0, 0, 0, 1000, 0, 0]));
    let moov = atom("moov", &[mvhd, atom("trak", &trak.concat())].concat());
    [ftyp, atom("mdat", &packets), moov].concat()
}

/// The frames that a packet says it has: 32 bits behind 23, if the bit before the last three is set.
fn frames(packet: &[u8]) -> Option<u32> {
    let word = u64::from_be_bytes(*packet.first_chunk()?);
    (word >> 44 & 1 == 1).then_some((word >> 9) as u32)
}

fn atom(kind: &str, body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32 + 8).to_be_bytes()[..], kind.as_bytes(), body].concat()
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}
