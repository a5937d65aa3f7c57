"""`wattbell bridge`: clients' lines reach a rig's control port one at a time."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner
from wattbell.cli.app import app
from wattbell.errors import WattbellError
from wattbell.serve.bridge import Bridge
from wattbell.serve.bridge.entrance import WRONG_TOKEN

from tests.clients.terminal import Bridged, Terminal
from tests.patience import PATIENCE_S


@pytest.fixture(params=["token", "no token"])
def bridged(terminal: Terminal, request: pytest.FixtureRequest) -> Iterator[Bridged]:
    """Start a bridge that asks for a token, and a bridge that does not."""
    one = Bridged(terminal.control, "T" * 32 if request.param == "token" else None)
    yield one
    one.stop()


def connect(bridged: Bridged) -> socket.socket:
    """Return a client that has sent the token."""
    client = socket.create_connection(bridged.address, timeout=PATIENCE_S)
    if bridged.token:
        client.sendall(bridged.token.encode() + b"\n")
    return client


def line(client: socket.socket) -> str:
    """Return the next line from the bridge."""
    got = b""
    while not got.endswith(b"\n"):
        piece = client.recv(1)
        assert piece, got
        got += piece
    return got.decode().rstrip("\n")


def rest(client: socket.socket) -> str:
    """Return everything still to come."""
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
        first.sendall(b"*ESE?\n*ES")
        assert line(first) == "0"
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
    monkeypatch.setattr("wattbell.serve.bridge.session.PATIENCE_S", 0.5)
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
        client.sendall(b"*ESE?\n")
        assert rest(client).startswith(f'-241,"Hardware missing;There is no port {terminal.control}')
    assert bridged.is_alive()
    assert "".join(bridged.said).count("was lost") == 1


def test_the_port_is_free_between_clients(terminal: Terminal, bridged: Bridged) -> None:
    from wattbell.rig import ScpiConnection

    scpi = ScpiConnection(terminal.control)
    with connect(bridged) as client:
        client.sendall(b"*ESE?\n")
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
        with socket.create_connection((told["host"], told["port"]), timeout=PATIENCE_S) as client:
            client.sendall(told["token"].encode() + b"\nSYST:VERS?\n")
            assert line(client) == "1999.0"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert process.returncode == 0
    assert "until Ctrl-C" in said and "Traceback" not in said
    assert told["token"] in said, "who types reads it there"


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


@pytest.mark.parametrize("first", [b"", b"\n", b"t" * 32 + b"\n", b"T" * 31 + b"\n", b"*IDN?\n", b"OUTP OFF\n", b"T" * 5000, b"\xff" * 10])
def test_without_the_token_the_rig_hears_nothing(terminal: Terminal, first: bytes) -> None:
    bridged = Bridged(terminal.control, "T" * 32, allow_power=True)
    with socket.create_connection(bridged.address, timeout=PATIENCE_S) as client:
        client.sendall(first)
        client.shutdown(socket.SHUT_WR)
        said = rest(client)
    bridged.stop()
    assert said in ("", f"{WRONG_TOKEN}\n")
    assert (said != "") == (b"\n" in first or len(first) > 512), "who sends a wrong line is told; others are closed"
    assert terminal.seen == b""


@pytest.mark.parametrize(
    "first",
    [
        b"GET / HTTP/1.1\r\n",
        b"POST /x HTTP/1.1\r\nHost: a\r\n\r\nOUTP OFF\n",
        b"GET /\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"ANY /a HTTP/1.0\n",
        b"\x16\x03\x01\x02\x00\x01\n",
        b"\x80\x2e\x01\x00\x02",
        b"\x00\x01\x00\x00\x21\x12\xa4\x42\nOUTP OFF\n",
    ],
)
def test_the_first_line_of_another_protocol_ends_it(terminal: Terminal, first: bytes) -> None:
    """HTTP/0.9 to 2, TLS 1.x, SSL 2, STUN (of WebRTC): closed without an answer, even without a token."""
    bridged = Bridged(terminal.control, None, allow_power=True)
    for piece in (len(first), 1):
        with socket.create_connection(bridged.address, timeout=PATIENCE_S) as client:
            with contextlib.suppress(ConnectionError):
                for at in range(0, len(first), piece):
                    client.sendall(first[at : at + piece])
            with contextlib.suppress(ConnectionError):
                assert client.recv(100) == b""
    bridged.stop()
    assert terminal.seen == b""


def test_clients_that_say_nothing_keep_nobody_out(terminal: Terminal, bridged: Bridged) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(socket.create_connection(bridged.address, timeout=PATIENCE_S))
        client = stack.enter_context(connect(bridged))
        client.sendall(b"*ESE?\n")
        assert line(client) == "0"


def test_power_and_calibration_only_where_they_are_allowed(terminal: Terminal, bridged: Bridged) -> None:
    with connect(bridged) as client:
        client.sendall(b"*ESE 5\n*ESE?\nOUTP OFF;*ESE 6\n*ESE 7\n")
        assert rest(client) == '5\n-203,"Command protected;start wattbell bridge with --allow-power to move power or calibration"\n'
    assert b"OUTP" not in terminal.seen
    with connect(bridged) as client:
        client.sendall(b"*ESE?;:OUTP?\n")
        assert line(client) == "5;1", "nothing behind it was carried out"
    bridged.stop()  # its session may still have the port
    allowed = Bridged(terminal.control, bridged.token, allow_power=True)
    with connect(allowed) as client:
        client.sendall(b"OUTP OFF;*OPC?;:OUTP?\n")
        assert line(client) == "1;0"
    allowed.stop()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--no-token"], "every user of this machine can change the rig's measurements"),
        (["--no-token", "--allow-power"], "every user of this machine can move the drive's power and the calibration"),
        (["--no-token", "--listen", "0.0.0.0:0"], "everyone who reaches this address can change"),
        (["--listen", "0.0.0.0:0"], "as plain text; who reads it can change the rig's measurements"),
    ],
)
def test_what_it_opens_is_said(terminal: Terminal, words: list[str], says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bridge, "serve", lambda _: None)
    done = CliRunner().invoke(app, ["bridge", "--rig", f"{terminal.control},{terminal.control}", "--listen", "127.0.0.1:0", *words])
    assert says in " ".join(done.stderr.split())
