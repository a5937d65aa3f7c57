"""`wattbell calibrate --delay` on virtual rigs: edges of the board's test load pass gateware, firmware, stream and host.

The truth is the board's own time constants, which the host does not know.
"""

from __future__ import annotations

import json
import os
import time
from itertools import count
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner
from wattbell.cli.app import app
from wattbell.errors import WattbellError
from wattbell.rig import Rig as HostRig
from wattbell_spec.wire import LOAD_OFF_MARK, LOAD_ON_MARK

from tests.sim.rig.rig_process import ROOT, Rig, column, decode, find, run, wait_until
from tests.sim.rig.rig_trace import PERST_N, encode, end, rail, sideband

GOAL_S = 50e-9
"""Goal of docs/accuracy.md in s: ADC to bus."""
MODEL = ROOT / "hw/afe/model.toml"


def supply(path: Path, *more: tuple[int, int, int, bytes], amps: float = 0.0, seconds: float = 120) -> Path:
    """Write the trace of a rig with its own 3.3 V and an empty connector."""
    path.write_bytes(encode([rail(0, 3.3, amps), *more, end(seconds * 1e6)]))
    return path


def invoke(*words: object, answer: str | None = None) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], input=answer)


def cli(*words: object, answer: str | None = None) -> str:
    done = invoke(*words, answer=answer)
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


def ports(one: Rig) -> str:
    one.control.close()
    return f"{one.entry['data']},{one.entry['control']}"


def truth(*board: object) -> dict[str, float]:
    """Return the board's true delay, by path."""
    told = json.loads(run([find("wattbell-rig"), "board", *board]).stdout)["delay_s"]
    return {"current" if name == "coarse" else name: value for name, value in told.items()}


def note(seed: int, found: dict[str, dict[str, float]], true: dict[str, float]) -> None:
    """Write a line for docs/front-end.md."""
    if "WATTBELL_DELAYS_FILE" in os.environ:
        figures = {name: [true[name], found[name]["delay_s"], found[name]["u_s"]] for name in true}
        with Path(os.environ["WATTBELL_DELAYS_FILE"]).open("a") as out:
            out.write(json.dumps({"seed": seed, **figures}) + "\n")


@pytest.mark.parametrize("seed", range(1, 1 + int(os.environ.get("WATTBELL_DELAY_BOARDS", "3"))))
def test_delays_of_random_boards_are_found(rig: type[Rig], tmp_path: Path, seed: int) -> None:
    board = ("--afe", MODEL, "--seed", seed, "--temperature", 10 * seed % 50)
    one = rig(supply(tmp_path / "supply.wbt"), *board, "--fidelity", "fast", ports=False)
    line = ports(one)
    found = json.loads(cli("calibrate", "--delay", "--rig", line, "--json"))
    true = truth(*board)
    assert found["stored"] is True and set(found["delay"]) == set(true) == {"current", "fine"}
    note(seed, found["delay"], true)
    for name, path in found["delay"].items():
        assert path["edges"] == 2000
        error = path["delay_s"] - true[name]
        assert abs(error) <= GOAL_S, (name, path, true)
        assert abs(error) <= 3 * path["u_s"] <= GOAL_S, (name, path, true)  # six standard deviations: the noise differs each time

    # the previous settings are restored, and the EEPROM has both
    one.control.open()
    assert one.ask("SENS:CURR:RANG:AUTO?;:SENS:SWE:DEC?;:DIAG:LOAD?;:CAL:COUN?") == "1;1;0;2"
    one.send("*RST;:CAL:LOAD")
    coarse, fine = (tuple(map(float, one.ask(f"CAL:DEL{path}?").split(","))) for path in ("", ":FINE"))
    for told, name in ((coarse, "current"), (fine, "fine")):
        assert told == pytest.approx((found["delay"][name]["delay_s"], found["delay"][name]["u_s"]), abs=1e-12)
    one.control.close()

    # and a capture includes it
    cli("record", "--rig", line, "--out", tmp_path / "capture", "--duration", 0.01)
    conditions = json.loads(cli("info", tmp_path / "capture", "--json"))["conditions"]
    assert conditions["front_end_delay_calibrated"] is True
    assert conditions["front_end_delay_s"] == coarse[0]
    apart = abs(fine[0] - coarse[0])
    assert conditions["front_end_delay_u_s"] == pytest.approx((coarse[1] ** 2 + apart**2) ** 0.5)
    model = json.loads(cli("analyze", tmp_path / "capture", "--json"))["uncertainty"]
    assert (model["front_end_delay_s"], model["front_end_delay_u_s"]) == (coarse[0], conditions["front_end_delay_u_s"])


