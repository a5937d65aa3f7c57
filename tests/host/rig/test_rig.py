"""Discovery, and SCPI over a pty, against an instrument with given answers."""

from __future__ import annotations

import json
import os
import select
import socket
import threading
import tty
from collections.abc import Iterator
from pathlib import Path

import pytest
from wattbell.clocks.host import host_ns
from wattbell.clocks.rigtick import STEP_TICKS, ask_tick
from wattbell.clocks.roundtrip import by_round_trips
from wattbell.errors import RigError
from wattbell.rig import Rig, ScpiConnection, discovery
from wattbell.rig.delay import front_end_delay


class Instrument:
    """Answers lines on a pty from a dict; a list of answers is given one by one."""

    def __init__(self, answers: dict[str, list[str]]) -> None:
        self.answers, self.lines, self.ended = answers, [], threading.Event()
        self.master, self.slave = os.openpty()
        tty.setraw(self.slave)
        self.device = os.ttyname(self.slave)
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    lines: list[str]

    def serve(self) -> None:
        rest = b""
        while not self.ended.is_set():
            if not select.select([self.master], [], [], 0.02)[0]:
                continue
            try:
                rest += os.read(self.master, 4096)
            except OSError:
                return
            while b"\n" in rest:
                line, _, rest = rest.partition(b"\n")
                text = line.decode()
                self.lines.append(text)
                queue = self.answers.get(text)
                if queue:
                    os.write(self.master, (queue.pop(0) if len(queue) > 1 else queue[0]).encode())

    def close(self) -> None:
        self.ended.set()
        self.thread.join()  # before another instrument gets its descriptors
        os.close(self.slave)
        os.close(self.master)


GOOD = {"SYST:ERR?": ['0,"No error"\r\n'], "*IDN?": ["Wattbell,rig, WB7 ,1.2.3\n"], "STAT:RIG?": ["state=RUN,tick=5\n"]}


@pytest.fixture
def made() -> Iterator[list[Instrument]]:
    instruments: list[Instrument] = []
    yield instruments
    for instrument in instruments:
        instrument.close()


def scpi(made: list[Instrument], answers: dict[str, list[str]], timeout_s: float = 3) -> tuple[ScpiConnection, Instrument]:
    made.append(Instrument({name: list(queue) for name, queue in answers.items()}))
    return ScpiConnection(made[-1].device, timeout_s), made[-1]


def test_queries_and_commands(made: list[Instrument]) -> None:
    port, instrument = scpi(made, GOOD)
    assert port.identity() == {"manufacturer": "Wattbell", "model": "rig", "serial": "WB7", "firmware": "1.2.3"}
    port.command("SENS:SWE:DEC 8")
    assert instrument.lines == ["*IDN?", "SENS:SWE:DEC 8", "SYST:ERR?"]


def test_an_answer_in_pieces_and_two_at_once(made: list[Instrument]) -> None:
    port, _ = scpi(made, {"A?": ["one\ntwo\n"], "B?": ["never asked\n"]})
    assert port.query("A?") == "one"
    assert port.query("B?") == "two"


def test_errors_are_told_in_the_rigs_words_and_the_queue_is_emptied(made: list[Instrument]) -> None:
    answers = ['-222,"Data out of range;0"\n', '-113,"Undefined header"\n', '0,"No error"\n']
    port, instrument = scpi(made, {"SYST:ERR?": answers})
    with pytest.raises(RigError, match=r"refused SENS:SWE:DEC 0.*-222.*-113"):
        port.command("SENS:SWE:DEC 0")
    assert instrument.lines.count("SYST:ERR?") == 3


def test_silence_is_an_error_that_names_the_question(made: list[Instrument]) -> None:
    port, _ = scpi(made, {}, timeout_s=0.3)
    with pytest.raises(RigError, match=r"does not answer \*IDN\?"):
        port.identity()


def test_another_instrument_is_refused(made: list[Instrument]) -> None:
    port, _ = scpi(made, {"*IDN?": ["hello\n"]})
    with pytest.raises(RigError, match="not a rig"):
        port.identity()


def test_a_port_that_is_not_there() -> None:
    with pytest.raises(RigError, match="cannot be opened"):
        ScpiConnection("/dev/does-not-exist")


