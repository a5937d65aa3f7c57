//! The meaning of each option of a job file.

use super::blocks::{range, split_of, BlockSize};
use super::distribution::{distribution, Distribution};
use super::effectless::{unable, without_effect, UNTOLD};
use super::job::{ExitWhat, JobSpec, Pattern};
use super::offsets::Zones;
use super::reading::Reading;
use super::refusal::{refuse, Refusal};
use super::targets::Targets;
use super::units::{flag, number, size, time_us};

const SECOND_US: u64 = 1_000_000;
/// NVMe: the most ranges of a Dataset Management command.
const MOST_RANGES: u32 = 256;
/// Engines that keep `iodepth` I/Os in flight.
const ASYNCHRONOUS: [&str; 6] = ["libaio", "io_uring", "io_uring_cmd", "posixaio", "windowsaio", "solarisaio"];
/// Engines with one I/O in flight, whatever `iodepth` says.
const SYNCHRONOUS: [&str; 5] = ["sync", "psync", "vsync", "pvsync", "pvsync2"];

/// A job while its options are read.
pub struct Builder<'a> {
    spec: JobSpec,
    reading: &'a Reading<'a>,
    direct: bool,
    passthrough: bool,
    engine: Option<bool>,
    depth_given: bool,
    size_percent: Option<u64>,
    file_bytes: Option<u64>,
    zones: [Option<u64>; 3],
    strided: bool,
    verify_at_end: bool,
    whole_device: bool,
    targets: Targets,
}

impl<'a> Builder<'a> {
    /// A job of fio's defaults.
    pub fn new(name: String, reading: &'a Reading<'a>) -> Self {
        Self {
            spec: JobSpec::new(name),
            reading,
            direct: false,
            passthrough: false,
            engine: None,
            depth_given: false,
            size_percent: None,
            file_bytes: None,
            zones: [None; 3],
            strided: false,
            verify_at_end: true,
            whole_device: false,
            targets: Targets::default(),
        }
    }

    /// Takes up an option as it is written.
    pub fn option(&mut self, key: &str, raw: Option<&str>) -> Result<(), String> {
        let value = raw.map(|text| self.reading.expand(text)).transpose();
        // The content of a variable does not matter where the value does not.
        let value = match value {
            Err(_) if without_effect(key, "") => raw.map(str::to_string),
            other => other?,
        };
        let text = value.as_deref();
        if without_effect(key, text.unwrap_or("1")) {
            check_without_effect(key, text)?;
            self.spec.group_reporting |= key == "group_reporting" && flag(text)?;
            if !UNTOLD.contains(&key) && !self.spec.without_effect.iter().any(|k| k == key) {
                self.spec.without_effect.push(key.into());
            }
        } else {
            self.with_effect(key, text)?;
        }
        self.spec.options.retain(|(k, _)| k != key);
        self.spec.options.push((key.into(), value.unwrap_or_else(|| "1".into())));
        Ok(())
    }

