"""A drive's temperature and health: nvme-cli's answer, when it is asked, and the text beside the figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattbell.drive import smart
from wattbell.drive.smart import parse
from wattbell.errors import DriveError
from wattbell.suites import health
from wattbell.suites.health import HealthReading, Record

from tests.host.drive.lab import NVME, Lab
from tests.host.fuzzing import examples

# As nvme-cli 2.13 printed it in the guest (`nvme smart-log /dev/nvme0 -o json`), of the SSD model over vfio-user.
SAID_2_13 = """{
  "critical_warning":{
    "value":2, "available_spare":0, "temp_threshold":1, "reliability_degraded":0, "ro":0, "vmbu_failed":0, "pmr_ro":0
  },
  "temperature":299, "avail_spare":100, "spare_thresh":10, "percent_used":3, "endurance_grp_critical_warning_summary":0,
  "data_units_read":1, "data_units_written":0, "host_read_commands":2, "host_write_commands":0, "controller_busy_time":0,
  "power_cycles":1, "power_on_hours":0, "unsafe_shutdowns":7, "media_errors":0, "num_err_log_entries":4, "warning_temp_time":5,
  "critical_comp_time":1, "thm_temp1_trans_count":2, "thm_temp2_trans_count":1, "thm_temp1_total_time":90, "thm_temp2_total_time":30
}"""
SEEN = {
    "temperature_c": 26.0,
    "critical_warning": 2,
    "available_spare_percent": 100,
    "percentage_used": 3,
    "media_errors": 0,
    "unsafe_shutdowns": 7,
    "error_log_entries": 4,
    "warning_min": 5,
    "critical_min": 1,
    "light_count": 2,
    "heavy_count": 1,
    "light_s": 90,
    "heavy_s": 30,
}


def seen(said: str) -> dict[str, Any]:
    reading = parse(said, 1, 2)
    return {name: getattr(reading, name) for name in SEEN}


def respelled(**changes: Any) -> str:
    tree = json.loads(SAID_2_13)
    for old in [name for name in changes if changes[name] is None]:
        del tree[old]
    return json.dumps(tree | {name: value for name, value in changes.items() if value is not None})


@pytest.mark.parametrize(
    "said",
    [
        SAID_2_13,
        respelled(critical_warning=2),  # 1.x, and 2.x without details
        respelled(percent_used=None, percentage_used=3, avail_spare=None, available_spare=100),
        respelled(unsafe_shutdowns=7.0, media_errors=0.0),  # 1.x: 128 bits as a double
        respelled(unsafe_shutdowns="7"),  # 2.x: 128 bits as text
        json.dumps({"nvme0": json.loads(SAID_2_13)}),
    ],
)
def test_every_spelling_says_the_same(said: str) -> None:
    assert seen(said) == SEEN


def test_sensors_and_what_a_drive_leaves_out() -> None:
    reading = parse('{"temperature": 310, "temperature_sensor_1": 306, "temperature_sensor_2": 0, "temperature_sensor_4": 340}', 1, 2)
    assert (reading.temperature_c, reading.sensors_c, reading.percentage_used, reading.light_s) == (37.0, (33.0, 67.0), None, 0)
    assert parse('{"temperature": 0}', 1, 2).temperature_c is None, "0 K is no temperature"


TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*json.loads(SAID_2_13), "value", "temperature_sensor_1", "nvme0"]), inner, max_size=5)
    ),
    max_leaves=8,
)


@examples(300)
@given(tree=TREES, cut=st.integers(0, 9))
def test_anything_that_nvme_cli_says_is_a_reading_or_an_error(tree: Any, cut: int) -> None:
    try:
        reading = parse(json.dumps(tree)[: -cut or None], 1, 2)
    except DriveError as error:
        assert "nvme" in str(error)
        return
    again = json.loads(health.msgspec.json.encode(Record((reading,))))
    assert health.msgspec.convert(again, Record) == Record((reading,))


# -- when it is asked ------------------------------------------------------------------------------------------------

SMART = NVME.replace(
    "exit 0\n",
    """if [ "$1" = smart-log ]; then
    echo x >> "$here/asked"; n=$(wc -l < "$here/asked")
    echo "{\\"temperature\\": $((300 + n)), \\"thm_temp1_trans_count\\": $((n / 4)), \\"thm_temp1_total_time\\": $((n * 2)),
          \\"percent_used\\": 5, \\"media_errors\\": 1, \\"unsafe_shutdowns\\": 2}"