def test_a_rig_that_runs_already_goes_on(made: list[Instrument]) -> None:
    # first the run identifier, which a rig takes for its next run
    answers = {**GOOD, "SYST:ERR?": ['0,"No error"\n', '-213,"Init ignored"\n', '0,"No error"\n']}
    for _ in range(2):
        made.append(Instrument({name: list(queue) for name, queue in answers.items()}))
    control, data = made
    with Rig(discovery.RigPort("WB7", data.device, control.device, virtual=True)) as rig:
        assert rig.start() is False
        assert rig.status() == "state=RUN,tick=5"
        rig.set_interval(1e-5)
        rig.mark(258)
    assert control.lines[-4:] == ["SENS:SWE:TINT 1e-05", "SYST:ERR?", "MARK 258", "SYST:ERR?"]


@pytest.mark.parametrize(("states", "starts"), [(["STOPPING", "STOPPING", "READY"], True), (["STOPPING", "RUN"], False)])
def test_a_rig_that_is_still_about_to_stop_is_waited_for(made: list[Instrument], states: list[str], starts: bool) -> None:
    errors = ['0,"No error"\n', '-213,"Init ignored"\n', '0,"No error"\n']
    answers = {**GOOD, "SYST:ERR?": errors, "STAT:RIG?": [f"state={state},tick=5\n" for state in states]}
    for _ in range(2):
        made.append(Instrument({name: list(queue) for name, queue in answers.items()}))
    data, control = made
    with Rig(discovery.RigPort("WB7", data.device, control.device, virtual=True)) as rig:
        assert rig.start() is starts
    assert control.lines.count("STAT:RIG?") == len(states)
    assert control.lines.count("INIT") == 1 + starts


def test_a_virtual_rig_at_the_end_of_its_trace_does_not_start(made: list[Instrument]) -> None:
    made += [Instrument({name: list(queue) for name, queue in GOOD.items()}) for _ in range(2)]
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0wattbell-test.{os.getpid()}")
        server.listen()

        def answer() -> None:
            for state in ("READY", "DONE"):
                with server.accept()[0] as line:
                    line.sendall(json.dumps({"state": state, "tick": 7}).encode() + b"\n")

        thread = threading.Thread(target=answer)
        thread.start()
        port = discovery.RigPort("WB7", made[0].device, made[1].device, virtual=True, status=f"@wattbell-test.{os.getpid()}")
        with Rig(port) as rig:
            rig.start()
            with pytest.raises(RigError, match="to the end"):
                rig.start()
        thread.join()
    assert made[1].lines.count("INIT") == 1
    assert discovery.process_status(port) == {}


def test_the_end_of_the_stream_survives_the_cut(made: list[Instrument]) -> None:
    made.append(Instrument(GOOD))
    master, slave = os.openpty()
    tty.setraw(slave)
    with Rig(discovery.RigPort("WB7", os.ttyname(slave), made[0].device, virtual=True)) as rig:
        os.write(master, b"x" * 3000)
        os.close(slave)
        buffer = bytearray(8192)
        got = rig.read_into(memoryview(buffer))
        os.close(master)
        assert buffer[:got] == b"x" * 3000
        with pytest.raises(RigError, match="lost"):
            rig.read_into(memoryview(buffer))


# -- discovery -------------------------------------------------------------------------------------------------------


def register(folder: Path, serial: str, pid: int | None = None, **other: str) -> None:
    (folder / "rigs").mkdir(exist_ok=True)
    entry = {"serial": serial, "data": "/dev/null", "control": "/dev/null", "pid": pid or os.getpid(), **other}
    (folder / "rigs" / f"{serial}.json").write_text(json.dumps(entry))


def test_only_living_virtual_rigs_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATTBELL_RUNTIME", str(tmp_path))
    assert discovery.virtual_rigs() == []
    register(tmp_path, "A")
    register(tmp_path, "DEAD", pid=2**22 - 3)
    register(tmp_path, "GONE", data="/dev/nothing")
    (tmp_path / "rigs" / "broken.json").write_text("{")
    (tmp_path / "rigs" / "odd.json").write_text("[]")
    assert [port.serial for port in discovery.virtual_rigs()] == ["A"]
    assert discovery.find().serial == "A"
    assert discovery.find("A").virtual
    with pytest.raises(RigError, match="present: A"):
        discovery.find("B")


def test_the_runtime_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WATTBELL_RUNTIME", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert discovery.runtime_dir() == tmp_path / "wattbell"
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert discovery.runtime_dir() == Path(f"/tmp/wattbell-{os.geteuid()}")


