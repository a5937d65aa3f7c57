//! What the units mean.

use super::error::ScpiError;
use super::parse::{Arg, Unit};

/// A queue as given for a late attach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queue {
    /// Submission or completion.
    pub kind: QueueKind,
    /// Identifier.
    pub qid: u16,
    /// Address of the first entry in host memory.
    pub base: u64,
    /// Entries.
    pub size: u32,
    /// Completion queue of a submission queue.
    pub cqid: u16,
}

/// Which kind of queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueKind {
    /// Submission.
    Sq,
    /// Completion.
    Cq,
}

/// Everything the control port does.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// `*IDN?`
    Identify,
    /// `*RST`
    Reset,
    /// `*CLS`
    ClearStatus,
    /// `*OPC?`
    OperationComplete,
    /// `SYSTem:ERRor[:NEXT]?`
    NextError,
    /// `SYSTem:ERRor:COUNt?`
    ErrorCount,
    /// `SYSTem:VERSion?`
    ScpiVersion,
    /// `INITiate[:IMMediate]`
    Initiate,
    /// `ABORt`
    Abort,
    /// `SENSe:SWEep:DECimation`
    SetDecimation(u32),
    /// `SENSe:SWEep:DECimation?`
    Decimation,
    /// `SENSe:SWEep:TINTerval`, seconds
    SetInterval(f64),
    /// `SENSe:SWEep:TINTerval?`
    Interval,
    /// `STATus:RIG?`
    RigStatus,
    /// `MARK`
    Mark(u32),
    /// `NVME:BAR0`
    Bar0(u64),
    /// `NVME:DSTRide`
    Stride(u8),
    /// `NVME:QUEue`
    Queue(Queue),
    /// `NVME:ATTach`
    Attach,
}

