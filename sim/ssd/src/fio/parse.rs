//! Reading job files. An option this model does not know is an error: nothing is silently left out.

use super::job::{JobFile, JobSpec, Pattern};
use super::units::{flag, number, size, time_us};
use std::path::Path;

/// Why a job file cannot be run: where, and what to do.
#[derive(Debug, thiserror::Error, PartialEq)]
#[error("{path}:{line}: {reason}")]
pub struct FioError {
    /// The file.
    pub path: String,
    /// Line, from 1; 0 where the file as a whole is meant.
    pub line: usize,
    /// What is wrong.
    pub reason: String,
}

const KNOWN: &str = "rw/readwrite, bs/blocksize, iodepth, size, io_size, offset, runtime, time_based, rate, rate_iops, \
    thinktime, thinktime_blocks, rwmixread, rwmixwrite, loops, startdelay, stonewall, numjobs, name, filename, ioengine, \
    direct, fsync, norandommap, randrepeat, randseed, group_reporting, number_ios, \
    refill_buffers, zero_buffers, scramble_buffers, buffer_compress_percentage, thread, description";

/// Options in force: name, value if any, line.
type Options = Vec<(String, Option<String>, usize)>;

/// Reads a job file; `drive_bytes` is the size that percentages refer to.
pub fn parse_file(path: &Path, drive_bytes: u64) -> Result<JobFile, FioError> {
    let name = path.display().to_string();
    let text =
        std::fs::read_to_string(path).map_err(|e| FioError { path: name.clone(), line: 0, reason: e.to_string() })?;
    parse_text(&name, &text, drive_bytes)
}

/// Reads the text of a job file; `path` is for error messages.
pub fn parse_text(path: &str, text: &str, drive_bytes: u64) -> Result<JobFile, FioError> {
    let fail = |line: usize, reason: String| FioError { path: path.into(), line, reason };
    let mut globals: Options = Vec::new();
    let mut sections: Vec<(String, usize, Options)> = Vec::new();
    let mut in_global = None;
    for (index, raw) in text.lines().enumerate() {
        let line = index + 1;
        let content = raw.trim();
        if content.is_empty() || content.starts_with(['#', ';']) {
            continue;
        }
        if let Some(rest) = content.strip_prefix('[') {
            let name =
                rest.strip_suffix(']').ok_or_else(|| fail(line, format!("`{content}` does not close its bracket")))?;
            in_global = Some(name == "global");
            if name != "global" {
                sections.push((name.into(), line, globals.clone()));
            }
            continue;
        }
        let (key, value) = match content.split_once('=') {
            Some((key, value)) => (key.trim(), Some(value.trim().to_string())),
            None => (content, None),
        };
        let option = (key.to_string(), value, line);
        match (in_global, sections.last_mut()) {
            (Some(true), _) => globals.push(option),
            (Some(false), Some((_, _, options))) => options.push(option),
            _ => return Err(fail(line, format!("`{content}` stands before any [section]"))),
        }
    }
    if sections.is_empty() {
        return Err(fail(0, "there is no job in it: a job is a [section] other than [global]".into()));
    }
    let mut jobs = Vec::new();
    for (name, line, options) in sections {
        jobs.push(job(name, line, &options, drive_bytes).map_err(|(line, reason)| fail(line, reason))?);
    }
    Ok(JobFile { path: path.into(), jobs })
}

fn job(name: String, line: usize, options: &Options, drive_bytes: u64) -> Result<JobSpec, (usize, String)> {
    let mut spec = JobSpec::new(name);
    let (mut direct, mut synchronous) = (false, false);
    for (key, value, line) in options {
        let mut apply = || option(&mut spec, key, value.as_deref(), drive_bytes, &mut direct, &mut synchronous);
        apply().map_err(|reason| (*line, format!("option `{key}`: {reason}")))?;
        spec.options.retain(|(k, _)| k != key);
        spec.options.push((key.clone(), value.clone().unwrap_or_else(|| "1".into())));
    }
    if synchronous {
        spec.iodepth = 1; // fio does the same, whatever iodepth says
    }
    check(&spec, direct, drive_bytes).map_err(|reason| (line, format!("job `{}`: {reason}", spec.name)))?;
    Ok(spec)
}

