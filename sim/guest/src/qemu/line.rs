//! Lines of a QEMU log: the start of an event, its time, and the numbers in its arguments.
//!
//! QEMU 10.0 and older write `PID@SECONDS.MICROS:event arguments`. Newer versions write `YYYY-MM-DDTHH:MM:SS.MICROSZ event arguments`
//! (both with `-msg timestamp=on`). Other text may stand between such lines. A line may be truncated or run into the next line.

/// Prefix of the names of all events of interest.
const PREFIX: &str = "pci_nvme_";

/// One event as logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment<'a> {
    /// Microseconds since 1970, if the line has a time.
    pub time_us: Option<i64>,
    /// Name of the event without `pci_nvme_`.
    pub name: &'a str,
    /// The text after the name.
    pub args: &'a str,
}

/// The events in `line`: none in most foreign lines, several where lines ran together.
pub fn segments(line: &str) -> Vec<Segment<'_>> {
    let mut starts: Vec<(usize, usize, Option<i64>)> = Vec::new(); // start of the prefix, start of the name, time
    let mut from = 0;
    while let Some(found) = line[from..].find(PREFIX) {
        let at = from + found;
        from = at + PREFIX.len();
        match line[..at].bytes().next_back() {
            None => starts.push((0, at, None)),
            Some(b':' | b' ' | b'\t') => {
                let (begin, time_us) = timestamp(&line[..at]);
                // An event's own arguments never name an event: anything with neither a time nor a line start is
                // foreign text.
                if time_us.is_some() || line[..at].trim().is_empty() {
                    starts.push((begin, at, time_us));
                }
            }
            Some(_) => {}
        }
    }
    starts
        .iter()
        .enumerate()
        .map(|(i, &(_, at, time_us))| {
            let end = starts.get(i + 1).map_or(line.len(), |next| next.0.max(at));
            let text = line[at + PREFIX.len()..end.max(at + PREFIX.len())].trim_end();
            let (name, args) = text.split_once([' ', ':']).unwrap_or((text, ""));
            Segment { time_us, name, args }
        })
        .collect()
}

/// Returns the start of the timestamp at the end of `before`, and the timestamp's value.
fn timestamp(before: &str) -> (usize, Option<i64>) {
    let body = before.trim_end_matches([' ', '\t', ':']);
    let start = body.rfind(|c: char| !matches!(c, '0'..='9' | 'T' | 'Z' | ':' | '.' | '-' | '@' | '+'));
    let token = &body[start.map_or(0, |s| s + body[s..].chars().next().map_or(1, char::len_utf8))..];
    let begin = body.len() - token.len();
    if let Some(at) = token.rfind('@') {
        return (begin, epoch(&token[at + 1..]));
    }
    // A line truncated inside a number runs into the timestamp: only its last 27 or 20 characters are the time.
    for length in [27, 20] {
        if token.len() >= length {
            if let Some(time) = iso8601(&token[token.len() - length..]) {
                return (body.len() - length, Some(time));
            }
        }
    }
    (before.len(), None)
}

/// Parses `SECONDS.MICROS` to microseconds.
fn epoch(text: &str) -> Option<i64> {
    let (seconds, micros) = text.split_once('.')?;
    if micros.len() != 6 {
        return None;
    }
    seconds.parse::<i64>().ok()?.checked_mul(1_000_000)?.checked_add(micros.parse::<u32>().ok()?.into())
}

/// Parses `YYYY-MM-DDTHH:MM:SS[.ffffff]Z` to microseconds since 1970.
fn iso8601(text: &str) -> Option<i64> {
    let text = text.strip_suffix('Z')?;
    let (date, time) = text.split_once('T')?;
    let mut ymd = date.splitn(3, '-').map(|p| p.parse::<i64>().ok());
    let (year, month, day) = (ymd.next()??, ymd.next()??, ymd.next()??);
    let (hms, micros) = match time.split_once('.') {
        Some((hms, fraction)) if fraction.len() == 6 => (hms, fraction.parse::<i64>().ok()?),
        Some(_) => return None,
        None => (time, 0),
    };
    let mut parts = hms.splitn(3, ':').map(|p| p.parse::<i64>().ok());
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 || year > 9999
    {
        return None;
    }
    // Days from civil, H. Hinnant's algorithm: years start in March, so that the leap day is the last of a year.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719_468;
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000_000 + micros)
}

