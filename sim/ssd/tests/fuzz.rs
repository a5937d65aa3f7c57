//! Spoilt plans, profiles, job files and iologs: read, or refused with a word.

#[path = "../../bus/tests/common/fuzz.rs"]
mod fuzz;

use fuzz::{each, spoil_text};
use std::path::PathBuf;
use wattbell_ssd::driver::Plan;
use wattbell_ssd::{fio, Profile};

const PROFILES: [&str; 3] = [
    include_str!("../../profiles/common.toml"),
    include_str!("../../profiles/intel-660p-1tb.toml"),
    include_str!("../../profiles/optane-900p-280gb.toml"),
];
const PLAN: &str = "condition = \"full\"\n\
    [[step]]\nname = \"a\"\nfio = \"job.fio\"\nduty = 0.5\nps = 1\n\
    [[step]]\nidle_s = 2.5\napst = true\naspm = \"l1.2\"\ntemperature_c = 40\n\
    [[step]]\nwake = { idle_s = 0.001, slba = 77 }\n\
    [[step]]\nsanitize = \"block\"\nwrite_cache = false\nmeasured = true\n\
    [[step]]\nformat = { nsid = 1, ses = 0 }\n[[step]]\nfill = { span = 0.5, bs = \"64k\" }\n\
    [[step]]\ntrace = \"t.iolog\"\ntrace_idle_cut_s = 0.1\n";
const JOBS: &str = "[global]\ndirect=1\nioengine=libaio\nbs=4k,8k,64k\nsize=50%\noffset=1m\nrate=1m,2m\n\
    [a]\nrw=randrw\nrwmixread=70\niodepth=32\nruntime=10\ntime_based\nthinktime=5us\nthinktime_blocks=3\n\
    [b]\nstonewall\nrw=write\nloops=2\nnumjobs=4\nfsync=8\nnumber_ios=100\nio_size=2g\nrandseed=7\nstartdelay=1ms\n";
const IOLOG: &str = "fio version 3 iolog\n0 /dev/x add\n0 /dev/x open\n5 /dev/x read 4096 8192\n\
    20 /dev/x write 0 512\n25 /dev/x sync 0 0\n30 /dev/x trim 1048576 4096\n40 /dev/x close\n";
const DRIVE: u64 = 1 << 40;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("wattbell-fuzz-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn plans() {
    let folder = Folder::new("plan");
    folder.put("job.fio", JOBS);
    folder.put("t.iolog", IOLOG);
    Plan::load(&folder.put("plan.toml", PLAN), 5, &fio::Reading::on(DRIVE)).unwrap();
    each(3000, |rng| {
        let path = folder.put("plan.toml", spoil_text(rng, PLAN));
        if let Err(error) = Plan::load(&path, 5, &fio::Reading::on(DRIVE)) {
            assert!(!error.to_string().is_empty());
        }
    });
}

#[test]
fn profiles() {
    each(3000, |rng| {
        let profile = PROFILES[rng.usize(..PROFILES.len())];
        let text = spoil_text(rng, profile);
        let Ok(text) = String::from_utf8(text) else { return };
        if let Err(error) = Profile::parse("x.toml", &text) {
            assert!(!error.to_string().is_empty());
        }
    });
}

#[test]
fn job_files() {
    fio::parse_text("j.fio", JOBS, &fio::Reading::on(DRIVE)).unwrap();
    each(6000, |rng| {
        let text = String::from_utf8_lossy(&spoil_text(rng, JOBS)).into_owned();
        match fio::parse_text("j.fio", &text, &fio::Reading::on(DRIVE)) {
            Ok(file) => {
                assert!(!file.jobs.is_empty());
                for job in &file.jobs {
                    let end = job.offset.checked_add(job.size.unwrap_or(0)).expect("it lies on the drive");
                    assert!(end <= DRIVE && (1..=1023).contains(&job.iodepth));
                }
            }
            Err(error) => assert!(error.to_string().starts_with("j.fio:"), "{error}"),
        }
    });
}

#[test]
fn iologs() {
    let folder = Folder::new("iolog");
    fio::trace_job(&folder.put("t.iolog", IOLOG), 100_000, DRIVE).unwrap();
    each(3000, |rng| {
        let path = folder.put("t.iolog", spoil_text(rng, IOLOG));
        if let Ok(job) = fio::trace_job(&path, 100_000, DRIVE) {
            let trace = job.trace.expect("it replays the log");
            assert!(trace.largest <= DRIVE);
        }
    });
}
