//! NIST SPHERE, as corpora of speech have it: the header. The samples are [`pcm`](crate::demux::pcm).

use std::str;

use crate::{
    bytes::from,
    demux::{
        container::{Container, Input, OpenResult},
        pcm::{self, Encoding, Endian, Format, PcmLayout},
        stated::Stated,
    },
    error::Reason,
    names::Codec,
    report::{Ledger, Note},
    stream::Scratch,
};

const MAGIC: &[u8] = b"NIST_1A\n";

/// Where the fields begin: behind the magic and a line of eight bytes, the size of the header.
const FIELDS: usize = 16;

/// NIST SPHERE.
pub(crate) struct Sphere;

impl Container for Sphere {
    fn find(&self, bytes: &[u8], at: usize) -> Option<usize> {
        bytes.get(at..)?.starts_with(MAGIC).then_some(at)
    }

    fn codec(&self, _: &[u8], _: usize) -> Option<Codec> {
        Some(Codec::Sphere)
    }

    fn open(&self, input: Input<'_>, _: &mut Scratch, ledger: &mut Ledger) -> OpenResult {
        let layout = open(input.bytes, input.at, ledger)?;
        Ok(Box::new(pcm::Stored { codec: Codec::Sphere, layout }))
    }
}

/// Reads the header of the file at `offset`. The samples follow it, and go to the end of the file: players
/// ignore a count of fewer. Only a count of more frames than one too many shows that the file is cut.
fn open(bytes: &[u8], offset: usize, ledger: &mut Ledger) -> Result<PcmLayout, Reason> {
    let file = from(bytes, offset);
    let size = file.get(MAGIC.len()..FIELDS).and_then(|line| str::from_utf8(line).ok());
    let size = size.and_then(|line| line.trim().parse::<usize>().ok()).filter(|n| *n >= FIELDS);
    let size = size.ok_or_else(|| Reason::malformed("the second line is no size of a header"))?;
    let header = file.get(FIELDS..size).ok_or_else(|| Reason::malformed("the header is cut"))?;
    let fields = Fields::of(header)?;
    let data = offset + size;
    let there = from(bytes, data).len() as u64;
    let count = fields.number("sample_count");
    // Writers to a pipe leave it at 0.
    let n_counted = count.as_ref().ok().copied().flatten().filter(|&count| count > 0);
    let (format, is_sure) = fields.format(n_counted, there)?;
    if !is_sure {
        let reason = Reason::malformed("sample_n_bytes contradicts the other fields");
        ledger.remark(Note::HeaderFields, 1, reason)?;
    }
    let present = there / format.block();
    let n_frames = n_counted.map(|count| match count.checked_div(format.n_channels.into()) {
        // That of all channels together.
        Some(count) if count == present => present,
        _ => count,
    });
    let told = n_frames.map(|n_frames| n_frames.saturating_mul(format.block()));
    let len = told.filter(|_| n_frames.is_some_and(|n_frames| n_frames > present + 1));
    let (header, is_odd) = (size as u64, count.is_err());
    let stated = Stated { len, told, header, is_closed: false, is_odd };
    format.layout(bytes, data, &stated, ledger)
}

