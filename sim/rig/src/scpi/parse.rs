//! A line of the control port as IEEE 488.2 program message units.

use super::error::ScpiError;

/// One unit: header and parameters. Mnemonics are upper case.
#[derive(Debug, Clone, PartialEq)]
pub struct Unit {
    /// Mnemonics from the root; of a common command, its name with the `*`.
    pub header: Vec<String>,
    /// Whether the header ends in `?`.
    pub query: bool,
    /// Parameters, in order.
    pub args: Vec<Arg>,
}

/// A parameter.
#[derive(Debug, Clone, PartialEq)]
pub enum Arg {
    /// Decimal number with its suffix (upper case, often empty).
    Decimal(f64, String),
    /// `#H`, `#Q` or `#B` number.
    Integer(u64),
    /// Character data, upper case.
    Word(String),
}

/// Splits a line into its units. A unit that cannot be read ends the line, as IEEE 488.2 wants it: what follows cannot
/// be trusted to mean what it says.
pub fn parse_line(line: &str) -> (Vec<Unit>, Option<ScpiError>) {
    let mut units = Vec::new();
    let mut path: Vec<String> = Vec::new();
    for text in line.split(';').map(str::trim).filter(|t| !t.is_empty()) {
        match parse_unit(text, &path) {
            Ok(unit) => {
                // The next unit starts beside this one, unless it begins with a colon; common commands leave no trace.
                if !unit.header[0].starts_with('*') {
                    path = unit.header[..unit.header.len() - 1].to_vec();
                }
                units.push(unit);
            }
            Err(error) => return (units, Some(error)),
        }
    }
    (units, None)
}

fn parse_unit(text: &str, path: &[String]) -> Result<Unit, ScpiError> {
    if let Some(bad) = text.chars().find(|c| !c.is_ascii() || c.is_ascii_control() && *c != '\t') {
        return Err(ScpiError::invalid_character(format!("{bad:?}")));
    }
    let (head, rest) = text.split_once([' ', '\t']).unwrap_or((text, ""));
    let (name, query) = head.strip_suffix('?').map_or((head, false), |name| (name, true));
    let header = if let Some(common) = name.strip_prefix('*') {
        mnemonic(common, head)?;
        vec![name.to_ascii_uppercase()]
    } else {
        let (absolute, name) = name.strip_prefix(':').map_or((false, name), |name| (true, name));
        let mut header = if absolute { Vec::new() } else { path.to_vec() };
        for part in name.split(':') {
            header.push(mnemonic(part, head)?);
        }
        header
    };
    let rest = rest.trim();
    let args = if rest.is_empty() { Vec::new() } else { rest.split(',').map(argument).collect::<Result<_, _>>()? };
    Ok(Unit { header, query, args })
}

fn mnemonic(text: &str, head: &str) -> Result<String, ScpiError> {
    let starts_well = text.starts_with(|c: char| c.is_ascii_alphabetic());
    if starts_well && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        Ok(text.to_ascii_uppercase())
    } else {
        Err(ScpiError::syntax(head))
    }
}

fn argument(text: &str) -> Result<Arg, ScpiError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(ScpiError::missing_parameter("nothing between two commas"));
    }
    if let Some(rest) = text.strip_prefix('#') {
        let radix = match rest.chars().next().map(|c| c.to_ascii_uppercase()) {
            Some('H') => 16,
            Some('Q') => 8,
            Some('B') => 2,
            _ => return Err(ScpiError::numeric(text)),
        };
        let digits = &rest[1..];
        // from_str_radix takes a sign, 488.2 does not
        if !digits.chars().all(|c| c.is_digit(radix)) {
            return Err(ScpiError::numeric(text));
        }
        return u64::from_str_radix(digits, radix).map(Arg::Integer).map_err(|_| ScpiError::numeric(text));
    }
    if text.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return if text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            Ok(Arg::Word(text.to_ascii_uppercase()))
        } else {
            Err(ScpiError::syntax(text))
        };
    }
    decimal(text)
}