    fn with_effect(&mut self, key: &str, value: Option<&str>) -> Result<(), String> {
        let need = || value.filter(|v| !v.is_empty()).ok_or_else(|| "needs a value".to_string());
        let drive_bytes = self.reading.drive_bytes;
        let share = |percent: u64| (u128::from(drive_bytes) * u128::from(percent.min(100)) / 100) as u64 / 4096 * 4096;
        let bytes = |text: &str| match text.strip_suffix('%') {
            Some(percent) => Ok(share(number(percent)?)),
            None => size(text),
        };
        let spec = &mut self.spec;
        match key {
            "rw" | "readwrite" => spec.pattern = pattern(need()?)?,
            "bs" | "blocksize" => spec.block_size = three(need()?, |t| Ok(BlockSize::Fixed(size(t)?)))?,
            "bsrange" | "blocksize_range" => spec.block_size = three(need()?, range)?,
            "bssplit" => spec.block_size = three(need()?, split_of)?,
            "blockalign" | "ba" => spec.align = three(need()?, |t| Ok(Some(size(t)?)))?,
            "iodepth" => {
                self.depth_given = true;
                spec.iodepth = size(need()?)?.try_into().map_err(|_| "is too large")?;
            }
            "size" => {
                let text = need()?;
                self.size_percent = text.strip_suffix('%').map(number).transpose()?;
                spec.size = Some(bytes(text)?);
            }
            "filesize" => self.file_bytes = Some(bytes(need()?)?),
            "fill_device" | "fill_fs" => self.whole_device = flag(value)?,
            "io_size" | "io_limit" => spec.io_size = Some(bytes(need()?)?),
            "offset" => spec.offset = bytes(need()?)?,
            "offset_increment" => spec.offset_increment = bytes(need()?)?,
            "runtime" | "timeout" => spec.runtime_us = Some(time_us(need()?, SECOND_US)?).filter(|&t| t > 0),
            "ramp_time" => spec.ramp_us = time_us(need()?, SECOND_US)?,
            "time_based" => spec.time_based = flag(value)?,
            "rate" => spec.rate = three(need()?, |t| Ok(Some(size(t)?).filter(|&r| r > 0)))?,
            "rate_iops" => spec.rate_iops = three(need()?, |t| Ok(Some(size(t)?).filter(|&r| r > 0)))?,
            "rate_process" => match need()? {
                "poisson" => spec.poisson = true,
                other => return Err(format!("`{other}` is neither linear nor poisson")),
            },
            "thinktime" => spec.thinktime_us = time_us(need()?, 1)?,
            "thinktime_blocks" => spec.thinktime_blocks = size(need()?)?,
            "rwmixread" => spec.read_percent = percent(need()?)?,
            "rwmixwrite" => spec.read_percent = 100 - percent(need()?)?,
            "loops" => spec.loops = size(need()?)?,
            "startdelay" => spec.startdelay_us = time_us(need()?, SECOND_US)?,
            "stonewall" | "wait_for_previous" => spec.stonewall = flag(value)?,
            "numjobs" => spec.numjobs = size(need()?)?.try_into().map_err(|_| "is too large")?,
            "name" => spec.name = need()?.into(),
            "fsync" | "fdatasync" => spec.fsync = size(need()?)?,
            "end_fsync" | "fsync_on_close" => spec.end_fsync = flag(value)?,
            "verify" => spec.verify = !matches!(need()?, "0" | "none"),
            "do_verify" => self.verify_at_end = flag(value)?,
            "verify_backlog" => spec.verify_backlog = size(need()?)?,
            "verify_backlog_batch" => spec.verify_batch = size(need()?)?,
            "norandommap" => spec.norandommap = flag(value)?,
            "randseed" => spec.randseed = Some(number(need()?)?),
            "random_distribution" => spec.distribution = distributions(need()?)?,
            "percentage_random" => spec.percent_random = three(need()?, percent)?,
            "number_ios" => spec.number_ios = Some(size(need()?)?).filter(|&n| n > 0),
            "new_group" => spec.new_group = flag(value)?,
            "exitall" => spec.exitall = flag(value)?,
            "exitall_on_error" => spec.exitall_on_error = flag(value)?,
            "exit_what" => {
                spec.exit_what = match need()? {
                    "group" => ExitWhat::Group,
                    "stonewall" => ExitWhat::Stonewall,
                    "all" => ExitWhat::All,
                    other => return Err(format!("`{other}` is none of group, stonewall, all")),
                }
            }
            "wait_for" => spec.wait_for = Some(need()?.into()),
            "flow" => spec.flow = number(need()?)?,
            "flow_id" => spec.flow_id = number(need()?)?,
            "flow_sleep" => spec.flow_sleep_us = size(need()?)?,
            "num_range" => spec.ranges = number(need()?)?.try_into().map_err(|_| "is too large")?,
            "zonemode" => match need()? {
                "strided" => self.strided = true,
                other => return Err(format!("no profile has a zoned drive: zonemode={other} cannot be modelled")),
            },
            "zonesize" => self.zones[0] = Some(size(need()?)?).filter(|&z| z > 0),
            "zonerange" => self.zones[1] = Some(size(need()?)?),
            "zoneskip" => self.zones[2] = Some(size(need()?)?),
            "direct" => self.direct = flag(value)?,
            "buffered" => self.direct = !flag(value)?,
            "ioengine" => {
                let engine = need()?;
                self.passthrough = engine == "io_uring_cmd";
                self.engine = match engine {
                    e if ASYNCHRONOUS.contains(&e) => Some(true),
                    e if SYNCHRONOUS.contains(&e) => Some(false),
                    other => return Err(format!("engine `{other}` is not modelled: use libaio, io_uring or psync")),
                };
            }
            _ if self.targets.takes(key) => self.targets.option(key, need()?)?,
            _ => {
                return Err(match unable(key) {
                    Some(why) => format!("cannot be modelled: {why}"),
                    None => "is not one this model knows (docs/ssd-model.md lists those that it knows)".into(),
                })
            }
        }
        Ok(())
    }