/// The lines of a header, each a name, a type and a value.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// Those before the line that ends the header.
    fn of(header: &'a [u8]) -> Result<Self, Reason> {
        let mut end = 0;
        for line in header.split_inclusive(|byte| *byte == b'\n') {
            if line.trim_ascii() == b"end_head" {
                return Ok(Self(header.get(..end).unwrap_or_default()));
            }
            end += line.len();
        }
        Err(Reason::malformed("the header has no end_head"))
    }

    fn text(&self, name: &str) -> Option<&'a str> {
        self.0.split(|byte| *byte == b'\n').find_map(|line| {
            let (found, rest) = str::from_utf8(line).ok()?.trim().split_once(' ')?;
            // The types are -i, -r and, with the length of the text, -s.
            let (_, value) = rest.trim_start().strip_prefix('-')?.split_once(' ')?;
            (found == name).then(|| value.trim())
        })
    }

    fn number(&self, name: &str) -> Result<Option<u64>, Reason> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let number = text.parse::<f64>().ok().map(f64::round);
        // Beyond this, not all whole numbers have a value of their own.
        let number = number.filter(|number| (0.0..=9e15).contains(number));
        let odd = || Reason::malformed(format!("{name} is {}", shown(text)));
        number.map(|number| Some(number as u64)).ok_or_else(odd)
    }

    fn required(&self, name: &str) -> Result<u32, Reason> {
        let number = self.number(name)?;
        let number = number.ok_or_else(|| Reason::malformed(format!("there is no {name}")))?;
        Ok(u32::try_from(number).unwrap_or(u32::MAX))
    }

    /// Bytes of a sample of which `n_samples` should fill `there` bytes, and whether all fields agree. Where the
    /// stated number cannot be, that of the bits of a sample is taken.
    fn sample_bytes(&self, n_samples: Option<u64>, there: u64) -> Result<(u32, bool), Reason> {
        let stated = self.required("sample_n_bytes")?;
        let bits = self.number("sample_sig_bits").ok().flatten();
        let by_bits = bits.and_then(|bits| u32::try_from(bits.div_ceil(8)).ok()).unwrap_or(stated);
        let fits = |n_bytes: u32| {
            n_samples.and_then(|n| n.checked_mul(n_bytes.into())).is_some_and(|len| len == there)
        };
        let is_odd = !fits(stated) && (fits(by_bits) || !(1..=4).contains(&stated));
        Ok(if is_odd { (by_bits, by_bits == stated) } else { (stated, true) })
    }

    /// The format of the samples, and whether all fields agree on it.
    fn format(&self, n_counted: Option<u64>, there: u64) -> Result<(Format, bool), Reason> {
        let coding = self.text("sample_coding").unwrap_or("pcm");
        let order = self.text("sample_byte_format").unwrap_or_default();
        if let Some(name) = [coding, order].into_iter().find_map(packing) {
            return Err(Reason::UnsupportedCodec(format!("SPHERE with {name}")));
        }
        let n_channels = self.required("channel_count")?;
        let n_samples = n_counted.and_then(|count| count.checked_mul(n_channels.into()));
        let (n_bytes, is_sure) = self.sample_bytes(n_samples, there)?;
        let encoding = match coding {
            "pcm" => linear(n_bytes, order),
            "ulaw" | "mu-law" => (n_bytes == 1).then_some(Encoding::MuLaw),
            "alaw" => (n_bytes == 1).then_some(Encoding::ALaw),
            _ => {
                let what = format!("SPHERE with {}", shown(coding));
                return Err(Reason::UnsupportedCodec(what));
            }
        };
        let odd = || {
            let order = shown(order);
            Reason::malformed(format!("{coding} samples of {n_bytes} bytes in the order {order}"))
        };
        let encoding = encoding.ok_or_else(odd)?;
        Ok((Format::new(self.required("sample_rate")?, n_channels, encoding)?, is_sure))
    }
}

/// Integers of so many bytes. Their order is that of the digits, such as 01 and 10; `libsndfile` writes these
/// two for longer samples as well.
fn linear(n_bytes: u32, order: &str) -> Option<Encoding> {
    let is_digits = order.bytes().all(|byte| byte.is_ascii_digit());
    match order.bytes().next() {
        _ if !is_digits => None,
        _ if n_bytes == 1 => Some(Encoding::I8),
        None => None,
        Some(b'0') => Encoding::signed(n_bytes, Endian::Little),
        Some(_) => Encoding::signed(n_bytes, Endian::Big),
    }
}

/// What the samples are packed with, if a field says so.
fn packing(field: &str) -> Option<&'static str> {
    let names = [("shorten", "Shorten"), ("shortpack", "Shortpack"), ("wavpack", "WavPack")];
    names.into_iter().find_map(|(word, name)| field.contains(word).then_some(name))
}