/// NRf: sign, digits with at most one point, exponent; then a suffix.
fn decimal(text: &str) -> Result<Arg, ScpiError> {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let mut end = usize::from(matches!(bytes[0], b'+' | b'-'));
    let whole = digits(end);
    end += whole;
    let mut fraction = 0;
    if bytes.get(end) == Some(&b'.') {
        fraction = digits(end + 1);
        end += 1 + fraction;
    }
    if whole + fraction == 0 {
        return Err(ScpiError::numeric(text));
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        if exponent > 0 {
            end += 1 + sign + exponent;
        }
    }
    let suffix = text[end..].trim();
    if !suffix.chars().all(|c| c.is_ascii_alphabetic()) {
        return Err(ScpiError::numeric(text));
    }
    let value: f64 = text[..end].parse().map_err(|_| ScpiError::numeric(text))?;
    if !value.is_finite() {
        return Err(ScpiError::numeric(text));
    }
    Ok(Arg::Decimal(value, suffix.to_ascii_uppercase()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(line: &str) -> Unit {
        let (mut units, error) = parse_line(line);
        assert_eq!((units.len(), error), (1, None), "{line}");
        units.remove(0)
    }

    fn code(line: &str) -> i16 {
        parse_line(line).1.expect(line).code
    }

    #[test]
    fn headers_and_parameters() {
        let unit = one(" sens:SWE:dec  16 ");
        assert_eq!(unit.header, ["SENS", "SWE", "DEC"]);
        assert_eq!(unit.args, [Arg::Decimal(16.0, String::new())]);
        assert!(one("*idn?").query);
        assert_eq!(one("X 2.5 us").args, [Arg::Decimal(2.5, "US".into())]);
        assert_eq!(one("X 1E-6S").args, [Arg::Decimal(1e-6, "S".into())]);
        assert_eq!(one("X -.5e+1").args, [Arg::Decimal(-5.0, String::new())]);
        assert_eq!(one("X sq, 1,#hFEBC0000").args.len(), 3);
        assert_eq!(one("X #hFEBC0000").args, [Arg::Integer(0xFEBC_0000)]);
        assert_eq!(one("X #Q17,#B101").args, [Arg::Integer(15), Arg::Integer(5)]);
    }

    #[test]
    fn units_of_a_line_share_their_path() {
        let (units, error) = parse_line("SENS:SWE:DEC 4;TINT 1E-5;*CLS;DEC?;:INIT");
        assert_eq!(error, None);
        let headers: Vec<String> = units.iter().map(|u| u.header.join(":")).collect();
        assert_eq!(headers, ["SENS:SWE:DEC", "SENS:SWE:TINT", "*CLS", "SENS:SWE:DEC", "INIT"]);
    }

    #[test]
    fn what_is_wrong_gets_its_number() {
        assert_eq!(code("SENS::DEC 1"), -102);
        assert_eq!(code("1X"), -102);
        assert_eq!(code("?"), -102);
        assert_eq!(code("X 1,,2"), -109);
        assert_eq!(code("X #H"), -120);
        assert_eq!(code("X #H+1"), -120);
        assert_eq!(code("X #Hzz"), -120);
        assert_eq!(code("X #H11112222333344445"), -120);
        assert_eq!(code("X 1.2.3"), -120);
        assert_eq!(code("X ."), -120);
        assert_eq!(code("X 1e999"), -120);
        assert_eq!(code("X \u{1}"), -101);
        assert_eq!(code("\u{b5}"), -101);
    }

    #[test]
    fn what_precedes_an_error_still_counts() {
        let (units, error) = parse_line("*CLS; X . ; *RST");
        assert_eq!(units.len(), 1);
        assert_eq!(error.map(|e| e.code), Some(-120));
    }

    proptest! {
        #[test]
        fn any_text_is_units_or_an_error(line in "\\PC*") {
            let (units, _) = parse_line(&line);
            for unit in units {
                prop_assert!(!unit.header.is_empty() && unit.header.iter().all(|m| !m.is_empty()));
            }
        }

        #[test]
        fn scpi_like_text_too(line in "[A-Za-z0-9:;*?#,.+ eE-]{0,60}") {
            parse_line(&line);
        }

        #[test]
        fn numbers_come_back(value in -1e12f64..1e12) {
            let unit = one(&format!("X {value:e}"));
            prop_assert_eq!(&unit.args, &[Arg::Decimal(value, String::new())]);
        }

        #[test]
        fn hexadecimal_comes_back(value: u64) {
            prop_assert_eq!(&one(&format!("X #h{value:x}")).args, &[Arg::Integer(value)]);
        }
    }
}
