//! Corrupted input for readers, seeded so that a failing case can be repeated.

use fastrand::Rng;

/// Runs `test` on `count` seeds, or WATTBELL_FUZZ times as many (and different ones) if set; reports the seed of one
/// that panics.
pub fn each(count: u64, mut test: impl FnMut(&mut Rng)) {
    let times: u64 = std::env::var("WATTBELL_FUZZ").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let first: u64 = std::env::var("WATTBELL_FUZZ_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    for seed in first..first + count * times.max(1) {
        let _told = Seed(seed);
        test(&mut Rng::with_seed(seed));
    }
    println!("fuzz: {} inputs", count * times.max(1)); // tools/soak.py reads it
}

struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}: run it alone with WATTBELL_FUZZ_SEED={}", self.0, self.0);
        }
    }
}

/// Flips, overwrites, inserts, removes, duplicates and truncates bytes, a few times.
#[allow(dead_code)]
pub fn spoil(rng: &mut Rng, bytes: &mut Vec<u8>) {
    for _ in 0..rng.usize(1..6) {
        if bytes.is_empty() {
            return;
        }
        let at = rng.usize(..bytes.len());
        let end = (at + rng.usize(1..40)).min(bytes.len());
        match rng.u8(..8) {
            0 => bytes[at] ^= 1 << rng.u8(..8),
            1 => bytes[at] = rng.u8(..),
            2 => {
                let number = extreme(rng).to_le_bytes();
                let wide = [1, 2, 4, 8][rng.usize(..4)].min(bytes.len() - at);
                bytes[at..at + wide].copy_from_slice(&number[..wide]);
            }
            3 => drop(bytes.drain(at..end)),
            4 => {
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            5 => {
                let piece: Vec<u8> = (at..end).map(|_| rng.u8(..)).collect();
                bytes.splice(at..at, piece);
            }
            6 => bytes[at..end].fill(0),
            _ => bytes.truncate(at.max(1)),
        }
    }
}

/// A number at the end of some range, or any number.
pub fn extreme(rng: &mut Rng) -> u64 {
    let near = rng.u64(..3).wrapping_sub(1);
    let power = [0, 7, 8, 15, 16, 31, 32, 40, 53, 62, 63][rng.usize(..11)];
    match rng.u8(..4) {
        0 => near,
        1 | 2 => (1u64 << power).wrapping_add(near),
        _ => rng.u64(..),
    }
}

/// Replaces numbers and words; removes, duplicates, swaps and truncates lines; sometimes corrupts bytes too.
#[allow(dead_code)]
pub fn spoil_text(rng: &mut Rng, text: &str) -> Vec<u8> {
    let mut lines: Vec<String> = text.lines().map(String::from).collect();
    for _ in 0..rng.usize(1..8) {
        if lines.is_empty() {
            break;
        }
        let at = rng.usize(..lines.len());
        match rng.u8(..9) {
            0 => drop(lines.remove(at)),
            1 => lines.insert(at, lines[at].clone()),
            2 => {
                let other = rng.usize(..lines.len());
                lines.swap(at, other);
            }
            3 => {
                let cut =
                    (0..=lines[at].len()).filter(|&i| lines[at].is_char_boundary(i)).nth(rng.usize(..=lines[at].len()));
                lines[at].truncate(cut.unwrap_or(0));
            }
            _ => lines[at] = renumbered(rng, &lines[at]),
        }
    }
    let mut bytes = lines.join("\n").into_bytes();
    if rng.u8(..4) == 0 {
        spoil(rng, &mut bytes);
    }
    bytes
}

/// The line with one of its numbers replaced.
fn renumbered(rng: &mut Rng, line: &str) -> String {
    let starts: Vec<usize> = (0..line.len())
        .filter(|&i| line.as_bytes()[i].is_ascii_digit() && (i == 0 || !line.as_bytes()[i - 1].is_ascii_alphanumeric()))
        .collect();
    let Some(&start) = rng.choice(&starts) else { return line.into() };
    let end = line[start..].find(|c: char| !c.is_ascii_alphanumeric()).map_or(line.len(), |n| start + n);
    let number = match rng.u8(..8) {
        0 => format!("-{}", extreme(rng)),
        1 => format!("{}{}", extreme(rng), extreme(rng)),
        2 => "nan".into(),
        3 => "1e308".into(),
        4 => format!("0x{:x}", extreme(rng)),
        _ => extreme(rng).to_string(),
    };
    format!("{}{number}{}", &line[..start], &line[end..])
}