    /// Returns the job, or the reason why the job cannot run.
    pub fn finish(self) -> Result<JobSpec, Refusal> {
        let drive_bytes = self.reading.drive_bytes;
        let mut made = self.spec.clone();
        let spec = &mut made;
        if !self.direct && !self.passthrough {
            if !self.reading.as_direct {
                return refuse(
                    &["direct", "buffered"],
                    "direct=1 is needed: the model has no page cache. `--as-direct` runs every job as with direct=1",
                );
            }
            spec.departures.push("runs as with direct=1: the model has no page cache".into());
        }
        match self.engine {
            Some(false) => spec.iodepth = 1, // fio does the same, whatever iodepth says
            None if self.depth_given && spec.iodepth > 1 => spec.departures.push(format!(
                "iodepth={} is taken as of libaio: no ioengine is given, and fio's own (psync) keeps one I/O in flight",
                spec.iodepth
            )),
            _ => {}
        }
        if let Some(bytes) = self.file_bytes {
            spec.size = Some(spec.size.map_or(bytes, |s| s.min(bytes)));
        }
        if self.whole_device {
            spec.size = None;
        }
        if self.size_percent.is_some() {
            spec.size = spec.size.map(|s| s.min(drive_bytes.saturating_sub(spec.offset)));
        }
        (spec.latency, spec.steady) = self.targets.finish(&mut spec.without_effect)?;
        spec.verify &= self.verify_at_end && spec.pattern.write;
        if self.strided {
            let Some(size) = self.zones[0] else { return refuse(&["zonemode"], "zonemode=strided needs zonesize") };
            spec.zones = Some(Zones { size, range: self.zones[1].unwrap_or(size), skip: self.zones[2].unwrap_or(0) });
        } else if self.zones.iter().any(Option::is_some) {
            return refuse(
                &["zonesize", "zonerange", "zoneskip"],
                "zonesize, zonerange and zoneskip need zonemode=strided",
            );
        }
        check(spec, drive_bytes)?;
        Ok(made)
    }
}

/// Refuses values that even an option without effect may not have.
fn check_without_effect(key: &str, value: Option<&str>) -> Result<(), String> {
    match key {
        "filename" => {
            let text = value.filter(|v| !v.is_empty()).ok_or("needs a value")?;
            match text.replace("\\:", "").contains(':') {
                true => Err(format!("`{text}` names several files: there is one drive")),
                false => Ok(()),
            }
        }
        "group_reporting" | "thread" | "randrepeat" | "refill_buffers" | "zero_buffers" | "scramble_buffers" => {
            flag(value).map(drop)
        }
        "buffer_compress_percentage" => percent(value.ok_or("needs a value")?).map(drop),
        _ => Ok(()),
    }
}

