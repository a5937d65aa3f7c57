"""docs/threats.md against the code: every listener is a row, every row has who, what and a test, and every test exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LISTENS = re.compile(
    r"\.listen\(\d*\)|create_server\(|start_server\(|start_unix_server\(|serve_forever\(|LocalCluster|HTTPServer|TCPServer|UDPServer|openpty\("
    r"|import uvicorn|UnixListener|TcpListener|UdpSocket|UnixDatagram|posix_openpt|Server::new\(|--socket-path|hostfwd"
    r"|\.bind\(\("
)
"""Calls in Python and in Rust that open a port or a terminal to others."""
OURS = ("host", "sim", "gateware", "hw", "tools", "spec", "studies")


def rows(text: str, heading: str) -> list[list[str]]:
    """Cells of the rows of the first table behind a heading."""
    lines = text[text.index(f"## {heading}") :].splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith("|---"))
    found = []
    for line in lines[begin + 1 :]:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return found


PAGE = (ROOT / "docs/threats.md").read_text(encoding="utf-8")
LISTENERS = rows(PAGE, "What listens")
READERS = rows(PAGE, "What a stranger's file can do")


def listening_files() -> set[str]:
    """Source files of ours in which something listens."""
    found = set()
    for folder in OURS:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix not in (".py", ".rs", ".cpp") or {"target", "build", "node_modules"} & set(path.parts):
                continue
            if LISTENS.search(path.read_text(encoding="utf-8", errors="replace")):
                found.add(path.relative_to(ROOT).as_posix())
    return found


def named(cell: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", cell))


def test_the_tables_are_whole() -> None:
    assert len(LISTENERS) >= 12 and len(READERS) >= 15
    assert {len(row) for row in LISTENERS} == {6} and {len(row) for row in READERS} == {4}
    assert all(all(row) for row in (*LISTENERS, *READERS)), "who can reach it, the most they can do, and the test stand in each row"


@pytest.mark.parametrize("row", [*LISTENERS, *READERS], ids=lambda row: re.sub(r"\W+", " ", row[0])[:40])
def test_each_row_names_tests_that_exist(row: list[str]) -> None:
    tests = named(row[-1])
    assert tests
    for name in tests:
        assert re.fullmatch(r"tests/[\w/]+/test_\w+\.py", name), name
        assert "def test_" in (ROOT / name).read_text(encoding="utf-8"), name


def test_every_listener_of_the_code_is_a_row() -> None:
    in_rows = {name for row in LISTENERS for name in named(row[4])}
    assert all((ROOT / name).is_file() for name in in_rows)
    unnamed = listening_files() - in_rows
    assert not unnamed, f"these listen: give each a row in docs/threats.md, or add the file to the row of its listener: {unnamed}"
    assert {"host/wattbell/serve/bridge/server.py", "host/wattbell/view/server.py", "sim/rig/src/status.rs"} <= listening_files()


@pytest.mark.parametrize(
    "line", ["s.listen()", "asyncio.start_server(f, port=1)", "with LocalCluster() as c:", "UnixListener::bind(&path)?", "os.openpty()"]
)
def test_a_new_listener_is_noticed(line: str) -> None:
    assert LISTENS.search(line)
