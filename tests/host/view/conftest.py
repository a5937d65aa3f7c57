"""A capture with something of everything, and a client of the server that shows it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.exceptions import StarletteDeprecationWarning
from wattbell.view.server import make_app
from wattbell.view.shown import Shown
from wattbell.wire.decode import Gap
from wattbell_spec.wire import EventType, Kind, LinkState

from tests.host.conftest import MS, Builder

with warnings.catch_warnings():
    warnings.simplefilter("ignore", StarletteDeprecationWarning)  # of httpx, which the project has
    from starlette.testclient import TestClient

TOKEN = "T" * 32
MARKUP = "<script>alert(1)</script>"
Ask = Callable[..., Any]


def build(path: Path) -> Builder:
    """1 s: a phase of reads, an idle time, a phase of writes with a hole in the rail; link states and CLKREQ#."""
    made = Builder(path)
    made.power(0, 1.0)
    made.phase(1, 10 * MS, 210 * MS, f"reads {MARKUP}")
    for i in range(150):
        made.command(11 * MS + i * MS, 200_000 + 1_000 * i, blocks=8, slba=i * 8)
    made.power(300 * MS, 0.1)
    made.events += [(300 * MS, EventType.CLKREQ, 1, 0), (301 * MS, EventType.LINK, int(LinkState.L1_2), 0)]
    made.events += [(590 * MS, EventType.CLKREQ, 0, 0), (591 * MS, EventType.LINK, int(LinkState.L0), 0)]
    made.power(600 * MS, 2.0)
    made.phase(2, 600 * MS, 900 * MS, "writes")
    for i in range(100):
        made.command(601 * MS + i * 2 * MS, 3 * MS, blocks=256, opcode=1, status=0x281 if i == 7 else 0)
    made.hole = (700 * MS, 712 * MS)
    made.gaps.append(Gap(Kind.COMMANDS, 850 * MS, 851 * MS, 3, MARKUP))
    return made


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    path = tmp_path_factory.mktemp("view") / "capture"
    build(path).write(1000 * MS, lba=4096)
    return Shown(path)


@pytest.fixture(scope="module")
def client(shown: Shown) -> TestClient:
    return TestClient(make_app([shown], TOKEN), base_url="http://127.0.0.1:5000")


@pytest.fixture(scope="module")
def ask(client: TestClient) -> Ask:
    """``ask("rail", points=10)``: the JSON of a question about the first capture."""

    def question(name: str, code: int = 200, **parameters: Any) -> Any:
        answer = client.get(f"/{TOKEN}/api/0/{name}", params=parameters)
        assert answer.status_code == code, answer.text[:200]
        return answer.json()

    return question