/// The beginning of a text of the file.
fn shown(text: &str) -> String {
    text.escape_debug().take(40).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn open(bytes: &[u8]) -> Result<PcmLayout, Reason> {
        super::open(bytes, 0, &mut Ledger::default())
    }

    fn file(fields: &str, n_bytes: usize) -> Vec<u8> {
        let head = format!("NIST_1A\n   1024\n{fields}end_head\n");
        let pad = vec![b' '; 1024 - head.len()];
        [head.as_bytes(), &pad, &vec![1; n_bytes]].concat()
    }

    const MONO: &str = "channel_count -i 1\nsample_rate -i 16000\nsample_n_bytes -i 2\n";

    fn with(fields: &str) -> Result<PcmLayout, Reason> {
        open(&file(&format!("{MONO}{fields}"), 20))
    }

    #[test]
    fn frames_are_those_that_are_promised_and_there() {
        let little = "sample_byte_format -s2 01\n";
        let of = |count: &str| with(&format!("{little}{count}")).map(|layout| layout.n_frames);
        assert_eq!(of("sample_count -i 7\n"), Ok(10));
        assert_eq!(of("sample_count -i 11\n"), Ok(10));
        assert_eq!(of("sample_count -i 0\n"), Ok(10));
        assert_eq!(of(""), Ok(10));
        let cut = Reason::Truncated { decoded: 10, expected: Some(4_000_000_000_000) };
        assert_eq!(of("sample_count -i 4000000000000\n"), Err(cut));
        for count in ["-1", "x", "nan", "1e300", ""] {
            assert_eq!(of(&format!("sample_count -i {count} \n")), Ok(10), "{count}");
        }
        let stereo = "channel_count -i 2\nsample_rate -r 8000.0\nsample_n_bytes -s1 1\n\
                      sample_coding -s4 ulaw\nsample_count -i ";
        for (count, n_frames) in [(10, 10), (20, 10), (9, 10), (0, 10)] {
            let layout = open(&file(&format!("{stereo}{count}\n"), 20)).unwrap();
            assert_eq!((layout.rate_hz, layout.n_channels), (8_000, 2));
            assert_eq!(layout.n_frames, n_frames);
        }
    }

    #[test]
    fn bytes_of_a_sample_are_those_that_fill_the_file() {
        let of = |n_bytes: &str, more: &str| {
            let fields = MONO.replace("n_bytes -i 2", &format!("n_bytes -i {n_bytes}"));
            let more = format!("sample_byte_format -s2 01\n{more}");
            open(&file(&format!("{fields}{more}"), 20)).map(|layout| layout.n_frames)
        };
        let bits = "sample_sig_bits -i 16\n";
        for n_bytes in ["0", "1", "2", "3", "4", "46", "2147483647"] {
            assert_eq!(of(n_bytes, &format!("{bits}sample_count -i 10\n")), Ok(10), "{n_bytes}");
        }
        assert_eq!(of("4", bits), Ok(5));
        assert_eq!(of("4", "sample_sig_bits -i 24\nsample_count -i 5\n"), Ok(5));
        assert!(of("0", "").is_err() && of("9", "sample_sig_bits -i 99\n").is_err());
    }

    #[test]
    fn what_is_packed_is_refused_by_name() {
        for (field, name) in [
            ("sample_coding -s26 pcm,embedded-shorten-v2.00", "Shorten"),
            ("sample_coding -s27 ulaw,embedded-shorten-v2.00", "Shorten"),
            ("sample_coding -s20 pcm,embedded-wavpack", "WavPack"),
            ("sample_byte_format -s12 shortpack-v0", "Shortpack"),
            ("sample_coding -s5 g\u{7}722", "g\\u{7}722"),
        ] {
            let error = with(&format!("{field}\n")).unwrap_err();
            assert_eq!(error, Reason::UnsupportedCodec(format!("SPHERE with {name}")));
        }
    }

    #[test]
    fn headers_that_do_not_say_enough_are_malformed() {
        for fields in ["", "sample_byte_format -s6 mu-law\n", "sample_coding -s4 ulaw\n"] {
            assert!(matches!(with(fields), Err(Reason::MalformedHeader(_))), "{fields}");
        }
        let right = file(&format!("{MONO}sample_byte_format -s2 10\n"), 20);
        assert_eq!(open(&right).unwrap().n_frames, 10);
        for lost in ["channel_count", "sample_rate", "sample_n_bytes", "end_head"] {
            let mut bytes = right.clone();
            let at = bytes.windows(lost.len()).position(|part| part == lost.as_bytes()).unwrap();
            bytes[at] = b'x';
            assert!(matches!(open(&bytes), Err(Reason::MalformedHeader(_))), "{lost}");
        }
        for size in [b"      0\n", b"     60\n", b"9999999\n", b"     -1\n", b"\xFF      \n"] {
            let mut bytes = right.clone();
            bytes[8..16].copy_from_slice(size);
            assert!(matches!(open(&bytes), Err(Reason::MalformedHeader(_))));
        }
        for end in 0..1024 {
            assert!(matches!(open(&right[..end]), Err(Reason::MalformedHeader(_))));
        }
        assert_eq!(open(&right[..1024]).unwrap().n_frames, 0);
    }

    proptest! {
        #[test]
        fn hostile_headers_end_in_a_layout_or_an_error(
            size in "[ 0-9]{7}",
            lines in prop::collection::vec(
                "(sample_count|channel_count|sample_rate|sample_n_bytes|sample_byte_format\
                 |sample_coding|end_head|;) ?-?[irs]?[0-9]{0,2} [0-9a-z,.-]{0,20}",
                0..12,
            ),
            tail in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            let text = format!("NIST_1A\n{size}\n{}\n{MONO}end_head\n", lines.join("\n"));
            let bytes = [text.as_bytes(), &tail].concat();
            if let Ok(layout) = open(&bytes) {
                prop_assert!(layout.n_frames <= bytes.len() as u64);
            }
        }
    }
}