fn option(
    spec: &mut JobSpec,
    key: &str,
    value: Option<&str>,
    drive_bytes: u64,
    direct: &mut bool,
    synchronous: &mut bool,
) -> Result<(), String> {
    const SECOND_US: u64 = 1_000_000;
    let need = || value.ok_or_else(|| "needs a value".to_string());
    let share = |text: &str| match text.strip_suffix('%') {
        Some(percent) => {
            Ok((u128::from(drive_bytes) * u128::from(number(percent)?.min(100)) / 100) as u64 / 4096 * 4096)
        }
        None => size(text),
    };
    match key {
        "rw" | "readwrite" => spec.pattern = pattern(need()?)?,
        "bs" | "blocksize" => spec.block_size = three(need()?, size)?,
        "iodepth" => spec.iodepth = number(need()?)?.try_into().map_err(|_| "is too large")?,
        "size" => spec.size = Some(share(need()?)?),
        "io_size" | "io_limit" => spec.io_size = Some(share(need()?)?),
        "offset" => spec.offset = share(need()?)?,
        "runtime" => spec.runtime_us = Some(time_us(need()?, SECOND_US)?).filter(|&t| t > 0),
        "time_based" => spec.time_based = flag(value)?,
        "rate" => spec.rate = three(need()?, size)?.map(|r| Some(r).filter(|&r| r > 0)),
        "rate_iops" => spec.rate_iops = three(need()?, number)?.map(|r| Some(r).filter(|&r| r > 0)),
        "thinktime" => spec.thinktime_us = time_us(need()?, 1)?,
        "thinktime_blocks" => spec.thinktime_blocks = number(need()?)?,
        "rwmixread" => spec.read_percent = percent(need()?)?,
        "rwmixwrite" => spec.read_percent = 100 - percent(need()?)?,
        "loops" => spec.loops = number(need()?)?,
        "startdelay" => spec.startdelay_us = time_us(need()?, SECOND_US)?,
        "stonewall" | "wait_for_previous" => spec.stonewall = flag(value)?,
        "numjobs" => spec.numjobs = number(need()?)?.try_into().map_err(|_| "is too large")?,
        "name" => spec.name = need()?.into(),
        "fsync" => spec.fsync = number(need()?)?,
        "norandommap" => spec.norandommap = flag(value)?,
        "randseed" => spec.randseed = Some(number(need()?)?),
        "group_reporting" => spec.group_reporting = flag(value)?,
        "number_ios" => spec.number_ios = Some(number(need()?)?).filter(|&n| n > 0),
        // Nothing here depends on the data: no drive of these profiles compresses. They are kept for the report.
        "refill_buffers" | "zero_buffers" | "scramble_buffers" => drop(flag(value)?),
        "buffer_compress_percentage" => drop(percent(need()?)?),
        "direct" => *direct = flag(value)?,
        "ioengine" => {
            *synchronous = match need()? {
                "libaio" | "io_uring" | "posixaio" => false,
                "sync" | "psync" | "vsync" | "pvsync" | "pvsync2" => true,
                other => return Err(format!("engine `{other}` is not modelled: use libaio, io_uring or psync")),
            }
        }
        // There is one drive, whatever it is called; runs repeat anyway; threads and processes are the same here.
        "filename" | "description" => drop(need()?),
        "randrepeat" | "thread" => drop(flag(value)?),
        _ => return Err(format!("is not one this model knows. It knows: {KNOWN}")),
    }
    Ok(())
}

fn check(spec: &JobSpec, direct: bool, drive_bytes: u64) -> Result<(), String> {
    if !direct {
        return Err("direct=1 is needed: the model has no page cache".into());
    }
    if spec.block_size.iter().any(|&b| b == 0 || b % 512 != 0) {
        return Err("bs must be a multiple of 512 bytes".into());
    }
    if spec.offset % 512 != 0 {
        return Err("offset must be a multiple of 512 bytes".into());
    }
    let size = spec.size.unwrap_or(drive_bytes.saturating_sub(spec.offset));
    if spec.offset.saturating_add(size) > drive_bytes {
        return Err(format!("offset + size is beyond the drive's {drive_bytes} bytes"));
    }
    if spec.block_size.iter().any(|&b| b > size) {
        return Err("size is smaller than one block".into());
    }
    if spec.time_based && spec.runtime_us.is_none() {
        return Err("time_based needs a runtime".into());
    }
    for (name, value) in
        [("iodepth", u64::from(spec.iodepth)), ("numjobs", u64::from(spec.numjobs)), ("loops", spec.loops)]
    {
        if value == 0 {
            return Err(format!("{name} must be at least 1"));
        }
    }
    if spec.iodepth > 1023 || spec.numjobs > 64 {
        return Err("iodepth may be at most 1023 and numjobs at most 64".into());
    }
    if spec.thinktime_blocks == 0 {
        return Err("thinktime_blocks must be at least 1".into());
    }
    Ok(())
}