/// The number after `key` in `args`, as `key 12`, `key 0x1f` or `key=...`. `None` if it is missing or truncated.
pub fn number(args: &str, key: &str) -> Option<u64> {
    let mut from = 0;
    while let Some(found) = args[from..].find(key) {
        let at = from + found;
        from = at + key.len();
        let bounded = args[..at].bytes().next_back().is_none_or(|b| !b.is_ascii_alphanumeric() && b != b'_');
        let Some(rest) = args[from..].strip_prefix([' ', '=']) else { continue };
        if let (true, Some(value)) = (bounded, leading_number(rest)) {
            return Some(value);
        }
    }
    None
}

fn leading_number(text: &str) -> Option<u64> {
    let (digits, radix) = text.strip_prefix("0x").map_or((text, 10), |hex| (hex, 16));
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    if digits[end..].starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return None;
    }
    u64::from_str_radix(&digits[..end], radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_prefixes_give_the_same_instant() {
        let new = segments("2023-11-14T22:13:20.000042Z pci_nvme_mmio_doorbell_sq sqid 1 new_tail 7");
        let old = segments("4711@1700000000.000042:pci_nvme_mmio_doorbell_sq sqid 1 new_tail 7");
        assert_eq!(new, old);
        assert_eq!(new[0].time_us, Some(1_700_000_000_000_042));
        assert_eq!((new[0].name, new[0].args), ("mmio_doorbell_sq", "sqid 1 new_tail 7"));
    }

    #[test]
    fn a_line_that_ran_into_the_next_gives_both() {
        let both = segments(
            "2023-11-14T22:13:20.000001Z pci_nvme_io_cmd cid 3 ns2023-11-14T22:13:20.000002Z pci_nvme_irq_msix raising MSI-X IRQ vector 1",
        );
        assert_eq!(both.len(), 2);
        assert_eq!(both[0].args, "cid 3 ns");
        assert_eq!((both[1].time_us, number(both[1].args, "vector")), (Some(1_700_000_000_000_002), Some(1)));
        let old = segments("1@1700000000.000001:pci_nvme_io_cmd cid 3 n1@1700000000.000002:pci_nvme_irq_pin pulsing");
        assert_eq!(old.iter().map(|s| s.name).collect::<Vec<_>>(), ["io_cmd", "irq_pin"]);
    }

    #[test]
    fn numbers_are_found_by_whole_keys() {
        let args = "cid 12 nsid 0x1 nlb 8 count 4096 lba 0x1f0";
        assert_eq!(number(args, "cid"), Some(12));
        assert_eq!(number(args, "lba"), Some(0x1F0));
        assert_eq!(number("slba 0x7 nlb 2", "lba"), None);
        assert_eq!(number("wrote MMIO, config controller config=0x460001", "config"), Some(0x46_0001));
        assert_eq!(number("nsid 0x", "nsid"), None);
    }

    #[test]
    fn foreign_text_is_no_event() {
        assert!(segments("qemu-system-x86_64: warning: pci_nvme_foo is odd").is_empty());
        assert!(segments("virtio_blk_req_complete vdev 0x1 req 0x2 status 0").is_empty());
        assert_eq!(segments("pci_nvme_irq_pin pulsing IRQ pin")[0].time_us, None);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC*", tail in "\\PC*") {
            segments(&text);
            let line = format!("{text} pci_nvme_{tail}:pci_nvme_x 2023-11-14T22:13:20.000001Z pci_nvme_{tail}");
            for s in segments(&line) {
                number(s.args, "cid");
            }
            number(&text, "x");
        }
    }
}
