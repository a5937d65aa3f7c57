//! Checks of the energy account. Every joule of the rail is booked once, by phase, for every drive; commands' energy agrees with the
//! parts' energy.

use serde_json::Value;
use wattbell_bus::{TraceHeader, TraceWriter};
use wattbell_ssd::driver::{self, Fidelity, Outcome, Plan};
use wattbell_ssd::{fio, Profile, LBA};

const JOBS: &str = "[global]\ndirect=1\nsize=256m\nstonewall\n\
    [reads]\nrw=randread\nbs=4k\niodepth=8\nio_size=4m\n\
    [ahead]\nrw=read\nbs=64k\nio_size=8m\n\
    [mixed]\nrw=randrw\nbs=16k\niodepth=4\nio_size=8m\nfsync=16\n\
    [bursts]\nrw=randwrite\nbs=4k\nthinktime=20ms\nthinktime_blocks=64\nio_size=1m\n";
const PLAN: &str = "[[step]]\nfio = 'jobs.fio'\naspm = 'l1.2'\n\
    [[step]]\nidle_s = 0.4\napst = true\n\
    [[step]]\nwake = { idle_s = 0.2 }\napst = true\n\
    [[step]]\nrestart = { off_s = 0.05 }\n\
    [[step]]\nname = 'again'\nidle_s = 0.05\n";

/// How much of a phase's energy lies within a step of its ends, where the rail is given as means over steps.
const STEPS: f64 = 3e-3;

fn run(profile: &str, fidelity: Fidelity) -> Outcome {
    let folder = std::env::temp_dir().join(format!(
        "wattbell-account-{}-{profile}-{}",
        std::process::id(),
        fidelity == Fidelity::Tlps
    ));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("jobs.fio"), JOBS).unwrap();
    std::fs::write(folder.join("plan.toml"), PLAN).unwrap();
    let profile = Profile::load(profile).unwrap();
    let bytes = *profile.namespace.lbas_512 * LBA;
    let plan = Plan::load(&folder.join("plan.toml"), profile.power_state.len(), &fio::Reading::on(bytes)).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let header = TraceHeader { summaries: fidelity != Fidelity::Tlps, ..TraceHeader::default() };
    let trace = TraceWriter::new(std::io::sink(), &header).unwrap();
    driver::run(profile, &plan, 3, trace, None::<std::io::Sink>, fidelity, false).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

fn purposes(spent: &Value, names: &[&str]) -> f64 {
    let units = names.iter().filter_map(|name| spent["purposes"][name].as_object());
    units.flat_map(|units| units.values()).map(number).sum()
}

fn levels(spent: &Value) -> f64 {
    let states = ["core", "link", "active"].iter().filter_map(|part| spent[part].as_object());
    states.flat_map(|states| states.values()).map(|state| number(&state["j"])).sum()
}

fn check(profile: &str, fidelity: Fidelity, limit: f64) {
    let outcome = run(profile, fidelity);
    let (mut own, mut booked) = (0.0, 0.0);
    for phase in outcome.truth["phases"].as_array().unwrap() {
        let (name, spent) = (&phase["name"], &phase["spent"]);
        let (rail, sum) = (number(&phase["energy_j"]), number(&spent["sum_j"]));
        assert!((sum / rail - 1.0).abs() < limit, "{profile}, {name}: {sum} J are booked of {rail} J");
        let all: Vec<&str> = spent["purposes"].as_object().unwrap().keys().map(String::as_str).collect();
        let parts = levels(spent) + purposes(spent, &all) + number(&spent["supply_j"]);
        assert!((parts / sum - 1.0).abs() < 1e-9, "{profile}, {name}: the parts are {parts} J of {sum} J");
        let commands = spent["commands"].as_array().unwrap();
        let total = |key: &str| commands.iter().map(|class| number(&class[key])).sum::<f64>();
        let shared = spent["active"]["io_in_hand"]["j"].as_f64().unwrap_or(0.0);
        assert!(
            (total("share_j") - shared).abs() <= 1e-6 * shared + 1e-9,
            "{profile}, {name}: shares are not the level"
        );
        booked += purposes(spent, &["read", "read_ahead", "map", "write"]);
        own += total("own_j");
    }
    // The programs that the last writes of a phase caused may run in the pause before the next phase.
    assert!((own / booked - 1.0).abs() < 0.02, "{profile}: commands are booked {own} J of {booked} J");
}

#[test]
fn each_joule_is_booked_once() {
    for profile in Profile::built_in() {
        check(profile, Fidelity::Summaries { rail_step_us: 20 }, STEPS);
    }
}

#[test]
fn at_full_detail_the_books_are_the_rail() {
    check("intel-660p-1tb", Fidelity::Tlps, 1e-6);
    check("wd-sn550", Fidelity::Tlps, 1e-6);
}