def test_usb_rigs_are_known_by_their_product(monkeypatch: pytest.MonkeyPatch) -> None:
    class Port:
        def __init__(self, device: str, product: str | None, serial_number: str | None, location: str | None = None) -> None:
            self.device, self.product, self.serial_number, self.location = device, product, serial_number, location

    ports = [
        Port("/dev/ttyACM10", "Wattbell rig", "WB1"),
        Port("/dev/ttyACM9", "Wattbell rig", "WB1"),
        Port("/dev/ttyACM3", "Wattbell rig", "WB2", "3-1.4:1.2"),  # plugged in again while ttyACM0 to 3 were open
        Port("/dev/ttyACM11", "Wattbell rig", "WB2", "3-1.4:1.0"),
        Port("/dev/ttyACM2", "Wattbell rig", "HALF"),
        Port("/dev/ttyUSB0", "FT232R", "X"),
        Port("/dev/ttyS0", None, None),
    ]
    monkeypatch.setattr(discovery.list_ports, "comports", lambda: ports)
    assert discovery.usb_rigs() == [
        discovery.RigPort("WB1", "/dev/ttyACM9", "/dev/ttyACM10", virtual=False),
        discovery.RigPort("WB2", "/dev/ttyACM11", "/dev/ttyACM3", virtual=False),
    ]


def test_a_query_that_a_rig_need_not_know(made: list[Instrument]) -> None:
    answers = {"NEW?": ["7\n"], "SYST:ERR?": ['0,"No error"\n', '-113,"Undefined header;OLD"\n', '0,"No error"\n'], "A?": ["b\n"]}
    port, instrument = scpi(made, answers)
    assert port.optional("NEW?") == "7"
    assert port.optional("OLD?") is None
    assert port.query("A?") == "b" and instrument.lines.count("SYST:ERR?") == 2


DELAYS = "CAL:DEL?;:CAL:DEL:FINE?;:SENS:CURR:RANG:AUTO?;:SENS:CURR:RANG?"


@pytest.mark.parametrize(
    ("answer", "delay", "u", "calibrated"),
    [
        (None, 2e-6, 60e-9, False),  # an older firmware
        ("0E+00,0E+00;0E+00,0E+00;1;+4.0E+00", 2e-6, 60e-9, False),
        ("0E+00,0E+00;2.1E-06,4E-09;1;+4.0E+00", 2e-6, 60e-9, False),  # only the path that is not used
        ("1.99E-06,1E-09;0E+00,0E+00;1;+4.0E+00", 1.99e-6, 1e-9, True),  # one path
        ("1.99E-06,3E-09;1.994E-06,4E-09;1;+4.0E+00", 1.99e-6, 5e-9, True),  # merged
        ("1.99E-06,3E-09;1.994E-06,4E-09;0;+4.0E+00", 1.99e-6, 3e-9, True),
        ("1.99E-06,3E-09;1.994E-06,4E-09;0;+1.0E-01", 1.994e-6, 4e-9, True),
    ],
)
def test_the_delay_is_that_of_the_path_in_use(made: list[Instrument], answer: str | None, delay: float, u: float, calibrated: bool) -> None:
    told = {"SYST:ERR?": ['0,"No error"\n'] * 2}
    port, _ = scpi(made, told if answer is None else {**told, DELAYS: [f"{answer}\n"]})
    found = front_end_delay(port)
    assert found["front_end_delay_s"] == pytest.approx(delay) and found["front_end_delay_u_s"] == pytest.approx(u)
    assert found["front_end_delay_calibrated"] is calibrated


def test_the_rigs_counter_is_mapped_onto_the_hosts_clock(made: list[Instrument]) -> None:
    """A rig with the host's clock as its counter, 7 s behind, in steps of 16 ticks: the true offset lies within the bound."""
    port, instrument = scpi(made, {"SYST:ERR?": ['0,"No error"\n']})

    class Counting(dict):  # type: ignore[type-arg]
        def get(self, text: str, default: object = None) -> list[str]:
            return [f"{(host_ns() - 7_000_000_000) // 16 * 16}\n"] if text == "SYST:TICK?" else ["nonsense\n"]

    instrument.answers = Counting()
    asked = [ask_tick(port) for _ in range(20)]
    assert all(reading.before_ns < reading.after_ns for reading in asked)
    columns = ([r.before_ns for r in asked], [r.after_ns for r in asked], [r.tick for r in asked])
    found = by_round_trips(*columns, 1000, step_ticks=STEP_TICKS)
    for ns in (found.first_ns, found.last_ns):
        assert abs(int(found.to_reference(ns)) - ns - 7_000_000_000) <= found.bound_s * 1e9
    instrument.answers = {"SYST:TICK?": ["soon\n"]}
    with pytest.raises(RigError, match="no tick"):
        ask_tick(port)