def test_on_the_rtl_no_clock_is_missing(rig: type[Rig], tmp_path: Path) -> None:
    """The board has one path and little noise: an edge one cycle off its marker would be 4 ns."""
    board = ("--seed", 5, "--tau", 2.1e-6, "--noise", 0.3)
    one = rig(supply(tmp_path / "supply.wbt"), *board, ports=False)
    found = json.loads(cli("calibrate", "--delay", "--rig", ports(one), "--json"))["delay"]
    assert set(found) == {"current"}
    assert found["current"]["delay_s"] == pytest.approx(truth(*board)["current"], abs=1e-9)
    assert abs(found["current"]["on_s"] - found["current"]["off_s"]) < 1e-9


def test_both_fidelities_send_the_same_bytes(rig: type[Rig], tmp_path: Path) -> None:
    trace = supply(tmp_path / "supply.wbt", seconds=0.02)
    streams = []
    for fidelity in ("rtl", "fast"):
        one = rig(trace, "--afe", MODEL, "--seed", 7, "--fidelity", fidelity, "--exit-on-done")
        one.send("INIT;:DIAG:LOAD COAR,20")
        streams.append(one.read_to_exit())
    assert streams[0] == streams[1]
    batches, decoder = decode(streams[0])
    assert decoder.counters.lossless
    values = [v for v in column(batches, "events", "arg32") if v in (LOAD_ON_MARK, LOAD_OFF_MARK)]
    assert values == [LOAD_ON_MARK, LOAD_OFF_MARK] * 20
    current = column(batches, "rail", "current")
    assert min(current) < 5000 and 1_900_000 < max(current) < 2_100_000  # 500 nA each: 0 A and 1 A


def test_a_board_that_is_not_calibrated_says_so(rig: type[Rig], tmp_path: Path) -> None:
    one = rig(supply(tmp_path / "supply.wbt"), "--afe", MODEL, "--calibration", "none", "--fidelity", "fast", ports=False)
    assert one.ask("CAL:DEL?;:CAL:DEL:FINE?") == "+0.0E+00,+0.0E+00;+0.0E+00,+0.0E+00"
    cli("record", "--rig", ports(one), "--out", tmp_path / "capture", "--duration", 0.01)
    conditions = json.loads(cli("info", tmp_path / "capture", "--json"))["conditions"]
    assert (conditions["front_end_delay_s"], conditions["front_end_delay_calibrated"]) == (2e-6, False)
    assert "not calibrated" in " ".join(cli("info", tmp_path / "capture").split("delay of the rail")[1].split("loss")[0].split())
    warnings = json.loads(cli("analyze", tmp_path / "capture", "--json"))["warnings"]
    assert any("delay is not calibrated" in warning for warning in warnings)


def test_the_factory_has_found_it(rig: type[Rig], tmp_path: Path) -> None:
    board = ("--afe", MODEL, "--seed", 9)
    one = rig(supply(tmp_path / "supply.wbt"), *board, "--fidelity", "fast", ports=False)
    for path, true in zip(("", ":FINE"), truth(*board).values(), strict=True):
        delay, u = map(float, one.ask(f"CAL:DEL{path}?").split(","))
        assert abs(delay - true) <= 2 * u <= GOAL_S
    cli("record", "--rig", ports(one), "--out", tmp_path / "capture", "--duration", 0.01)
    assert "of this board" in cli("info", tmp_path / "capture")
    assert not any("delay" in warning for warning in json.loads(cli("analyze", tmp_path / "capture", "--json"))["warnings"])


