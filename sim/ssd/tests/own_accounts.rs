//! The drive's own accounts of power and latency through plans: against the rail's records and the truth of commands, at both fidelities.

use std::sync::{Arc, Mutex};
use wattbell_bus::{TraceHeader, TraceWriter};
use wattbell_ssd::driver::{self, Fidelity, Outcome, Plan};
use wattbell_ssd::{fio, Profile, LBA};

const JOBS: &str = "[global]\ndirect=1\nsize=4g\n\
    [reads]\nrw=randread\nbs=4k\niodepth=32\nruntime=2\ntime_based\nrate_iops=3000\n\
    [writes]\nstonewall\nrw=write\nbs=128k\niodepth=64\nruntime=3\ntime_based\nrate=450m\n\
    [trims]\nstonewall\nrw=randtrim\nbs=4k\nio_size=64k\n";
const PLAN: &str = "condition = 'full'\n\
    [[step]]\nlatency_monitor = { thresholds_ms = [5, 10, 20, 40] }\n\
    [[step]]\nown_meter = 'start'\n\
    [[step]]\nfio = 'jobs.fio'\n\
    [[step]]\nidle_s = 2.2\n\
    [[step]]\nread_logs = ['power_measurement']\n\
    [[step]]\nown_meter = 'stop'\n\
    [[step]]\nread_logs = ['power_measurement', 'latency_monitor']\n";
const OFFERS: &str = "power_measurement = { value = true, source = 'assumed: test' }\n\
    latency_monitor = { value = true, source = 'assumed: test' }\n";

/// Bytes that a run writes, to look at behind it.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn profile(offers: &str) -> Profile {
    let text =
        include_str!("../../profiles/intel-660p-1tb.toml").replacen("[offer]\n", &format!("[offer]\n{offers}"), 1);
    Profile::parse("own", &text).unwrap()
}

