"""Every socket that a command binds or listens on, as the kernel sees it (strace): docs/threats.md names each for that command.

Each command runs as a separate process with all its children. It does its work on a small capture, on a rig that plays a stream, or on
the virtual rig. A command without a line here fails the test."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command
from wattbell.cli.app import app

from tests import needs
from tests.docs.test_threats import LISTENERS
from tests.e2e import stream_maker as maker
from tests.e2e import virtual
from tests.e2e.test_record import Bench
from tests.host.conftest import MS, Builder
from tests.patience import PATIENCE_S
from tests.sim.rig.rig_trace import encode, end, rail

pytestmark = pytest.mark.needs("strace")
STRACE = ["strace", "-f", "-qq", "-e", "trace=socket,bind,listen"]
UNTIL = "Ctrl-C"
"""Output of a command that goes on until SIGINT."""
COMMANDS = """
record --rig FEED1 --out new
run plan.toml --virtual intel-660p-1tb --out new
import waveform.csv --out new
view capture --no-browser
view FEED1 --out new --no-browser
info capture
info --rig FEED1
analyze capture
analyze capture other --workers 2
analyze capture other --scheduler tcp://127.0.0.1:1 --insecure
report capture --out page.html
suites
compare capture other --out page.html
judge capture other --out page.html
requirements
policies results idle.csv
results list --store store.db
results import capture --store store.db
results show 1 --store store.db
results export 1 --out new --store store.db
results delete 1 --store store.db
rigs
meters
calibrate --rig FEED1 --zero
bridge --rig FEED1 --listen 127.0.0.1:0
bridge --rig FEED1 --listen 127.0.0.1:0 --no-token
sump --rig FEED1
sim profiles
sim start --trace trace.wbt
sim replay --bus-trace trace.wbt --fidelity fast --out new
export csv capture --out new
export sigrok capture --out new.sr
export parquet capture --out new
export jls capture --out new.jls
export perfetto capture --out new.perfetto
export vcd capture --out new.vcd
export as vcd capture --out new.vcd
trace make --help
trace convert --help
trace show trace.wbt
sigrok-decoders
check capture
config
""".strip().splitlines()
WORKS = {"record", "run", "import", "view", "info", "analyze", "report", "sim", "bridge", "sump", "export", "check", "rigs", "meters"}
"""Commands whose first call above has to succeed: without their work, the test would see none of their sockets."""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Make a folder with captures, a waveform, a plan and a trace, and a rig that plays a stream whenever it is recorded."""
    folder = tmp_path_factory.mktemp("sockets")
    made = Bench(folder)
    for name in ("capture", "other"):
        builder = Builder(folder / name)
        builder.power(0, 0.66)
        builder.phase(1, MS, 9 * MS, "reads")
        for n in range(40):
            builder.command(2 * MS + n * 100_000, 50_000)
        builder.write(12 * MS)
    (folder / "waveform.csv").write_text("Time (s),Current (A),Voltage (V)\n" + "".join(f"{k / 1000},0.5,3.3\n" for k in range(1000)))
    (folder / "plan.toml").write_text('[[step]]\nname = "idle"\nidle_s = 0.01\n')
    yield made
    made.end()