def test_a_drive_at_work_is_asked_about(rig: type[Rig], tmp_path: Path) -> None:
    trace = supply(tmp_path / "supply.wbt", sideband(0, PERST_N, 1))
    one = rig(trace, "--fidelity", "fast", ports=False)
    one.send("TRIG:SOUR BUS;:ARM")  # time advances
    wait_until(lambda: one.ask("OUTP:PERS?") == "0", "PERST#")
    one.send("ARM:ABOR")
    line = ports(one)
    refused = invoke("calibrate", "--delay", "--rig", line, answer="n\n")
    assert refused.exit_code != 0 and "Is the connector empty" in refused.output
    told = cli("calibrate", "--delay", "--rig", line, "--json", answer="y\n")  # the answer is echoed in front
    assert json.loads(told[told.index("{") :])["delay"]["current"]["edges"] == 2000
    one.control.open()
    assert one.ask("OUTP:PERS?") == "0"


@pytest.mark.parametrize(
    ("options", "amps", "words"),
    [
        (("--tau", 2.6e-6), 0.0, "Is the connector empty"),
        ((), 3.5, "over-current, output off"),  # the load adds to it: more than the protection lets through, and than the scale
    ],
)
def test_what_cannot_be_the_boards_is_refused(rig: type[Rig], tmp_path: Path, options: tuple, amps: float, words: str) -> None:
    one = rig(supply(tmp_path / "supply.wbt", amps=amps), "--fidelity", "fast", *options, ports=False)
    before = one.ask("CAL:DEL?")
    line = ports(one)
    done = invoke("calibrate", "--delay", "--rig", line)
    assert isinstance(done.exception, WattbellError) and words in str(done.exception), done.output
    one.control.open()
    assert one.ask("CAL:DEL?") == before and one.ask("OUTP:PERS?;:SENS:CURR:RANG:AUTO?") == "1;1"


def test_points_and_delay_in_one_go(rig: type[Rig], tmp_path: Path) -> None:
    """The source steps through four points, and is then removed."""
    points, dwell_us = [(1.0, 0.0), (3.3, 0.07), (3.3, 0.25), (4.5, 3.5)], 100_000.0
    rows = [rail(n * dwell_us, volts, amps) for n, (volts, amps) in enumerate(points)]
    trace = tmp_path / "source.wbt"
    trace.write_bytes(encode([*rows, rail(len(points) * dwell_us, 3.3, 0.0), end(120e6)]))
    board = ("--afe", MODEL, "--seed", 2)
    one = rig(trace, *board, "--calibration", "none", "--fidelity", "fast", ports=False)
    options = [word for volts, amps in points for word in ("--point", f"{volts},{amps}")]
    found = json.loads(cli("calibrate", "--rig", ports(one), *options, "--dwell", 0.1, "--seconds", 0.08, "--delay", "--json"))
    assert found["current"]["u_gain"] < 1e-3
    for name, value in truth(*board).items():
        assert abs(found["delay"][name]["delay_s"] - value) <= GOAL_S
    one.control.open()
    assert one.ask("CAL:STAT?;:CAL:COUN?") == "1;2"


def test_nothing_to_calibrate() -> None:
    done = invoke("calibrate")
    assert isinstance(done.exception, WattbellError) and "--delay" in str(done.exception)


def test_a_host_that_has_read_nothing_when_the_pulses_begin_waits_for_the_edges(
    rig: type[Rig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = rig(supply(tmp_path / "supply.wbt"), "--seed", 5, "--fidelity", "fast", ports=False)
    read_into, reads = HostRig.read_into, count()

    def read_late(self: HostRig, buffer: memoryview) -> int:
        if next(reads) < 3:
            time.sleep(1)
            return 0
        return read_into(self, buffer)

    monkeypatch.setattr(HostRig, "read_into", read_late)
    found = json.loads(cli("calibrate", "--delay", "--rig", ports(one), "--json"))["delay"]
    assert found["current"]["edges"] == 2000