fn run(profile: Profile, plan: &str, fidelity: Fidelity) -> Result<(Outcome, String), driver::RunError> {
    let folder =
        std::env::temp_dir().join(format!("wattbell-own-{}-{:?}", std::process::id(), std::thread::current().id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("jobs.fio"), JOBS).unwrap();
    std::fs::write(folder.join("plan.toml"), plan).unwrap();
    let bytes = *profile.namespace.lbas_512 * LBA;
    let plan = Plan::load(&folder.join("plan.toml"), profile.power_state.len(), &fio::Reading::on(bytes)).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let header = TraceHeader { summaries: fidelity != Fidelity::Tlps, ..TraceHeader::default() };
    let commands = Kept::default();
    let trace = TraceWriter::new(std::io::sink(), &header).unwrap();
    let outcome = driver::run(profile, &plan, 3, trace, Some(commands.clone()), fidelity, false)?;
    let rows = String::from_utf8(std::mem::take(&mut *commands.0.lock().unwrap())).unwrap();
    Ok((outcome, rows))
}

fn word(d: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(d[at..at + 4].try_into().unwrap())
}

/// Latencies in milliseconds of the I/O commands of one opcode, from the CSV of the truth.
fn latencies_ms(rows: &str, opcode: u8) -> Vec<f64> {
    let mut lines = rows.lines();
    let columns: Vec<&str> = lines.next().unwrap().split(',').collect();
    let place = |name: &str| columns.iter().position(|c| *c == name).unwrap();
    let (qid, code, fetch, cqe) = (place("qid"), place("opcode"), place("fetch_ps"), place("cqe_ps"));
    let cells = lines.map(|line| line.split(',').collect::<Vec<_>>());
    let mine = cells.filter(|row| row[qid] != "0" && row[code] == opcode.to_string());
    mine.map(|row| (row[cqe].parse::<f64>().unwrap() - row[fetch].parse::<f64>().unwrap()) * 1e-9).collect()
}

#[test]
fn the_pages_are_those_of_the_rail_and_of_the_commands_at_both_fidelities() {
    let pages = [Fidelity::Tlps, Fidelity::Summaries { rail_step_us: 20 }].map(|fidelity| {
        let (outcome, rows) = run(profile(OFFERS), PLAN, fidelity).unwrap();
        let names: Vec<&str> = outcome.logs.iter().map(|log| log.0.as_str()).collect();
        assert_eq!(names, ["log-25h.bin", "log-25h-2.bin", "log-c3h.bin"]);
        let (early, power, latency) = (&outcome.logs[0].1, &outcome.logs[1].1, &outcome.logs[2].1);
        assert_eq!((word(early, 0) >> 16 & 1, word(power, 0) >> 16 & 1), (1, 0));
        // the whole of both job phases and of the idle phase lies between start and stop
        let phases = outcome.truth["phases"].as_array().unwrap();
        let between = &phases[2..phases.len() - 3];
        let sum = |key: &str| between.iter().map(|phase| phase[key].as_f64().unwrap()).sum::<f64>();
        let (energy_j, seconds) = (sum("energy_j"), sum("duration_s"));
        let (count, mean_w) = (word(power, 8), f64::from(word(power, 40) & 0xFFFF) * 1e-4);
        assert!((f64::from(count) - seconds + 1.0).abs() <= 1.0, "{count} intervals in {seconds} s");
        // what is not in an interval is idle time at either end, of 0.6 to 0.7 W
        let rest_s = seconds - f64::from(count);
        let rest_w = (energy_j - mean_w * f64::from(count)) / rest_s;
        assert!((0.3..3.5).contains(&rest_w), "{rest_w} W for {rest_s} s besides {mean_w} W for {count} s");
        for (k, opcode) in [(3, 2u8), (2, 1)] {
            let mine = latencies_ms(&rows, opcode);
            for (bucket, edges) in [5.0, 10.0, 20.0, 40.0, f64::INFINITY].windows(2).enumerate() {
                let want = mine.iter().filter(|ms| (edges[0]..edges[1]).contains(*ms)).count();
                assert_eq!(
                    word(latency, 0x20 + 16 * bucket + 4 * k) as usize,
                    want,
                    "opcode {opcode}, bucket {bucket}"
                );
            }
            assert!(mine.iter().any(|ms| *ms >= 5.0) || opcode == 2, "some writes are slow");
        }
        let trims = latencies_ms(&rows, 9).iter().filter(|ms| **ms >= 5.0).count();
        assert_eq!((0..4).map(|b| word(latency, 0x24 + 16 * b)).sum::<u32>() as usize, trims);
        (power.clone(), latency.clone())
    });
    let [(power, latency), (fast_power, fast_latency)] = pages;
    assert_eq!(latency, fast_latency);
    assert_eq!((&power[..12], &power[48..56]), (&fast_power[..12], &fast_power[48..56]));
    assert!(word(&power, 40).abs_diff(word(&fast_power, 40)) <= 1, "0.1 mW apart");
}

#[test]
fn a_request_for_an_event_waits_until_a_second_is_at_the_threshold() {
    const OFFER: &str = "power_threshold = { value = true, source = 'assumed: test' }\n";
    let plan = |watt: &str| {
        format!("[[step]]\npower_threshold_w = {watt}\n[[step]]\nidle_s = 1.5\n[[step]]\nfio = 'jobs.fio'\n")
    };
    let requests = |watt: &str| {
        let (_, rows) = run(profile(OFFER), &plan(watt), Fidelity::Summaries { rail_step_us: 20 }).unwrap();
        rows.lines().filter(|row| row.starts_with("12,0,")).map(String::from).collect::<Vec<_>>()
    };
    assert!(requests("600").is_empty(), "the request still waits");
    let crossed = requests("0.8");
    assert_eq!(crossed.len(), 1);
    let cells: Vec<&str> = crossed[0].split(',').collect();
    let cqe_ps: u64 = cells[11].parse().unwrap();
    // the model's seconds count from the supply on, and idle lasts until 1.6 s
    assert!(cqe_ps % 1_000_000_000_000 < 10_000_000, "{cqe_ps} ps is just behind the end of a second");
    assert!((2..6).contains(&(cqe_ps / 1_000_000_000_000)), "{cqe_ps} ps");
}

#[test]
fn a_drive_with_these_functions_does_all_else_as_one_without() {
    let plan = "[[step]]\nfio = 'jobs.fio'\napst = true\n[[step]]\nidle_s = 2.5\napst = true\n";
    let (with, with_rows) = run(profile(OFFERS), plan, Fidelity::Tlps).unwrap();
    let (without, rows) = run(profile(""), plan, Fidelity::Tlps).unwrap();
    assert!(with_rows == rows, "the same commands at the same times");
    assert_eq!(with.truth, without.truth);
}

#[test]
fn a_plan_that_needs_what_the_drive_lacks_says_which_entry_is_missing() {
    for (step, entry) in [
        ("own_meter = 'start'", "offer.power_measurement"),
        ("power_threshold_w = 3.0", "offer.power_threshold"),
        ("latency_monitor = { thresholds_ms = [5, 10, 20, 40] }", "offer.latency_monitor"),
        ("read_logs = ['latency_monitor']", "offer.latency_monitor"),
    ] {
        let error = run(profile(""), &format!("[[step]]\n{step}\n"), Fidelity::Tlps).err().unwrap().to_string();
        assert!(error.contains(entry), "{error}");
    }
}
