//! Recordings made here: noise with its headers.

/// `n` pseudo-random bytes.
fn noise(n: usize) -> Vec<u8> {
    let mut state = 88_172_645_463_325_252u64;
    std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 20) as u8
    })
    .take(n)
    .collect()
}

/// Samples of so many bytes: integers of type 1, floats of type 3.
pub(crate) fn wav(rate_hz: u32, n_channels: u16, tag: u16, width: u16, n_frames: usize) -> Vec<u8> {
    let block = n_channels * width;
    let mut data = noise(n_frames * usize::from(block));
    if tag == 3 {
        // Exponents of numbers that are finite.
        data.iter_mut().skip(3).step_by(4).for_each(|byte| *byte = 0x3D | *byte & 0x80);
    }
    let mut bytes = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0".to_vec();
    bytes.extend([tag, n_channels].map(u16::to_le_bytes).concat());
    bytes.extend([rate_hz, rate_hz * u32::from(block)].map(u32::to_le_bytes).concat());
    bytes.extend([block, width * 8].map(u16::to_le_bytes).concat());
    bytes.extend(b"data");
    bytes.extend((data.len() as u32).to_le_bytes());
    bytes.extend(data);
    bytes
}

/// Samples of 16 bits.
pub(crate) fn aiff(rate_hz: u16, n_channels: u16, n_frames: u32) -> Vec<u8> {
    let data = noise(n_frames as usize * usize::from(n_channels) * 2);
    let mut bytes = b"FORM\0\0\0\0AIFFCOMM\0\0\0\x12".to_vec();
    bytes.extend(n_channels.to_be_bytes());
    bytes.extend(n_frames.to_be_bytes());
    bytes.extend(16u16.to_be_bytes());
    // Extended precision: the exponent of 2^15, and the rate from the highest bit on.
    let shift = rate_hz.leading_zeros();
    bytes.extend((0x400E - shift as u16).to_be_bytes());
    bytes.extend((u64::from(rate_hz) << (48 + shift)).to_be_bytes());
    bytes.extend(b"SSND");
    bytes.extend((data.len() as u32 + 8).to_be_bytes());
    bytes.extend([0; 8]);
    bytes.extend(data);
    bytes
}

/// Samples of 16 bits.
pub(crate) fn caf(rate_hz: f64, n_channels: u32, n_frames: u32) -> Vec<u8> {
    let data = noise((n_frames * n_channels) as usize * 2);
    let mut bytes = b"caff\0\x01\0\0desc\0\0\0\0\0\0\0\x20".to_vec();
    bytes.extend(rate_hz.to_bits().to_be_bytes());
    bytes.extend(b"lpcm");
    bytes.extend([2, 2 * n_channels, 1, n_channels, 16].map(u32::to_be_bytes).concat());
    bytes.extend(b"data");
    bytes.extend((data.len() as u64 + 4).to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(data);
    bytes
}

/// Samples of 16 bits.
pub(crate) fn sphere(rate_hz: u32, n_channels: usize, n_frames: usize) -> Vec<u8> {
    let head = format!(
        "NIST_1A\n   1024\nchannel_count -i {n_channels}\nsample_rate -i {rate_hz}\n\
         sample_n_bytes -i 2\nsample_byte_format -s2 10\nsample_count -i {n_frames}\nend_head\n"
    );
    let mut bytes = head.into_bytes();
    bytes.resize(1024, b' ');
    bytes.extend(noise(n_frames * n_channels * 2));
    bytes
}

/// One of the recordings of the benches.
pub(crate) fn recording(name: &str) -> Vec<u8> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings");
    std::fs::read(folder.join(name)).unwrap()
}

/// The same four seconds again and again, without the frame that tells how many they are.
pub(crate) fn mp3(n_times: usize) -> Vec<u8> {
    recording("mp3-stereo").split_off(417).repeat(n_times)
}

/// The same behind a tag; its last frame is not all there.
pub(crate) fn odd_mp3(n_times: usize) -> Vec<u8> {
    let mut bytes = [&b"ID3\x04\0\0\0\0\0\x64"[..], &[0; 100], &mp3(n_times)].concat();
    bytes.truncate(bytes.len() - 100);
    bytes
}

/// Noise in blocks of 4096 frames, one channel of 16 bits, stored as it is; 128 blocks at most.
pub(crate) fn flac(n_blocks: u8) -> Vec<u8> {
    let mut bytes = b"fLaC\x80\0\0\x22\x10\0\x10\0\0\0\0\0\0\0".to_vec();
    // 44.1 kHz, one channel, 16 bits, and the count of frames.
    let packed = (44_100u64 << 44 | 15 << 36) + u64::from(n_blocks) * 4096;
    bytes.extend(packed.to_be_bytes());
    bytes.extend([0; 16]);
    for (number, samples) in (0..n_blocks).zip(noise(usize::from(n_blocks) * 8192).chunks(8192)) {
        let mut frame = vec![0xFF, 0xF8, 0xC9, 0x08, number];
        frame.push(crc(&frame, 8, 0x07) as u8);
        frame.push(2); // a verbatim subframe
        frame.extend(samples);
        let sum = crc(&frame, 16, 0x8005);
        frame.extend(sum.to_be_bytes());
        bytes.extend(frame);
    }
    bytes
}

/// A checksum of so many bits, bit by bit.
fn crc(bytes: &[u8], n_bits: u32, polynomial: u16) -> u16 {
    let polynomial = polynomial << (16 - n_bits);
    let sum = bytes.iter().fold(0u16, |crc, &byte| {
        (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| {
            if crc >> 15 == 1 { crc << 1 ^ polynomial } else { crc << 1 }
        })
    });
    sum >> (16 - n_bits)
}

/// The checksum of Ogg pages and of entries, bit by bit.
pub(crate) fn checksum(bytes: &[u8]) -> [u8; 4] {
    let sum = bytes.iter().fold(0u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte) << 24, |crc, _| {
            if crc >> 31 == 1 { crc << 1 ^ 0x04C1_1DB7 } else { crc << 1 }
        })
    });
    sum.to_le_bytes()
}