fn pattern(text: &str) -> Result<Pattern, String> {
    let (random, read, write, trim) = match text {
        "read" => (false, true, false, false),
        "write" => (false, false, true, false),
        "trim" => (false, false, false, true),
        "randread" => (true, true, false, false),
        "randwrite" => (true, false, true, false),
        "randtrim" => (true, false, false, true),
        "rw" | "readwrite" => (false, true, true, false),
        "randrw" => (true, true, true, false),
        _ => return Err(format!("`{text}` is none of read, write, trim, randread, randwrite, randtrim, rw, randrw")),
    };
    Ok(Pattern { random, read, write, trim })
}

fn percent(text: &str) -> Result<u8, String> {
    number(text)?.try_into().ok().filter(|p| *p <= 100).ok_or_else(|| format!("`{text}` is not 0 to 100"))
}

/// `read[,write[,trim]]`: what is left out repeats the one before it.
fn three(text: &str, parse: impl Fn(&str) -> Result<u64, String>) -> Result<[u64; 3], String> {
    let parts: Vec<&str> = text.split(',').collect();
    if parts.len() > 3 {
        return Err("has more than three values".into());
    }
    let read = parse(parts[0])?;
    let write = parts.get(1).filter(|p| !p.is_empty()).map_or(Ok(read), |p| parse(p))?;
    let trim = parts.get(2).filter(|p| !p.is_empty()).map_or(Ok(write), |p| parse(p))?;
    Ok([read, write, trim])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DRIVE: u64 = 1 << 40;

    #[test]
    fn globals_apply_to_the_jobs_after_them_and_jobs_override() {
        let text =
            "; comment\n[global]\ndirect=1\nbs=4k\nsize=1g\n[a]\nrw=randread\niodepth=4\n\n[global]\nbs=128k,64k\n\
                    [b]\nrw=rw\nstonewall\nrwmixwrite=30\nruntime=2\ntime_based\n";
        let file = parse_text("j.fio", text, DRIVE).unwrap();
        assert_eq!(file.groups().iter().map(|g| g.len()).collect::<Vec<_>>(), [1, 1]);
        let (a, b) = (&file.jobs[0], &file.jobs[1]);
        assert_eq!((a.block_size[0], a.iodepth, a.size, a.pattern.random), (4096, 4, Some(1 << 30), true));
        assert_eq!(b.block_size, [131072, 65536, 65536]);
        assert_eq!((b.read_percent, b.runtime_us, b.time_based, b.stonewall), (70, Some(2_000_000), true, true));
    }

    #[test]
    fn an_unknown_option_is_named_with_file_and_line() {
        let error = parse_text("j.fio", "[a]\nrw=read\ndirect=1\nbssplit=4k/50\n", DRIVE).unwrap_err();
        assert_eq!(error.line, 4);
        assert!(error.to_string().starts_with("j.fio:4: option `bssplit`: is not one"), "{error}");
    }

    #[test]
    fn what_cannot_run_is_refused() {
        for (text, line, says) in [
            ("rw=read\n", 1, "before any"),
            ("[a]\nrw=read\n", 1, "direct=1"),
            ("[a]\nrw=maybe\n", 2, "none of"),
            ("[a]\ndirect=1\nbs=100\n", 1, "multiple of 512"),
            ("[a]\ndirect=1\nsize=2t\n", 1, "beyond"),
            ("[a]\ndirect=1\ntime_based\n", 1, "runtime"),
            ("[a\n", 1, "bracket"),
            ("[global]\nbs=4k\n", 0, "no job"),
            ("[a]\niodepth\n", 2, "needs a value"),
            ("[a]\nrwmixread=101\n", 2, "0 to 100"),
        ] {
            let error = parse_text("x", text, DRIVE).unwrap_err();
            assert!(error.line == line && error.reason.contains(says), "{text:?} gave {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_gives_jobs_or_an_error(text in "(\\[[a-z]{0,6}\\]?\n|[a-z_]{1,9}=?[0-9a-z,%]{0,6}\n|[;#].*\n|\\PC{0,9}\n){0,12}") {
            if let Ok(file) = parse_text("x", &text, DRIVE) {
                prop_assert!(!file.jobs.is_empty());
            }
        }
    }
}