fn check(spec: &JobSpec, drive_bytes: u64) -> Result<(), Refusal> {
    let aligned = |bytes: &Option<u64>| bytes.is_none_or(|b| b > 0 && b % 512 == 0);
    if !spec.block_size.iter().all(BlockSize::whole_blocks) || !spec.align.iter().all(aligned) {
        return refuse(
            &["bs", "blocksize", "bssplit", "bsrange", "blocksize_range", "blockalign", "ba"],
            "bs and blockalign must be multiples of 512 bytes",
        );
    }
    if spec.offset % 512 != 0 || spec.offset_increment % 512 != 0 {
        return refuse(&["offset", "offset_increment"], "offset and offset_increment must be multiples of 512 bytes");
    }
    if spec.pattern.stride % 512 != 0 {
        return refuse(&["rw", "readwrite"], "the bytes after rw must be a multiple of 512");
    }
    for (name, value) in
        [("iodepth", u64::from(spec.iodepth)), ("numjobs", u64::from(spec.numjobs)), ("loops", spec.loops)]
    {
        if value == 0 {
            return refuse(&["iodepth", "numjobs", "loops"], format!("{name} must be at least 1"));
        }
    }
    if spec.iodepth > 1023 || spec.numjobs > 64 {
        return refuse(&["iodepth", "numjobs"], "iodepth may be at most 1023 and numjobs at most 64");
    }
    if spec.ranges == 0 || spec.ranges > MOST_RANGES {
        return refuse(
            &["num_range"],
            format!("num_range must be 1 to {MOST_RANGES}, the ranges of a Dataset Management command"),
        );
    }
    if spec.ranges > 1 && (!spec.pattern.trim || spec.pattern.write) {
        return refuse(&["num_range"], "num_range above 1 is for rw=trim and rw=randtrim");
    }
    if spec.thinktime_blocks == 0 {
        return refuse(&["thinktime_blocks"], "thinktime_blocks must be at least 1");
    }
    let last = spec.offset.saturating_add(spec.offset_increment.saturating_mul(u64::from(spec.numjobs) - 1));
    let size = spec.size.unwrap_or(drive_bytes.saturating_sub(last));
    if last.saturating_add(size) > drive_bytes {
        return refuse(
            &["size", "offset", "offset_increment", "filesize"],
            format!("offset + size is beyond the drive's {drive_bytes} bytes"),
        );
    }
    let least = spec.zones.map_or(size, |z| z.range.min(size));
    if spec.block_size.iter().any(|b| b.max() > least) {
        return refuse(
            &["size", "bs", "blocksize", "bssplit", "bsrange", "zonerange"],
            "size is smaller than one block",
        );
    }
    if spec.time_based && spec.runtime_us.is_none() {
        return refuse(&["time_based"], "time_based needs a runtime");
    }
    if spec.zones.is_some_and(|z| z.range % 512 != 0 || z.skip % 512 != 0) {
        return refuse(&["zonerange", "zoneskip"], "zonerange and zoneskip must be multiples of 512 bytes");
    }
    if spec.zones.is_some() && (spec.pattern.stride != 0 || spec.pattern.every > 1) {
        return refuse(&["rw", "readwrite"], "zonemode=strided goes with rw without a number after it");
    }
    let beyond = |d: &Distribution| match d {
        Distribution::Zoned(list) => list.last().is_some_and(|e| e.1 > 100),
        Distribution::ZonedAbs(list) => list.last().is_some_and(|e| e.1 > size),
        _ => false,
    };
    if spec.distribution.iter().any(beyond) {
        return refuse(&["random_distribution"], "the zones of random_distribution are larger than the job's area");
    }
    if spec.verify && spec.loops > 1 {
        return refuse(&["loops"], "verify after each of several loops is not modelled");
    }
    if spec.verify && spec.pattern.trim {
        return refuse(&["verify"], "verify of what is trimmed is not modelled");
    }
    Ok(())
}

fn pattern(text: &str) -> Result<Pattern, String> {
    let (word, extra) = text.split_once(':').map_or((text, None), |(word, extra)| (word, Some(extra)));
    let (random, read, write, trim) = match word {
        "read" => (false, true, false, false),
        "write" => (false, false, true, false),
        "trim" => (false, false, false, true),
        "randread" => (true, true, false, false),
        "randwrite" => (true, false, true, false),
        "randtrim" => (true, false, false, true),
        "rw" | "readwrite" => (false, true, true, false),
        "randrw" => (true, true, true, false),
        "trimwrite" => (false, false, true, true),
        "randtrimwrite" => (true, false, true, true),
        _ => {
            return Err(format!(
                "`{text}` is none of read, write, trim, randread, randwrite, randtrim, rw, randrw, trimwrite, randtrimwrite"
            ))
        }
    };
    let (mut stride, mut every) = (0, 1);
    match extra {
        None => {}
        Some(count) if random => every = number(count)?.max(1),
        Some(add) => {
            let bytes =
                i64::try_from(size(add.trim_start_matches('-'))?).map_err(|_| format!("`{text}` is too large"))?;
            stride = if add.starts_with('-') { -bytes } else { bytes };
        }
    }
    Ok(Pattern { random, read, write, trim, stride, every })
}

fn percent(text: &str) -> Result<u8, String> {
    number(text)?.try_into().ok().filter(|p| *p <= 100).ok_or_else(|| format!("`{text}` is not 0 to 100"))
}

/// Parses three distributions. For the zoned kinds, `kind:a,b,c` gives reads, writes and trims; other kinds hold for all three.
fn distributions(text: &str) -> Result<[Distribution; 3], String> {
    match text.split_once(':') {
        Some((kind @ ("zoned" | "zoned_abs"), rest)) => three(rest, |part| distribution(&format!("{kind}:{part}"))),
        _ => distribution(text).map(|d| [d.clone(), d.clone(), d]),
    }
}

/// Parses `read[,write[,trim]]`. A missing value repeats the previous value.
fn three<T: Clone>(text: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<[T; 3], String> {
    let parts: Vec<&str> = text.split(',').collect();
    if parts.len() > 3 {
        return Err("has more than three values".into());
    }
    let read = parse(parts[0])?;
    let write = parts.get(1).filter(|p| !p.is_empty()).map_or(Ok(read.clone()), |p| parse(p))?;
    let trim = parts.get(2).filter(|p| !p.is_empty()).map_or(Ok(write.clone()), |p| parse(p))?;
    Ok([read, write, trim])
}
