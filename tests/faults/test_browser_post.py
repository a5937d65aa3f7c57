"""A web page in a real browser attacks the listeners of this machine: nothing that it sends reaches a rig."""

from __future__ import annotations

import http.server
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import needs
from tests.clients.terminal import Bridged, Terminal
from tests.firmware.rig import Rig, make
from tests.patience import PATIENCE_S

playwright = needs.library("playwright.sync_api")
pytestmark = pytest.mark.needs("chromium")

PAGE = """<!doctype html><title>attack</title><form id="form" method="post" enctype="text/plain" target="frame"><input name="a"></form>
<iframe name="frame"></iframe><script>
async function attack(port) {
    const plain = `http://127.0.0.1:${port}/`, body = "\\nOUTP OFF\\nCAL:ZERO\\n*ESE 77\\n";
    const tries = [
        fetch(plain, { method: "POST", mode: "no-cors", body }),
        fetch(plain, { method: "POST", mode: "no-cors", body: new Blob(["x".repeat(100000) + body]) }),
        fetch(plain + "%0aOUTP%20OFF%0a", { mode: "no-cors" }),
        fetch(plain, { method: "PUT", body }),
        fetch(`https://127.0.0.1:${port}/`, { method: "POST", mode: "no-cors", body }),
        new Promise((done) => { const ws = new WebSocket(`ws://127.0.0.1:${port}/`); ws.onclose = done; }),
    ];
    navigator.sendBeacon(plain, body);
    const form = document.getElementById("form");
    form.action = plain;
    form.elements.a.value = body;
    form.submit();
    await Promise.allSettled(tries);
}
</script>"""


class Page(http.server.BaseHTTPRequestHandler):
    """A foreign site: its origin is another port."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(PAGE.encode())

    def log_message(self, *_: object) -> None:
        pass


Attack = Callable[[int], None]


@pytest.fixture(scope="module")
def attack() -> Iterator[Attack]:
    """Give ``attack(port)``: the page sends everything it can to that port of this machine, and reports its end."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=needs.program("chromium"), args=["--no-sandbox"])

        def run(port: int) -> None:
            page = browser.new_page()
            page.goto(f"http://127.0.0.1:{server.server_port}/")
            page.evaluate(f"attack({port})")
            page.close()

        yield run
        browser.close()
    server.shutdown()
    server.server_close()


@pytest.fixture
def terminal() -> Terminal:
    """A rig with its power on."""
    make("native")
    return Terminal(Rig(core=False))


def test_the_attack_is_one(attack: Attack) -> None:
    """A listener that takes any bytes gets SCPI from the page, by POST and by a form, and the beginning of TLS."""
    heard: list[bytes] = []

    def listen() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            client.settimeout(0.5)
            said = b""
            try:
                while piece := client.recv(65536):
                    said += piece
            except TimeoutError:
                pass
            heard.append(said)
            client.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=listen, daemon=True).start()
        attack(listener.getsockname()[1])
    assert sum(said.startswith(b"POST ") and b"\nOUTP OFF\n" in said.replace(b"\r", b"") for said in heard) >= 2
    assert any(said.startswith(b"\x16\x03") for said in heard)
    assert any(b"Upgrade: websocket" in said for said in heard)


@pytest.mark.parametrize("token", [None, "T" * 32])
def test_nothing_of_it_reaches_the_rig(attack: Attack, terminal: Terminal, token: str | None) -> None:
    """The rig is free, and in some cases every client may switch the power."""
    bridged = Bridged(terminal.control, token, allow_power=True)
    attack(bridged.address[1])
    with socket.create_connection(bridged.address, timeout=PATIENCE_S) as client:
        client.sendall((f"{token}\n" if token else "").encode() + b"*ESE?;:OUTP?\n")
        assert client.makefile().readline() == "0;1\n", "the next client is served, and nothing has changed"
    bridged.stop()
    assert terminal.seen.startswith(b"*ESE?;:OUTP?\n"), "the rig has heard nobody before"
    said = "\n".join(bridged.said)
    assert said.count("HTTP") >= 4 and said.count("TLS") >= 1


def test_the_view_answers_a_page_of_another_site_with_nothing(attack: Attack, tmp_path: Path) -> None:
    """The port is open to all, the path is secret: the answers reveal nothing, and only GET is understood."""
    from wattbell.view.server import ViewServer

    server = ViewServer([])
    threading.Thread(target=server.serve, daemon=True).start()
    attack(server.port)
    for request in ("GET / HTTP/1.1", "POST / HTTP/1.1", f"POST /{server.token}/api/captures HTTP/1.1", "GET /../ HTTP/1.1"):
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as client:
            client.sendall(f"{request}\r\nHost: 127.0.0.1\r\nOrigin: http://evil.example\r\nConnection: close\r\n\r\n".encode())
            head, _, body = client.makefile("rb").read().partition(b"\r\n\r\n")
        assert int(head.split()[1]) in (404, 405), request
        assert b"access-control-allow" not in head.lower()
        assert server.token.encode() not in body
        if body.startswith(b"{"):
            assert set(json.loads(body)) == {"error"}
    server.stop()
