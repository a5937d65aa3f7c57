//! Numbers with suffixes as fio reads them (fio HOWTO, "Parameter types"), with its default `kb_base=1024`.

/// A size in bytes: `4k` is 4096, and, as in fio, `4ki` is 4000. A trailing `b` changes nothing.
pub fn size(text: &str) -> Result<u64, String> {
    let lower = text.trim().to_ascii_lowercase();
    let body = lower.strip_suffix('b').unwrap_or(&lower);
    let (body, base) = match body.strip_suffix('i') {
        Some(body) => (body, 1000u64),
        None => (body, 1024),
    };
    let (digits, power) = match body.char_indices().last() {
        Some((at, c)) if c.is_ascii_alphabetic() => {
            let power = "kmgtp".find(c).ok_or_else(|| format!("`{text}` has no suffix fio knows (k, m, g, t, p)"))?;
            (&body[..at], power as u32 + 1)
        }
        _ => (body, 0),
    };
    if power == 0 && base == 1000 {
        return Err(format!("`{text}` is not a size"));
    }
    let number = digits.parse::<u64>().map_err(|_| format!("`{text}` is not a size"))?;
    number.checked_mul(base.pow(power)).ok_or_else(|| format!("`{text}` is too large"))
}

/// A time in microseconds; a bare number is in `default_us`.
pub fn time_us(text: &str, default_us: u64) -> Result<u64, String> {
    let lower = text.trim().to_ascii_lowercase();
    let at = lower.find(|c: char| !c.is_ascii_digit()).unwrap_or(lower.len());
    let unit = match &lower[at..] {
        "" => default_us,
        "us" | "usec" => 1,
        "ms" | "msec" => 1_000,
        "s" | "sec" | "second" | "seconds" => 1_000_000,
        "m" | "min" | "minute" | "minutes" => 60_000_000,
        "h" | "hour" | "hours" => 3_600_000_000,
        "d" | "day" | "days" => 86_400_000_000,
        _ => return Err(format!("`{text}` is not a time (us, ms, s, m, h, d)")),
    };
    let number = lower[..at].parse::<u64>().map_err(|_| format!("`{text}` is not a time"))?;
    number.checked_mul(unit).ok_or_else(|| format!("`{text}` is too large"))
}

/// A whole number without suffix.
pub fn number(text: &str) -> Result<u64, String> {
    text.trim().parse().map_err(|_| format!("`{text}` is not a whole number"))
}

/// 0 or 1; an option without a value is 1.
pub fn flag(text: Option<&str>) -> Result<bool, String> {
    match text.map(str::trim) {
        None | Some("1") => Ok(true),
        Some("0") => Ok(false),
        Some(other) => Err(format!("`{other}` is neither 0 nor 1")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_as_in_the_howto() {
        assert_eq!(size("4k"), Ok(4096));
        assert_eq!(size("4KB"), Ok(4096));
        assert_eq!(size("4kib"), Ok(4000));
        assert_eq!(size("1G"), Ok(1 << 30));
        assert_eq!(size("512"), Ok(512));
        assert!(size("4x").is_err());
        assert!(size("").is_err());
        assert!(size("99999999p").is_err());
        assert_eq!(time_us("10", 1_000_000), Ok(10_000_000));
        assert_eq!(time_us("500ms", 1_000_000), Ok(500_000));
        assert_eq!(time_us("7", 1), Ok(7));
        assert!(time_us("7 parsec", 1).is_err());
    }
}
