//! scratch
use gristmill_core::audio::*;
use std::time::Instant;
fn spec(rate: Option<u32>, ch: Channels, crop: Crop) -> AudioSpec {
    AudioSpec { rate_hz: rate, channels: ch, crop, pad: Pad::None }
}
fn run(
    d: &mut Decoder,
    b: &[u8],
    s: &AudioSpec,
    draw: u64,
) -> Result<(Plan, Vec<f32>), DecodeError> {
    let p = d.plan(b, s, draw)?;
    let mut o = vec![f32::NAN; p.n_samples()];
    d.render(b, &p, &mut o)?;
    Ok((p, o))
}
fn main() {
    let a: Vec<String> = std::env::args().collect();
    match a[1].as_str() {
        "dump" => {
            // file rate ch out
            let b = std::fs::read(&a[2]).unwrap();
            let rate = match a[3].as_str() {
                "0" => None,
                r => Some(r.parse().unwrap()),
            };
            let ch = if a[4] == "mono" { Channels::Mono } else { Channels::Keep };
            let (p, o) = match run(&mut Decoder::default(), &b, &spec(rate, ch, Crop::Whole), 0) {
                Ok(x) => x,
                Err(e) => {
                    println!("ERR {e}");
                    return;
                }
            };
            println!("{:?} {}", p.info(), p.n_frames());
            std::fs::write(&a[5], o.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>())
                .unwrap();
        }
        "crops" => {
            let n: u64 = a[2].parse().unwrap();
            for f in &a[3..] {
                let b = std::fs::read(f).unwrap();
                let mut d = Decoder::default();
                for (rate, ch) in [
                    (None, Channels::Keep),
                    (None, Channels::Mono),
                    (Some(32000), Channels::Mono),
                    (Some(22050), Channels::Keep),
                    (Some(16001), Channels::Mono),
                ] {
                    let (pw, whole) = match run(&mut d, &b, &spec(rate, ch, Crop::Whole), 0) {
                        Ok(x) => x,
                        Err(e) => {
                            println!("{f} {e}");
                            break;
                        }
                    };
                    let nf = pw.n_frames();
                    let nc = pw.n_channels() as usize;
                    let (mut bad, mut err) = (0, 0);
                    let mut z = 88172645463325252u64;
                    let mut rnd = || {
                        z ^= z << 13;
                        z ^= z >> 7;
                        z ^= z << 17;
                        z
                    };
                    let n = if rate.is_some() { n / 8 } else { n };
                    let t = Instant::now();
                    for i in 0..n {
                        let len = (1 + rnd() as usize % 5000).min(nf);
                        if len == 0 {
                            continue;
                        }
                        let start = match i {
                            0 => 0,
                            1 => nf - len,
                            2 => 1.min(nf - len),
                            3 => (nf - len).saturating_sub(1),
                            _ => rnd() as usize % (nf - len + 1),
                        };
                        let r = pw.rate_hz() as f64;
                        let s = spec(
                            rate,
                            ch,
                            Crop::At { start: start as f64 / r, seconds: Some(len as f64 / r) },
                        );
                        match run(&mut d, &b, &s, 0) {
                            Ok((p, o)) => {
                                if p.n_frames() != len
                                    || p.crop() != (start as u64..(start + len) as u64)
                                {
                                    println!("shape {start} {len} {:?}", p.crop());
                                    bad += 1;
                                    continue;
                                }
                                for c in 0..nc {
                                    let w = &whole[c * nf + start..c * nf + start + len];
                                    let o = &o[c * len..(c + 1) * len];
                                    if w.iter().zip(o).any(|(a, b)| a.to_bits() != b.to_bits()) {
                                        bad += 1;
                                        break;
                                    }
                                }
                            }
                            Err(e) => {
                                err += 1;
                                if err < 3 {
                                    println!("{f} {start} {len}: {e}")
                                }
                            }
                        }
                    }
                    println!(
                        "{f} {rate:?} {ch:?} frames {nf} crops {n} bad {bad} err {err} {:.3} ms",
                        t.elapsed().as_secs_f64() * 1e3 / n as f64
                    );
                }
            }
        }
        "bench" => {
            // rate files
            let rate = match a[2].as_str() {
                "0" => None,
                r => Some(r.parse().unwrap()),
            };
            for f in &a[3..] {
                let b = std::fs::read(f).unwrap();
                let mut d = Decoder::default();
                let s = spec(rate, Channels::Mono, Crop::Random { seconds: 5.0 });
                let mut o = vec![0f32; 5 * 96000];
                let (mut tp, mut tr) = (vec![], vec![]);
                let mut z = 88172645463325252u64;
                for _ in 0..200 {
                    z ^= z << 13;
                    z ^= z >> 7;
                    z ^= z << 17;
                    let t = Instant::now();
                    let p = d.plan(&b, &s, z).unwrap();
                    tp.push(t.elapsed().as_secs_f64() * 1e3);
                    let t = Instant::now();
                    d.render(&b, &p, &mut o[..p.n_samples()]).unwrap();
                    tr.push(t.elapsed().as_secs_f64() * 1e3);
                }
                tp.sort_by(f64::total_cmp);
                tr.sort_by(f64::total_cmp);
                println!(
                    "{f} {rate:?} plan {:.3} render {:.3} (min {:.3}) ms",
                    tp[100], tr[100], tr[0]
                );
            }
        }
        "fuzz" => {
            // n files
            let n: u64 = a[2].parse().unwrap();
            std::panic::set_hook(Box::new(|_| {}));
            for f in &a[3..] {
                let orig = std::fs::read(f).unwrap();
                let mut z = 88172645463325252u64;
                let mut rnd = || {
                    z ^= z << 13;
                    z ^= z >> 7;
                    z ^= z << 17;
                    z
                };
                let mut d = Decoder::default();
                let mut counts = std::collections::BTreeMap::<String, u64>::new();
                let mut worst = 0f64;
                for _ in 0..n {
                    let mut b = orig.clone();
                    let hdr = rnd() % 2 == 0;
                    for _ in 0..1 + rnd() % 8 {
                        let lim = if hdr { 6000.min(b.len()) } else { b.len() };
                        let i = rnd() as usize % lim;
                        b[i] = match rnd() % 3 {
                            0 => rnd() as u8,
                            1 => b[i] ^ (1 << (rnd() % 8)),
                            _ => 0xff,
                        };
                    }
                    if rnd() % 4 == 0 {
                        let l = rnd() as usize % b.len();
                        b.truncate(l);
                    }
                    if f.ends_with("ogg") {
                        fix(&mut b);
                    }
                    let s = if rnd() % 2 == 0 {
                        spec(None, Channels::Mono, Crop::Random { seconds: 0.2 })
                    } else {
                        spec(Some(22050), Channels::Keep, Crop::Whole)
                    };
                    let t = Instant::now();
                    let r = d.plan(&b, &s, rnd()).and_then(|p| {
                        if p.n_samples() > 100_000_000 {
                            println!("HUGE {}", p.n_samples());
                            return Ok(());
                        }
                        let mut o = vec![0f32; p.n_samples()];
                        d.render(&b, &p, &mut o)
                    });
                    worst = worst.max(t.elapsed().as_secs_f64());
                    let k = match r {
                        Ok(()) => "ok".into(),
                        Err(e) => {
                            let s = format!("{:?}", e.reason);
                            if s.contains("Panic") {
                                s
                            } else {
                                s.split(|c| c == '(' || c == ' ').next().unwrap().to_string()
                            }
                        }
                    };
                    *counts.entry(k).or_default() += 1;
                }
                println!("{f} worst {worst:.2} s {counts:?}");
            }
        }
        _ => {}
    }
}
fn fix(b: &mut [u8]) {
    let mut at = 0;
    while at + 27 < b.len() {
        if &b[at..at + 4] != b"OggS" {
            at += 1;
            continue;
        }
        let n = b[at + 26] as usize;
        if at + 27 + n > b.len() {
            break;
        }
        let len = 27 + n + b[at + 27..at + 27 + n].iter().map(|&x| x as usize).sum::<usize>();
        if at + len > b.len() {
            break;
        }
        b[at + 22..at + 26].fill(0);
        let mut crc = 0u32;
        for &x in &b[at..at + len] {
            crc ^= (x as u32) << 24;
            for _ in 0..8 {
                crc = if crc >> 31 == 1 { crc << 1 ^ 0x04C11DB7 } else { crc << 1 }
            }
        }
        b[at + 22..at + 26].copy_from_slice(&crc.to_le_bytes());
        at += len;
    }
}
