//! `random_distribution`: where random I/Os fall when not every block is as likely as any other. The formulas are fio's
//! (`lib/zipf.c`, `lib/gauss.c`, `io_u.c`), so that shares of hot blocks agree; the sequence of numbers is our own.

use super::units::{number, size};

/// Most terms of zeta that fio sums; the model sums as many.
const MOST_TERMS: u64 = 10_000_000;
/// Multiplier by which fio scatters the ranks of zipf, pareto and normal over the blocks.
const SCATTER: u64 = 0x61C8_8646_80B5_83EB;

/// The distribution as a job file asks for it.
#[derive(Debug, Clone, PartialEq)]
pub enum Distribution {
    /// Every block as likely as any other.
    Uniform,
    /// `zipf:theta[:center]`.
    Zipf(f64, Option<f64>),
    /// `pareto:h[:center]`.
    Pareto(f64, Option<f64>),
    /// `normal:deviation[:center]`, the deviation in percent.
    Normal(f64, Option<f64>),
    /// `zoned`: percent of the accesses, and up to which percent of the area they go.
    Zoned(Vec<(u32, u64)>),
    /// `zoned_abs`: percent of the accesses, and up to which byte of the area they go.
    ZonedAbs(Vec<(u32, u64)>),
}

/// Reads the option for one direction.
pub fn distribution(text: &str) -> Result<Distribution, String> {
    let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
    let floats = |default: f64| -> Result<(f64, Option<f64>), String> {
        let mut parts = rest.split(':').filter(|p| !p.is_empty()).map(|p| {
            p.parse::<f64>().ok().filter(|v| v.is_finite()).ok_or_else(|| format!("`{p}` in `{text}` is not a number"))
        });
        let value = parts.next().transpose()?.unwrap_or(default);
        let center = parts.next().transpose()?;
        match center {
            Some(c) if !(0.0..=1.0).contains(&c) => Err(format!("`{text}`: the centre must be 0 to 1")),
            _ => Ok((value, center)),
        }
    };
    match kind {
        "random" => Ok(Distribution::Uniform),
        "zipf" => match floats(1.1)? {
            (theta, _) if theta <= 0.0 || theta == 1.0 => Err("zipf: theta must be above 0, and not 1".into()),
            (theta, center) => Ok(Distribution::Zipf(theta, center)),
        },
        "pareto" => match floats(0.2)? {
            (h, center) if h > 0.0 && h < 1.0 => Ok(Distribution::Pareto(h, center)),
            _ => Err("pareto: the input must be between 0 and 1".into()),
        },
        "normal" | "gauss" => match floats(0.0)? {
            (deviation, center) if (0.0..=100.0).contains(&deviation) => Ok(Distribution::Normal(deviation, center)),
            _ => Err("normal: the deviation must be 0 to 100 percent".into()),
        },
        "zoned" => Ok(Distribution::Zoned(zones(rest, Some(100), number)?)),
        "zoned_abs" => Ok(Distribution::ZonedAbs(zones(rest, None, size)?)),
        _ => Err(format!("`{kind}` is none of random, zipf, pareto, normal, zoned, zoned_abs")),
    }
}

/// Parses `percent/extent:...` to percent and summed extent. Entries without an extent (`20/`) share the remaining part of `whole`.
fn zones(
    text: &str,
    whole: Option<u64>,
    parse: impl Fn(&str) -> Result<u64, String>,
) -> Result<Vec<(u32, u64)>, String> {
    let mut parts: Vec<(u32, Option<u64>)> = Vec::new();
    for entry in text.split(':').filter(|e| !e.is_empty()) {
        let (percent, extent) = entry.split_once('/').ok_or_else(|| format!("`{entry}` is not percent/extent"))?;
        let extent = Some(extent).filter(|e| !e.is_empty() || whole.is_none()).map(&parse).transpose()?;
        parts.push((number(percent)?.try_into().map_err(|_| "a percentage is too large")?, extent));
    }
    let given = parts
        .iter()
        .filter_map(|p| p.1)
        .try_fold(0u64, |sum, e| sum.checked_add(e))
        .ok_or("the zones are too large")?;
    let open = parts.iter().filter(|p| p.1.is_none()).count() as u64;
    let share = whole.map_or(0, |w| w.saturating_sub(given).checked_div(open).unwrap_or(0));
    let mut until = 0u64;
    let mut list = Vec::new();
    for (percent, extent) in parts {
        until = until.checked_add(extent.unwrap_or(share)).ok_or("the zones are too large")?;
        list.push((percent, until));
    }
    let sum: u64 = list.iter().map(|e| u64::from(e.0)).sum();
    if sum != 100 {
        return Err(format!("the percentages of the accesses make {sum}, not 100"));
    }
    Ok(list)
}

