"""The server answers this user's browser alone, and lets the page load nothing from elsewhere."""

from __future__ import annotations

import socket
import threading
import urllib.error
import urllib.request

import pytest
from starlette.testclient import TestClient
from wattbell.errors import RigError
from wattbell.view.server import ViewServer
from wattbell.view.shown import Shown

from tests.host.view.conftest import TOKEN
from tests.patience import PATIENCE_S


@pytest.mark.parametrize("path", ["/", "/api/0/capture", f"/{TOKEN}x/", f"/{TOKEN[:-1]}/", "/static/uPlot.iife.js", "/licences"])
def test_without_the_token_there_is_nothing(client: TestClient, path: str) -> None:
    assert client.get(path, follow_redirects=False).status_code == 404


@pytest.mark.parametrize("host", ["example.org", "127.0.0.1.example.org:5000", "", "[::1]:5000"])
def test_a_name_that_somebody_pointed_at_this_computer_is_refused(client: TestClient, host: str) -> None:
    answer = client.get(f"/{TOKEN}/api/0/capture", headers={"host": host})
    assert answer.status_code == 403 and "127.0.0.1" in answer.json()["error"]


def test_the_page_may_load_nothing_from_elsewhere(client: TestClient) -> None:
    for path in ("", "static/uPlot.iife.js", "api/0/capture", "api/0/nothing"):
        headers = client.get(f"/{TOKEN}/{path}").headers
        assert headers["content-security-policy"].startswith("default-src 'self';")
        assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"


def test_page_library_and_licences_are_served(client: TestClient) -> None:
    page = client.get(f"/{TOKEN}/")
    assert page.headers["content-type"].startswith("text/html") and "<html" in page.text
    assert "uPlot" in client.get(f"/{TOKEN}/static/uPlot.iife.js").text
    assert client.get(f"/{TOKEN}/static/uPlot.min.css").headers["content-type"].startswith("text/css")
    text = client.get(f"/{TOKEN}/licences").text
    assert "uplot-python" in text and "Apache License" in text and "Leon Sorokin" in text


@pytest.mark.parametrize("name", ["../server.py", "..%2fserver.py", "%2e%2e/server.py", "/etc/passwd", "uPlot.iife.js/", "nothing.js", ""])
def test_no_other_file_is_served(client: TestClient, name: str) -> None:
    answer = client.get(f"/{TOKEN}/static/{name}")
    assert answer.status_code == 404 and "error" in answer.json()


@pytest.mark.parametrize("path", ["api/1/capture", "api/-1/capture", "api/x/capture", "api/²/capture", "api/0/nothing", "api/99999/rail"])
def test_what_is_not_there_is_said_in_a_line(client: TestClient, path: str) -> None:
    answer = client.get(f"/{TOKEN}/{path}")
    assert answer.status_code == 404 and "\n" not in answer.json()["error"]


@pytest.mark.parametrize("method", ["post", "put", "delete"])
def test_nothing_can_be_changed(client: TestClient, method: str) -> None:
    assert client.request(method, f"/{TOKEN}/api/0/capture").status_code == 405


def test_a_real_server_is_on_this_computer_alone_with_a_token_of_its_own(shown: Shown) -> None:
    server, other = ViewServer([shown]), ViewServer([shown])
    assert server.url.startswith(f"http://127.0.0.1:{server.port}/") and server.url.endswith("/")
    assert len(server.token) == 32 and server.token != other.token and server.port != other.port
    thread = threading.Thread(target=server.serve)
    thread.start()
    try:
        with urllib.request.urlopen(f"{server.url}api/captures", timeout=PATIENCE_S) as answer:
            assert answer.status == 200 and b"complete" in answer.read()
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://127.0.0.1:{server.port}/api/captures", timeout=PATIENCE_S)
    finally:
        server.stop()
        thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_a_port_that_is_taken_is_told(shown: Shown) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(RigError, match="choose another with --port"):
            ViewServer([shown], taken.getsockname()[1])