def leaves(command: object, names: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if not hasattr(command, "list_commands"):
        yield names
        return
    context = command.make_context("wattbell", [], resilient_parsing=True)  # type: ignore[attr-defined]
    for name in command.list_commands(context):
        yield from leaves(command.get_command(context, name), (*names, name))


def test_every_command_has_a_line() -> None:
    missing = [names for names in leaves(get_command(app)) if not any(line.split()[: len(names)] == list(names) for line in COMMANDS)]
    assert not missing


def bound(log: str) -> set[str]:
    """Return the sockets in strace's lines that others can reach, such as ``TCP 127.0.0.1`` or ``Unix @name``. PIDs read PID."""
    found, bound_before = set(), set()
    for line in log.splitlines():
        if opened := re.search(r"^(\d+) +socket\(.*\) += (\d+)", line):
            bound_before.discard((opened[1], opened[2]))  # the number of a closed socket
        if not (match := re.search(r"^(\d+) +(bind|listen)\((\d+), (.*)\) += 0", line)):
            continue
        process, call, descriptor, what = match.groups()
        if call == "listen":
            if (process, descriptor) not in bound_before:
                found.add("any free port")
            continue
        bound_before.add((process, descriptor))
        if inet := re.search(r'inet_addr\("([^"]+)"\)', what):
            found.add(f"TCP {inet[1]}")
        elif inet6 := re.search(r'inet_pton\(AF_INET6, "([^"]+)"', what):
            found.add(f"TCP {inet6[1]}")
        elif unix := re.search(r'sun_path=(@?)"([^"]*)"', what):
            found.add("Unix " + re.sub(r"\d+", "PID", unix[1] + unix[2]))
        elif "AF_NETLINK" not in what:
            found.add(what)
    return found


def answered(said: str) -> None:
    """Wait until the view answers: its loop then runs and handles an interrupt."""
    address = re.search(r"http://(127\.0\.0\.1):(\d+)/", said)
    assert address
    with socket.create_connection((address[1], int(address[2])), timeout=PATIENCE_S) as client:
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert client.recv(1)


def run(bench: Bench, words: list[str]) -> tuple[int, str, str]:
    """Return the exit code, the output, and the log of strace."""
    log = bench.folder / "strace.txt"
    command = [
        "strace",
        "-f",
        "-qq",
        "--seccomp-bpf",
        "-e",
        "trace=socket,bind,listen",
        "-o",
        str(log),
        sys.executable,
        "-m",
        "wattbell",
        *words,
    ]
    process = subprocess.Popen(
        command, cwd=bench.folder, env=bench.env, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    said = ""
    assert process.stdout is not None
    for line in process.stdout:
        said += line
        if UNTIL in line:
            if words[0] == "view":
                answered(said)
            (child,) = (int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split())
            os.kill(child, signal.SIGINT)
    return process.wait(), said, log.read_text()


def allowed(command: str) -> str:
    """Return the text under "where" in the rows of a command."""
    return " ".join(row[1] for row in LISTENERS if re.search(rf"`wattbell {command}[ `]", row[0]))


@pytest.mark.parametrize("line", COMMANDS)
def test_no_socket_that_the_threats_do_not_name(bench: Bench, line: str) -> None:
    words = line.split()
    if "trace.wbt" in words and not (bench.folder / "trace.wbt").exists():
        (bench.folder / "trace.wbt").write_bytes(encode([rail(0, 3.3, 0.5), end(5e6)]))
    if words[:2] in (["sim", "start"], ["sim", "replay"], ["run", "plan.toml"]):
        needs.built(virtual.built(), "make sim rtl")
    if "FEED1" in words:
        bench.end()
        shutil.rmtree(bench.folder / "runtime", ignore_errors=True)
        stream = b"".join(maker.stream(50))
        bench.feeder(stream, *(["--rate", str(len(stream) / 30)] if words[0] == "view" else []))
    code, said, log = run(bench, words)
    for path in bench.folder.glob("new*"):
        shutil.rmtree(path, ignore_errors=True)
        path.unlink(missing_ok=True)
    assert "Traceback" not in said
    if words[0] in WORKS and "--scheduler" not in words:
        assert code == 0 or UNTIL in said, said
    command = " ".join(words[:2]) if words[0] in ("sim", "results", "export", "trace") else words[0]
    for bound_to in bound(log):
        assert f"`{bound_to}`" in allowed(command), f"{bound_to} is not in docs/threats.md for this command"
    if words[0] in ("bridge", "view"):
        assert bound(log) == {"TCP 127.0.0.1"}, "or this test sees nothing"


OPENS = """
import socket
for family, address in ((2, ("127.0.0.1", 0)), (10, ("::1", 0)), (1, "\\0wattbell-x.77"), (1, "file")):
    s = socket.socket(family)
    s.bind(address)
    s.listen()
socket.socket(2, 2).bind(("0.0.0.0", 0))
socket.socket().listen()
"""


def test_a_socket_is_seen(tmp_path: Path) -> None:
    """A program opens one socket of each kind."""
    log = tmp_path / "log"
    command = [*STRACE, "-o", str(log), sys.executable, "-c", OPENS]
    subprocess.run(command, check=True, cwd=tmp_path)
    assert bound(log.read_text()) == {"TCP 127.0.0.1", "TCP ::1", "Unix @wattbell-x.PID", "Unix file", "TCP 0.0.0.0", "any free port"}
