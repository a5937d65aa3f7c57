"""`wattbell bridge`: clients' lines reach a rig's control port one at a time."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys

import pytest
from typer.testing import CliRunner
from wattbell.cli.app import app
from wattbell.errors import WattbellError

from tests.clients.terminal import Bridged, Terminal


def connect(bridged: Bridged) -> socket.socket:
    return socket.create_connection(bridged.address, timeout=10)


def line(client: socket.socket) -> str:
    """The next line from the bridge."""
    got = b""
    while not got.endswith(b"\n"):
        piece = client.recv(1)
        assert piece, got
        got += piece
    return got.decode().rstrip("\n")


def rest(client: socket.socket) -> str:
    """Everything still to come."""
    got = b""
    while piece := client.recv(4096):
        got += piece
    return got.decode()


def test_questions_and_answers_in_pieces_of_any_size(terminal: Terminal, bridged: Bridged) -> None:
    with connect(bridged) as client:
        client.sendall(b"*IDN?;SYST:VERS?\nMEAS:VO")
        assert line(client).endswith(";1999.0")
        assert b"MEAS" not in terminal.seen, "only whole lines go to the rig"
        client.sendall(b"LT?\n" + b"*ESE?\n" * 2000)
        assert float(line(client)) == pytest.approx(3.3, abs=1e-3)
        assert [line(client) for _ in range(2000)] == ["0"] * 2000


def test_a_client_that_stops_sending_gets_its_answers(terminal: Terminal, bridged: Bridged) -> None:
    with connect(bridged) as client:
        client.sendall(b"MEAS:CURR?\n*ESE 7\n*ESE?\nSYST:ERR")
        client.shutdown(socket.SHUT_WR)
        current, mask = rest(client).splitlines()
    assert float(current) == pytest.approx(0.5, abs=1e-3)
    assert mask == "7"
    assert b"SYST:ERR" not in terminal.seen, "half a line is no line"


def test_a_second_client_is_told_and_the_first_goes_on(terminal: Terminal, bridged: Bridged) -> None:
    with connect(bridged) as first:
        first.sendall(b"*ES")
        with connect(bridged) as second:
            second.sendall(b"*ESE 200\n")
            who = f"127.0.0.1:{first.getsockname()[1]}"
            assert rest(second) == f'-200,"Execution error;{who} has the rig, and it takes one client at a time"\n'
        first.sendall(b"E?\n")
        assert line(first) == "0"
    assert b"200" not in terminal.seen


def test_answers_of_a_client_that_is_gone_reach_nobody(terminal: Terminal, bridged: Bridged) -> None:
    for mask in range(20):
        with connect(bridged) as gone:
            gone.sendall(b"MEAS:VOLT?\n" * 10 + b"*ESE %d\n*IDN?\n*ESE" % mask)
        with connect(bridged) as client:
            client.sendall(b"*ESE?\n")
            assert line(client) == str(mask), "what was sent was carried out; what was asked was not answered to another"


def test_a_rig_that_hangs_is_said_once_and_the_next_client_is_served(
    terminal: Terminal, bridged: Bridged, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wattbell.bridge.session.PATIENCE_S", 0.5)
    terminal.dumb = True
    with connect(bridged) as client:
        client.sendall(b"*IDN?\n")
        client.shutdown(socket.SHUT_WR)
        assert rest(client).endswith('does not answer; unplug it and try again"\n')
    assert b"\x03" in terminal.seen, "device clear was tried"
    terminal.dumb = False
    with connect(bridged) as client:
        client.sendall(b"*ESE?\n")
        assert line(client) == "0"
    assert "".join(bridged.said).count("does not answer") == 1


def test_an_unplugged_rig_is_one_clear_error(terminal: Terminal, bridged: Bridged) -> None:
    with connect(bridged) as client:
        client.sendall(b"*ESE?\n")
        assert line(client) == "0"
        terminal.unplug()
        said = rest(client)
        assert said.startswith('-241,"Hardware missing;the rig on /dev/pts/') and said.endswith('plug it in again"\n')
    with connect(bridged) as client:
        assert rest(client).startswith(f'-241,"Hardware missing;There is no port {terminal.control}')
    assert bridged.is_alive()
    assert "".join(bridged.said).count("was lost") == 1


def test_the_port_is_free_between_clients(terminal: Terminal, bridged: Bridged) -> None:
    from wattbell.rig import Scpi

    scpi = Scpi(terminal.control)
    with connect(bridged) as client:
        assert "cannot be opened" in rest(client)
    assert scpi.query("*ESE?") == "0"
    scpi.close()
    with connect(bridged) as client:
        client.sendall(b"*ESE?\n")
        assert line(client) == "0"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--listen", "here"], "IP address and a port"),
        (["--listen", "127.0.0.1:70000"], "between 0 and 65535"),
        (["--listen", "192.0.2.1:0"], "cannot be listened on"),
        (["--rig", "NONE"], "No rig NONE"),
    ],
)
def test_what_it_cannot_do_is_one_line(terminal: Terminal, words: list[str], says: str) -> None:
    done = CliRunner().invoke(app, ["bridge", "--rig", f"{terminal.control},{terminal.control}", *words])
    assert isinstance(done.exception, WattbellError)
    assert says in str(done.exception)
    assert "\n" not in str(done.exception)


def test_the_program(terminal: Terminal) -> None:
    words = ["--rig", f"{terminal.control},{terminal.control}", "--listen", "127.0.0.1:0", "--json"]
    command = [sys.executable, "-m", "wattbell", "bridge", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        told = json.loads(process.stdout.readline())
        assert told["host"] == "127.0.0.1"
        with socket.create_connection((told["host"], told["port"]), timeout=10) as client:
            client.sendall(b"SYST:VERS?\n")
            assert line(client) == "1999.0"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert process.returncode == 0
    assert "until Ctrl-C" in said and "Traceback" not in said
    assert "password" not in said


def test_a_megabyte_without_a_newline_keeps_nobody_out(terminal: Terminal, bridged: Bridged) -> None:
    with connect(bridged) as client:
        client.sendall(b"*" * 1_000_000)
        client.shutdown(socket.SHUT_WR)
        assert rest(client) == ""
    with connect(bridged) as client:
        client.sendall(b"*" * 1_000_000 + b"\nSYST:ERR?;ERR?\n")
        said = line(client)
    assert said.startswith('-363,"') and said.endswith(';0,"No error"') and said.count(",") == 2, "one error for one line"
    assert len(terminal.seen) < 10_000, "the rig is spared what it would refuse"
