//! Replacements that fio makes in an option before reading it: `${VARIABLE}` and its keywords, with the arithmetic that keywords allow.

/// fio's keywords, as on the virtual host: a desktop with four CPUs and 16 GiB.
pub const KEYWORDS: [(&str, &str); 3] = [("$pagesize", "4096"), ("$mb_memory", "16384"), ("$ncpus", "4")];

/// Replaces every `${NAME}` by the value from `variable`; the error names an unset variable.
pub fn variables(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, behind)) = after.split_once('}') else { break };
        let value = variable(name).ok_or_else(|| format!("the environment variable {name} is not set"))?;
        out = out + before + &value;
        rest = behind;
    }
    Ok(out + rest)
}

/// Replaces fio's keywords; a value with a keyword may be a sum or product of whole numbers (fio gives it to `bc`).
pub fn keywords(text: &str) -> Result<String, String> {
    let replaced = KEYWORDS.iter().fold(text.to_string(), |t, (word, value)| t.replace(word, value));
    if replaced == text || !replaced.contains(['+', '-', '*', '/']) {
        return Ok(replaced);
    }
    sum(&replaced).map(|n| n.to_string()).ok_or_else(|| format!("`{text}` is no arithmetic of whole numbers"))
}

fn sum(text: &str) -> Option<i64> {
    match text.rfind(['+', '-']).filter(|&at| at > 0) {
        Some(at) => {
            let (left, right) = (sum(&text[..at])?, product(&text[at + 1..])?);
            if text[at..].starts_with('+') {
                left.checked_add(right)
            } else {
                left.checked_sub(right)
            }
        }
        None => product(text),
    }
}

fn product(text: &str) -> Option<i64> {
    match text.rfind(['*', '/']) {
        Some(at) => {
            let (left, right) = (product(&text[..at])?, text[at + 1..].trim().parse::<i64>().ok()?);
            if text[at..].starts_with('*') {
                left.checked_mul(right)
            } else {
                left.checked_div(right)
            }
        }
        None => text.trim().parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_replaced_and_a_missing_one_is_named() {
        let variable = |name: &str| (name == "SIZE").then(|| "2".to_string());
        assert_eq!(variables("${SIZE}g and ${SIZE}k", variable), Ok("2g and 2k".into()));
        assert_eq!(variables("no ${end", variable), Ok("no ${end".into()));
        assert!(variables("${SIZES}", variable).unwrap_err().contains("SIZES"));
    }

    /// Checks the results against `bc`, which fio calls.
    #[test]
    fn keywords_are_replaced_and_calculated() {
        for (text, result) in [
            ("$pagesize", "4096"),
            ("$pagesize*2", "8192"),
            ("8*$mb_memory", "131072"),
            ("10-2-$ncpus", "4"),
            ("2+3*$ncpus", "14"),
            ("64/$ncpus/4", "4"),
            ("1-2", "1-2"),
            ("/dev/sd$ncpus", "error"),
        ] {
            match keywords(text) {
                Ok(made) => assert_eq!(made, result, "{text}"),
                Err(_) => assert_eq!(result, "error", "{text}"),
            }
        }
        assert!(keywords("$ncpus/0").is_err());
    }
}
