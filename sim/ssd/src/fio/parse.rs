//! Reading job files: sections, includes, and errors that name file and line. An option this model does not know is an error:
//! nothing is silently left out.

use super::between::settle;
use super::job::JobFile;
use super::options::Builder;
use super::reading::Reading;
use super::refusal::Refusal;
use std::path::Path;

/// Why a job file cannot be run: where, and what to do.
#[derive(Debug, thiserror::Error, PartialEq)]
#[error("{path}:{line}: {reason}")]
pub struct FioError {
    /// The file.
    pub path: String,
    /// Line, from 1; 0 where the file as a whole is meant.
    pub line: usize,
    /// The reason.
    pub reason: String,
}

/// An option as written, and its place.
#[derive(Clone)]
struct Written {
    key: String,
    value: Option<String>,
    path: String,
    line: usize,
}

/// A section other than the global ones, with the global options before it.
struct Section {
    name: String,
    line: usize,
    options: Vec<Written>,
}

impl Section {
    /// Returns the error of a job that cannot run. The error points at the last option concerned, else at the section.
    fn place(&self, path: &str, refusal: Refusal) -> FioError {
        let reason = format!("job `{}`: {}", self.name, refusal.reason);
        let about = self.options.iter().rev().find(|o| refusal.options.contains(&o.key.as_str()));
        match about {
            Some(option) => FioError { path: option.path.clone(), line: option.line, reason },
            None => FioError { path: path.into(), line: self.line, reason },
        }
    }
}

/// Included files may include others, so deep.
const DEEPEST: usize = 8;

/// Reads a job file.
pub fn parse_file(path: &Path, reading: &Reading) -> Result<JobFile, FioError> {
    let name = path.display().to_string();
    let text =
        std::fs::read_to_string(path).map_err(|e| FioError { path: name.clone(), line: 0, reason: e.to_string() })?;
    parse_text(&name, &text, reading)
}

/// Reads the text of a job file; `path` is for error messages, and files it includes are looked for beside it.
pub fn parse_text(path: &str, text: &str, reading: &Reading) -> Result<JobFile, FioError> {
    let fail = |line: usize, reason: String| FioError { path: path.into(), line, reason };
    let mut globals: Vec<Written> = Vec::new();
    let mut sections: Vec<Section> = Vec::new();
    let mut in_global = None;
    for (line, content) in lines(text) {
        if let Some(rest) = content.strip_prefix('[') {
            let name =
                rest.strip_suffix(']').ok_or_else(|| fail(line, format!("`{content}` does not close its bracket")))?;
            in_global = Some(name.starts_with("global"));
            if !name.starts_with("global") {
                sections.push(Section { name: name.into(), line, options: globals.clone() });
            }
            continue;
        }
        let options = match (in_global, sections.last_mut()) {
            (Some(true), _) => &mut globals,
            (Some(false), Some(section)) => &mut section.options,
            _ => return Err(fail(line, format!("`{content}` stands before any [section]"))),
        };
        take(path, line, content, options, 0)?;
    }
    if sections.is_empty() {
        return Err(fail(0, "there is no job in it: a job is a [section] other than [global]".into()));
    }
    let mut jobs = Vec::new();
    for section in &sections {
        let mut job = Builder::new(section.name.clone(), reading);
        for Written { key, value, path, line } in &section.options {
            job.option(key, value.as_deref()).map_err(|reason| FioError {
                path: path.clone(),
                line: *line,
                reason: format!("option `{key}`: {reason}"),
            })?;
        }
        jobs.push(job.finish().map_err(|refusal| section.place(path, refusal))?);
    }
    let mut file = JobFile { path: path.into(), jobs };
    settle(&mut file).map_err(|(index, refusal)| sections[index].place(path, refusal))?;
    Ok(file)
}

/// Lines that say something, with their numbers. As in fio, `;` and `#` begin a comment anywhere in a line.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let spoken = text.lines().map(|line| line.split([';', '#']).next().unwrap_or("").trim());
    spoken.enumerate().map(|(index, line)| (index + 1, line)).filter(|l| !l.1.is_empty())
}