/// A distribution over the blocks of an area.
#[derive(Debug, Clone)]
pub struct Chooser {
    kind: Kind,
    blocks: u64,
    offset: u64,
}

#[derive(Debug, Clone)]
enum Kind {
    Uniform,
    Zipf { theta: f64, zeta2: f64, zetan: f64 },
    Pareto { power: f64 },
    Normal { deviation: u64 },
    Zones(Vec<(u32, u64)>),
}

impl Chooser {
    /// `blocks` of `block` bytes each; `rng` gives the place of the hottest block where no centre was asked for.
    pub fn new(distribution: &Distribution, blocks: u64, block: u64, rng: &mut fastrand::Rng) -> Self {
        let hottest = |center: &Option<f64>, rng: &mut fastrand::Rng| match center {
            Some(c) => (blocks as f64 * c) as u64,
            None => rng.u64(..),
        };
        let (kind, offset) = match distribution {
            Distribution::Uniform => (Kind::Uniform, 0),
            Distribution::Zipf(theta, center) => {
                let zetan = (1..=blocks.min(MOST_TERMS)).map(|i| (i as f64).powf(-theta)).sum();
                (Kind::Zipf { theta: *theta, zeta2: 1.0 + 0.5f64.powf(*theta), zetan }, hottest(center, rng))
            }
            Distribution::Pareto(h, center) => (Kind::Pareto { power: h.ln() / (1.0 - h).ln() }, hottest(center, rng)),
            Distribution::Normal(deviation, center) => {
                let deviation = ((blocks as f64 * deviation / 100.0).ceil() as u64).min(blocks / 2);
                let offset = center.map_or(0, |c| (blocks as f64 * (c - 0.5)) as i64 as u64);
                (Kind::Normal { deviation }, offset)
            }
            Distribution::Zoned(list) => {
                let bounds = list.iter().map(|&(p, until)| (p, (u128::from(until) * u128::from(blocks) / 100) as u64));
                (Kind::Zones(bounds.collect()), 0)
            }
            Distribution::ZonedAbs(list) => {
                (Kind::Zones(list.iter().map(|&(p, until)| (p, until / block)).collect()), 0)
            }
        };
        Self { kind, blocks, offset }
    }

    /// The next block.
    pub fn next_block(&self, rng: &mut fastrand::Rng) -> u64 {
        let n = self.blocks;
        let rank = match &self.kind {
            Kind::Uniform => return rng.u64(..n),
            Kind::Zipf { theta, zeta2, zetan } => {
                let (alpha, share) = (1.0 / (1.0 - theta), rng.f64());
                let eta = (1.0 - (2.0 / n as f64).powf(1.0 - theta)) / (1.0 - zeta2 / zetan);
                match share * zetan {
                    z if z < 1.0 => 0,
                    z if z < *zeta2 => 1,
                    _ => (n as f64 * (eta * share - eta + 1.0).powf(alpha)) as u64,
                }
            }
            Kind::Pareto { power } => ((n - 1) as f64 * rng.f64().powf(*power)) as u64,
            Kind::Normal { deviation } => {
                let mut sum = (0..12).map(|_| u128::from(rng.u64(..=n))).sum::<u128>().div_ceil(12) as i128;
                if *deviation > 0 {
                    let mut shift = (*deviation as f64 * rng.f64()) as i128 - i128::from(deviation / 2);
                    while !(0..i128::from(n)).contains(&(sum + shift)) && shift != 0 {
                        shift /= 2;
                    }
                    sum += shift;
                }
                sum as u64
            }
            Kind::Zones(zones) => {
                let (mut percent, mut from) = (rng.u32(1..=100), 0);
                for &(part, until) in zones {
                    if percent <= part {
                        return from + rng.u64(..(until.min(n) - from.min(n)).max(1));
                    }
                    (percent, from) = (percent - part, until);
                }
                return rng.u64(..n);
            }
        };
        rank.wrapping_mul(SCATTER).wrapping_add(self.offset) % n
    }
}