/// Header as SCPI writes it (capitals are the short form, brackets optional), and whether it is a query.
type Pattern = (&'static str, bool, fn(&mut Args) -> Result<Command, ScpiError>);

const TABLE: &[Pattern] = &[
    ("*IDN", true, |_| Ok(Command::Identify)),
    ("*RST", false, |_| Ok(Command::Reset)),
    ("*CLS", false, |_| Ok(Command::ClearStatus)),
    ("*OPC", true, |_| Ok(Command::OperationComplete)),
    ("SYSTem:ERRor:[NEXT]", true, |_| Ok(Command::NextError)),
    ("SYSTem:ERRor:COUNt", true, |_| Ok(Command::ErrorCount)),
    ("SYSTem:VERSion", true, |_| Ok(Command::ScpiVersion)),
    ("INITiate:[IMMediate]", false, |_| Ok(Command::Initiate)),
    ("ABORt", false, |_| Ok(Command::Abort)),
    ("SENSe:SWEep:DECimation", false, |a| Ok(Command::SetDecimation(a.integer(1, 4096)? as u32))),
    ("SENSe:SWEep:DECimation", true, |_| Ok(Command::Decimation)),
    ("SENSe:SWEep:TINTerval", false, |a| a.seconds().map(Command::SetInterval)),
    ("SENSe:SWEep:TINTerval", true, |_| Ok(Command::Interval)),
    ("STATus:RIG", true, |_| Ok(Command::RigStatus)),
    ("MARK", false, |a| Ok(Command::Mark(a.integer(0, u64::from(u32::MAX))? as u32))),
    ("NVME:BAR0", false, |a| bar0(a)),
    ("NVME:DSTRide", false, |a| Ok(Command::Stride(a.integer(0, 15)? as u8))),
    ("NVME:QUEue", false, |a| queue(a)),
    ("NVME:ATTach", false, |_| Ok(Command::Attach)),
];

/// The command that `unit` is.
pub fn understand(unit: Unit) -> Result<Command, ScpiError> {
    let shown = || unit.header.join(":") + if unit.query { "?" } else { "" };
    let found = TABLE.iter().find(|(pattern, query, _)| *query == unit.query && matches(pattern, &unit.header));
    let (_, _, make) = found.ok_or_else(|| ScpiError::undefined_header(shown()))?;
    let mut args = Args { name: shown(), args: unit.args.into_iter() };
    let command = make(&mut args)?;
    match args.args.next() {
        None => Ok(command),
        Some(_) => Err(ScpiError::parameter_not_allowed(args.name)),
    }
}

fn matches(pattern: &str, header: &[String]) -> bool {
    let mut given = header.iter().peekable();
    for node in pattern.split(':') {
        let (name, optional) = match node.strip_prefix('[') {
            Some(inner) => (inner.trim_end_matches(']'), true),
            None => (node, false),
        };
        let short: String = name.chars().filter(|c| !c.is_ascii_lowercase()).collect();
        if given.next_if(|m| **m == short || m.eq_ignore_ascii_case(name)).is_none() && !optional {
            return false;
        }
    }
    given.next().is_none()
}

/// Parameters being read, in order.
struct Args {
    name: String,
    args: std::vec::IntoIter<Arg>,
}

impl Args {
    fn next(&mut self) -> Result<Arg, ScpiError> {
        self.args.next().ok_or_else(|| ScpiError::missing_parameter(self.name.clone()))
    }

    fn integer(&mut self, low: u64, high: u64) -> Result<u64, ScpiError> {
        let value = match self.next()? {
            Arg::Integer(value) => value,
            Arg::Decimal(_, suffix) if !suffix.is_empty() => return Err(ScpiError::invalid_suffix(suffix)),
            // Exact up to 2^53; larger numbers are written in hexadecimal.
            Arg::Decimal(value, _) if value.fract() == 0.0 && (0.0..=9.007_199_254_740_992e15).contains(&value) => {
                value as u64
            }
            Arg::Decimal(value, _) => return Err(ScpiError::out_of_range(format!("{value} is not {low} to {high}"))),
            Arg::Word(word) => return Err(ScpiError::data_type(word)),
        };
        if (low..=high).contains(&value) {
            Ok(value)
        } else {
            Err(ScpiError::out_of_range(format!("{value} is not {low} to {high}")))
        }
    }

    fn seconds(&mut self) -> Result<f64, ScpiError> {
        match self.next()? {
            Arg::Integer(value) => Ok(value as f64),
            Arg::Decimal(value, suffix) => match suffix.as_str() {
                "" | "S" => Ok(value),
                "MS" => Ok(value * 1e-3),
                "US" => Ok(value * 1e-6),
                "NS" => Ok(value * 1e-9),
                _ => Err(ScpiError::invalid_suffix(suffix)),
            },
            Arg::Word(word) => Err(ScpiError::data_type(word)),
        }
    }

    fn more(&self) -> bool {
        self.args.len() > 0
    }
}

fn bar0(args: &mut Args) -> Result<Command, ScpiError> {
    let address = args.integer(0, u64::MAX)?;
    if address % 0x4000 != 0 {
        return Err(ScpiError::illegal_value("BAR0 is a multiple of #H4000"));
    }
    Ok(Command::Bar0(address))
}

fn queue(args: &mut Args) -> Result<Command, ScpiError> {
    let kind = match args.next()? {
        Arg::Word(word) if word == "SQ" => QueueKind::Sq,
        Arg::Word(word) if word == "CQ" => QueueKind::Cq,
        Arg::Word(word) => return Err(ScpiError::illegal_value(format!("{word} is neither SQ nor CQ"))),
        _ => return Err(ScpiError::data_type("SQ or CQ comes first")),
    };
    let qid = args.integer(0, 0xFFFF)? as u16;
    let base = args.integer(0, u64::MAX)?;
    let size = args.integer(2, 0x1_0000)? as u32;
    let cqid = match (kind, args.more()) {
        (QueueKind::Sq, true) => args.integer(0, 0xFFFF)? as u16,
        // NVMe pairs queues one to one unless it is told otherwise; so does Linux.
        _ => qid,
    };
    Ok(Command::Queue(Queue { kind, qid, base, size, cqid }))
}

#[cfg(test)]
mod tests {
    use super::super::parse::parse_line;
    use super::*;
    use proptest::prelude::*;

    fn run(line: &str) -> Result<Command, ScpiError> {
        let (mut units, error) = parse_line(line);
        match error {
            Some(error) => Err(error),
            None => understand(units.remove(0)),
        }
    }

    fn code(line: &str) -> i16 {
        run(line).expect_err(line).code
    }

    #[test]
    fn long_and_short_forms_in_any_case() {
        for line in ["SENS:SWE:DEC 8", "sense:sweep:decimation 8", ":SeNs:SWEEP:dec #H8", "SENS:SWE:DEC 8.0"] {
            assert_eq!(run(line), Ok(Command::SetDecimation(8)), "{line}");
        }
        for line in ["INIT", "INITIATE", "init:imm", "INITiate:IMMediate"] {
            assert_eq!(run(line), Ok(Command::Initiate), "{line}");
        }
        for line in ["SYST:ERR?", "system:error:next?"] {
            assert_eq!(run(line), Ok(Command::NextError), "{line}");
        }
        assert_eq!(run("SENS:SWE:TINT 100 US"), Ok(Command::SetInterval(100.0 * 1e-6)));
        assert_eq!(run("NVME:BAR0 #HFEBC0000"), Ok(Command::Bar0(0xFEBC_0000)));
    }

    #[test]
    fn forms_in_between_are_no_forms() {
        for line in ["SENSE:SWEE:DEC 8", "SEN:SWE:DEC 8", "INITI", "SENS:SWE", "*IDN", "ABOR?", "FOO"] {
            assert_eq!(code(line), -113, "{line}");
        }
    }

    #[test]
    fn parameters_are_checked() {
        assert_eq!(code("SENS:SWE:DEC"), -109);
        assert_eq!(code("SENS:SWE:DEC 0"), -222);
        assert_eq!(code("SENS:SWE:DEC 4097"), -222);
        assert_eq!(code("SENS:SWE:DEC 1.5"), -222);
        assert_eq!(code("SENS:SWE:DEC 1,2"), -108);
        assert_eq!(code("SENS:SWE:DEC MAX"), -104);
        assert_eq!(code("SENS:SWE:DEC 4S"), -131);
        assert_eq!(code("SENS:SWE:TINT 1V"), -131);
        assert_eq!(code("INIT 1"), -108);
        assert_eq!(code("MARK #H100000000"), -222);
        assert_eq!(code("NVME:BAR0 #H1234"), -224);
        assert_eq!(code("NVME:QUE XQ,1,0,4"), -224);
        assert_eq!(code("NVME:QUE 1,1,0,4"), -104);
        assert_eq!(code("NVME:QUE SQ,1,#H1000"), -109);
    }

    #[test]
    fn queues() {
        let queue = Queue { kind: QueueKind::Sq, qid: 3, base: 0x1_2345_6000, size: 1024, cqid: 2 };
        assert_eq!(run("NVME:QUEUE SQ,3,#H123456000,1024,2"), Ok(Command::Queue(queue)));
        assert_eq!(run("NVME:QUEUE SQ,3,#H123456000,1024"), Ok(Command::Queue(Queue { cqid: 3, ..queue })));
        let cq = Queue { kind: QueueKind::Cq, cqid: 3, ..queue };
        assert_eq!(run("NVME:QUE CQ,3,#H123456000,1024"), Ok(Command::Queue(cq)));
        assert_eq!(code("NVME:QUE CQ,3,#H123456000,1024,1"), -108);
    }

    proptest! {
        #[test]
        fn nothing_panics(line in "(\\*|:)?[A-Za-z:]{0,20}\\?? ?[#A-Za-z0-9.,+-]{0,24}") {
            // an empty line is no command at all
            for unit in parse_line(&line).0 {
                let _ = understand(unit);
            }
        }

        #[test]
        fn every_decimation_is_understood(n in 1u32..=4096) {
            prop_assert_eq!(run(&format!("SENS:SWE:DEC {n}")), Ok(Command::SetDecimation(n)));
        }
    }
}