/// Takes up an option, or the options of the file that an `include` names.
fn take(path: &str, line: usize, content: &str, options: &mut Vec<Written>, depth: usize) -> Result<(), FioError> {
    let fail = |reason: String| FioError { path: path.into(), line, reason };
    let Some(name) = content.strip_prefix("include").filter(|n| n.starts_with([' ', '\t', '='])) else {
        let (key, value) = match content.split_once('=') {
            Some((key, value)) => (key.trim(), Some(value.trim().to_string())),
            None => (content, None),
        };
        options.push(Written { key: key.into(), value, path: path.into(), line });
        return Ok(());
    };
    if depth == DEEPEST {
        return Err(fail(format!("include: files include each other more than {DEEPEST} deep")));
    }
    let name = name[1..].trim();
    let beside = Path::new(path).with_file_name(name);
    let file = if Path::new(name).exists() { Path::new(name) } else { &beside };
    let text = std::fs::read_to_string(file).map_err(|e| fail(format!("include `{name}`: {}: {e}", file.display())))?;
    let inner = file.display().to_string();
    for (line, content) in lines(&text) {
        if content.starts_with('[') {
            let reason = format!("`{content}`: an included file has no sections");
            return Err(FioError { path: inner, line, reason });
        }
        take(&inner, line, content, options, depth + 1)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::blocks::BlockSize;
    use super::super::distribution::Distribution;
    use super::*;
    use proptest::prelude::*;

    const DRIVE: u64 = 1 << 40;

    fn read(text: &str) -> Result<JobFile, FioError> {
        read_with(text, false)
    }

    fn read_with(text: &str, as_direct: bool) -> Result<JobFile, FioError> {
        let variable = |name: &str| (name == "SIZE").then(|| "2g".to_string());
        parse_text("x", text, &Reading { drive_bytes: DRIVE, as_direct, variable: &variable })
    }

    #[test]
    fn globals_apply_to_the_jobs_after_them_and_jobs_override() {
        let text =
            "; comment\n[global]\ndirect=1\nbs=4k\nsize=1g\n[a]\nrw=randread\niodepth=4\n\n[global]\nbs=128k,64k\n\
                    [b]\nrw=rw\nstonewall\nrwmixwrite=30\nruntime=2\ntime_based\n";
        let file = read(text).unwrap();
        assert_eq!(file.groups().iter().map(|g| g.len()).collect::<Vec<_>>(), [1, 1]);
        let (a, b) = (&file.jobs[0], &file.jobs[1]);
        assert_eq!((a.block_size[0].max(), a.iodepth, a.size, a.pattern.random), (4096, 4, Some(1 << 30), true));
        assert_eq!(b.block_size, [131072, 65536, 65536].map(BlockSize::Fixed));
        assert_eq!((b.read_percent, b.runtime_us, b.time_based, b.stonewall), (70, Some(2_000_000), true, true));
    }

    #[test]
    fn an_unknown_option_is_named_with_file_and_line() {
        let error = read("[a]\nrw=read\ndirect=1\nmagic=4k/50\n").unwrap_err();
        assert_eq!(error.line, 4);
        assert!(error.to_string().starts_with("x:4: option `magic`: is not one"), "{error}");
    }

    #[test]
    fn what_cannot_run_is_refused() {
        for (text, line, says) in [
            ("rw=read\n", 1, "before any"),
            ("[a]\nrw=read\n", 1, "direct=1"),
            ("[a]\nrw=maybe\n", 2, "none of"),
            ("[a]\nrw=read\nbuffered=1\nbs=4k\n", 3, "direct=1"),
            ("[a]\nbs=100\ndirect=1\n", 2, "multiples of 512"),
            ("[a]\ndirect=1\nsize=2t\n", 3, "beyond"),
            ("[a]\ndirect=1\ntime_based\nbs=4k\n", 3, "runtime"),
            ("[a]\ndirect=1\nverify_only=5\n", 3, "earlier run"),
            ("[a]\ndirect=1\nsync=1\n", 3, "fsync=1"),
            ("[a]\ndirect=1\nfilename=/dev/a:/dev/b\n", 3, "several files"),
            ("[a]\ndirect=1\nsize=${MISSING}\n", 3, "MISSING is not set"),
            ("[a]\ndirect=1\ninclude none.fio\n", 3, "include `none.fio`"),
            ("[a]\nioengine=sg\n", 2, "not modelled"),
            ("[a]\ndirect=1\nzonemode=zbd\n", 3, "zoned drive"),
            ("[a]\ndirect=1\nbssplit=4k/50:8k/20\n", 3, "70, not 100"),
            ("[a]\ndirect=1\nrandom_distribution=zoned:50/60:50/60\n", 3, "larger than"),
            ("[a\n", 1, "bracket"),
            ("[global]\nbs=4k\n", 0, "no job"),
            ("[a]\niodepth\n", 2, "needs a value"),
            ("[a]\nrwmixread=101\n", 2, "0 to 100"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.line == line && error.reason.contains(says), "{text:?} gave {error}");
        }
    }

    fn on_two(first: &str, second: &str) -> Result<(), String> {
        let text = format!("[global]\ndirect=1\nsize=1g\n[a]\nfilename={first}\n[b]\nfilename={second}\n");
        read(&text).map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn jobs_on_two_drives_are_refused_with_their_line() {
        for (first, second) in [
            ("/dev/nvme0n1", "/dev/nvme1n1"),
            ("/dev/nvme1n1", "/dev/nvme10n1"),
            ("/dev/ng0n1", "/dev/nvme1n1"),
            ("/dev/sda", "/dev/sdb1"),
            ("/dev/nvme0n1", "/dev/sda"),
            ("/dev/dm-0", "/dev/dm-1"),
        ] {
            let error = on_two(first, second).unwrap_err();
            let says = error.starts_with("x:7: ") && error.contains("keep the jobs of one drive");
            assert!(says, "{first} {second}: {error}");
        }
    }

    #[test]
    fn files_namespaces_and_partitions_of_one_drive_run() {
        for (first, second) in [
            ("/dev/nvme0n1", "/dev/nvme0n1"),
            ("/dev/nvme0n1", "/dev/nvme0n2p3"),
            ("/dev/ng0n1", "/dev/nvme0n1"),
            ("/dev/sda1", "/dev/sda2"),
            ("file.a", "file.b"),
            ("/dev/nvme0n1", "/mnt/x"),
        ] {
            assert_eq!(on_two(first, second), Ok(()), "{first} {second}");
        }
    }

    #[test]
    fn what_changes_nothing_at_the_drive_is_read_and_named() {
        let text =
            "[global]\nioengine=io_uring_cmd\ncmd_type=nvme\nfixedbufs=1\nregisterfiles\nlog_avg_msec=1000\nthread\n\
                    [a]\nrw=read\nfilename=${UNSET}\niodepth=8\n";
        let job = &read(text).unwrap().jobs[0];
        let named = ["cmd_type", "fixedbufs", "registerfiles", "log_avg_msec", "thread"];
        assert_eq!(job.without_effect, named);
        assert_eq!((job.iodepth, job.departures.len()), (8, 0));
    }

    #[test]
    fn what_is_done_otherwise_than_fio_would_is_said() {
        let job = &read_with("[a]\ndirect=0\niodepth=8\n", true).unwrap().jobs[0];
        assert!(
            job.departures[0].contains("page cache") && job.departures[1].contains("psync"),
            "{:?}",
            job.departures
        );
        let job = &read("[a]\ndirect=1\nioengine=psync\niodepth=8\n").unwrap().jobs[0];
        assert_eq!((job.iodepth, job.departures.len()), (1, 0));
    }

    #[test]
    fn values_are_read_as_fio_reads_them() {
        let text =
            "[a]\ndirect=1\nsize=${SIZE} ; twice\noffset=1g # here\nbs=$pagesize*2\nioengine=libaio\niodepth=1k-1\n";
        assert!(read(text).is_err());
        let job = &read(&text.replace("1k-1", "16")).unwrap().jobs[0];
        assert_eq!((job.size, job.offset, job.block_size[0].max()), (Some(2 << 30), 1 << 30, 8192));
        let text = "[a]\ndirect=1\nrw=randrw\nbssplit=4k/10:64k/90,8k\nrandom_distribution=zoned:60/10:40/90,100/100\noffset=50%\nsize=100%\n";
        let job = &read(text).unwrap().jobs[0];
        assert_eq!(job.block_size[0], BlockSize::Split(vec![(4096, 10), (65536, 90)]));
        assert_eq!((&job.block_size[1], job.size), (&BlockSize::Fixed(8192), Some(DRIVE / 2)));
        assert_eq!(job.distribution[0], Distribution::Zoned(vec![(60, 10), (40, 100)]));
        assert_eq!(job.distribution[1], Distribution::Zoned(vec![(100, 100)]));
    }

    proptest! {
        #[test]
        fn any_text_gives_jobs_or_an_error(text in "(\\[[a-z]{0,6}\\]?\n|[a-z_]{1,9}=?[0-9a-z,%]{0,6}\n|[;#].*\n|\\PC{0,9}\n){0,12}") {
            if let Ok(file) = read(&text) {
                prop_assert!(!file.jobs.is_empty());
            }
        }
    }
}