fi
exit 0
""",
)
SETTLE = {"name": "i-settle", "settle": {"window_s": 10.0, "range_share": 0.05, "longest_s": 60.0}, "measured": False}
LOAD = "[a]\nfilename=${WATTBELL_DRIVE}\nrw=randread\nbs=4k\n"


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    made = Lab(tmp_path, monkeypatch)
    (tmp_path / "nvme").write_text(SMART)
    (tmp_path / "iops").write_text("[1000.0]")
    (tmp_path / "plans/j.fio").write_text(LOAD)
    return made


def record(lab: Lab) -> Record:
    found = health.load(lab.root / "capture/workload")
    assert found is not None
    return found


def test_it_is_asked_between_phases_but_never_right_before_one_that_lets_the_drive_be(lab: Lab) -> None:
    lab.run(
        {"name": "w", "fio": "j.fio"},
        SETTLE,
        {"name": "i", "idle_s": 0.1, "apst": True},
        {"name": "i", "idle_s": 0.1},
        {"name": "w2", "fio": "j.fio"},
    )
    found = record(lab)
    # before w; before i-settle; not before the two idle times; before w2; at the end
    assert [(r.phases, r.during) for r in found.readings] == [(0, False), (1, False), (4, False), (5, False)]
    assert [r.at_ns for r in found.readings] == sorted(r.at_ns for r in found.readings)
    assert (found.absent, found.readings[0].temperature_c) == ("", 28.0)


def slow_fio(lab: Lab, seconds: float) -> None:
    text = (lab.root / "fio").read_text()
    (lab.root / "fio").write_text(text.replace("here =", f"import time; time.sleep({seconds})\nhere ="))


def test_it_is_asked_while_work_runs_but_not_where_the_drive_may_sleep_between(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smart.HealthWatch.__init__, "__defaults__", (0.05,))
    slow_fio(lab, 2.0)  # a busy machine takes its time to ask
    lab.run({"name": "w", "fio": "j.fio"}, {"name": "s", "fio": "j.fio", "apst": True}, {"name": "i", "idle_s": 0.6})
    during = [r.phases for r in record(lab).readings if r.during]
    assert set(during) == {0} and len(during) >= 2


def test_a_drive_that_does_not_answer_ends_the_readings_and_not_the_run(lab: Lab) -> None:
    (lab.root / "nvme").write_text(NVME.replace("exit 0\n", '[ "$1" = smart-log ] && echo no such log >&2 && exit 1\nexit 0\n'))
    assert len(lab.run({"name": "w", "fio": "j.fio"}, {"name": "w2", "fio": "j.fio"})) == 2
    found = record(lab)
    assert not found.readings and "no such log" in found.absent
    assert "no such log" in health.of_drive(found)["absent"]


# -- what stands beside the figures ----------------------------------------------------------------------------------

PHASES = ["purge", "fill", "idle-settle", "idle", "idle-wake-up-settle", "idle-wake-up#1", "burst/a", "burst/b"]
TESTS = ["idle", "idle-wake-up", "burst"]


def reading(at: int, phases: int, celsius: float | None, during: bool = False, **more: int) -> HealthReading:
    return HealthReading(at_ns=at * 10**9, phases=phases, during=during, temperature_c=celsius, **more)


def test_a_phase_belongs_to_the_test_with_the_longest_name() -> None:
    assert [health.owner(name, TESTS) for name in PHASES] == [
        None,
        None,
        "idle",
        "idle",
        "idle-wake-up",
        "idle-wake-up",
        "burst",
        "burst",
    ]


def test_before_during_and_after_each_test() -> None:
    found = Record(
        (
            reading(0, 0, 30),
            reading(10, 1, 60, True),
            reading(20, 2, 55),
            reading(40, 4, 35),
            reading(60, 6, 34, light_count=3, light_s=10),
            reading(70, 6, 80, True, light_count=3, light_s=10),
            reading(71, 7, 84.0, True, light_count=5, light_s=34),
            reading(90, 8, 70, light_count=5, light_s=40, media_errors=2, warning_min=1),
        )
    )
    about = {test: health.of_test(found, PHASES, test, TESTS) for test in TESTS}
    idle, burst = about["idle"], about["burst"]
    assert idle is not None and burst is not None
    assert (idle["before_c"], idle["highest_c"], idle["after_c"], idle["readings"], idle["risen"]) == (55, 55, 35, 0, {})
    assert (burst["before_c"], burst["highest_c"], burst["after_c"], burst["readings"]) == (34, 84, 70, 2)
    assert burst["risen"] == {"light_count": 2, "light_s": 30, "warning_min": 1, "media_errors": 2}
    assert burst["series"] == {"t_s": [0.0, 10.0, 11.0, 30.0], "c": [34, 80, 84, 70]}
    assert health.notes(idle) == []
    said, errors = health.notes(burst)
    assert said == (
        "THROTTLED while this test ran: thermal management 1 2 times, 30 s in all; 1 min above the warning temperature, at up to 84 °C. "
        "The figures are those of a hot drive"
    )
    assert errors == "the drive counted 2 more media and data integrity errors while this test ran"


def test_a_test_of_hours_keeps_its_hottest_moments() -> None:
    many = [reading(k, 6, 40.0 + (k == 7777) * 45, True) for k in range(10_000)]
    found = health.of_test(Record(tuple(many)), PHASES, "burst", TESTS)
    assert found is not None and len(found["series"]["c"]) <= health.SERIES_MOST and max(found["series"]["c"]) == 85.0


def test_nothing_read_is_nothing_said() -> None:
    assert health.of_test(Record(), PHASES, "burst", TESTS) is None
    assert health.of_test(Record((reading(0, 0, None),)), PHASES, "none", TESTS) is None
    assert health.notes(None) == [] and health.throttled(None) == ""


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"readings": [{"at_ns": "x"}]}', b"\xff", b"[" * 100_000])
def test_a_file_from_elsewhere_is_no_record(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "health.json").write_bytes(content)
    found = health.load(tmp_path)
    assert found is None
