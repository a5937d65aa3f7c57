"""Parts of a package of somebody else: a made package with entry points adds a meter, a file format, an export and a kind of test.

The package lies in a folder on Python's path with the metadata that an installer writes, and the program runs as a process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from wattbell.capture import CaptureWriter
from wattbell.export import FORMATS as EXPORTS
from wattbell.formats import FORMATS
from wattbell.formats.text import read_head
from wattbell.meters.meter import KINDS as METERS
from wattbell.plugins import PartRegister
from wattbell.suites.kinds import KINDS

from tests.host.formats import files

PARTS = {
    "wattbell.meters": """
from wattbell.errors import RigError
from wattbell.meters.meter import meter

@meter("a shunt", "shunt:PORT")
def open_meter(rest):
    raise RigError(f"no shunt on {rest}")
""",
    "wattbell.formats": """
from wattbell.errors import CaptureError
from wattbell.formats.fileformat import file_format

@file_format("shunt-log", "Shunt log", lambda head: head.raw.startswith(b"SHUNT"))
def open_files(paths, options):
    raise CaptureError(f"{paths[0]} was read by the shunt's format")
""",
    "wattbell.exports": """
from wattbell.export import export_format

@export_format("count", "Count of commands", ".txt", "text/plain")
def write_count(capture, begin_tick, end_tick, path):
    path.write_text(f"{capture.commands.collect().height} commands in {end_tick - begin_tick} ticks")
    return path
""",
    "wattbell.kinds": """
from wattbell.suites.kind import KindOfTest, kind_of_test

@kind_of_test("shunted")
class ShuntedTest(KindOfTest):
    def score(self, source, test, sections, scale):
        raise AssertionError
""",
}


def package(folder: Path, parts: dict[str, str]) -> Path:
    """Write an installed package with a module for each group of entry points; return the folder for Python's path."""
    (folder / "shunts").mkdir(parents=True)
    (folder / "shunts" / "__init__.py").write_text("")
    about = folder / "shunts-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: shunts\nVersion: 1.0\n")
    points = []
    for group, text in parts.items():
        module = group.partition(".")[2]
        (folder / "shunts" / f"{module}.py").write_text(text)
        points.append(f"[{group}]\nshunt = shunts.{module}\n")
    (about / "entry_points.txt").write_text("\n".join(points))
    return folder


def wattbell(where: Path, *arguments: object, code: int = 0) -> str:
    path = os.pathsep.join([str(where), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "wattbell", *map(str, arguments)]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path, "COLUMNS": "160"}, capture_output=True, text=True)
    assert done.returncode == code, (done.stdout, done.stderr)
    return done.stdout if code == 0 else " ".join(done.stderr.split())


def test_a_package_adds_a_meter(tmp_path: Path) -> None:
    where = package(tmp_path / "site", PARTS)
    assert "a shunt" in [kind["what"] for kind in json.loads(wattbell(where, "meters", "--json"))]
    assert "no shunt on /dev/x" in wattbell(where, "record", "--meter", "shunt:/dev/x", "--out", tmp_path / "c", code=1)


def test_a_package_adds_a_format_of_files(tmp_path: Path) -> None:
    where = package(tmp_path / "site", PARTS)
    (tmp_path / "log.bin").write_bytes(b"SHUNT 1\n")
    said = wattbell(where, "import", tmp_path / "log.bin", "--out", tmp_path / "c", code=1)
    assert "was read by the shunt's format" in said


def test_a_package_adds_a_format_of_export(tmp_path: Path) -> None:
    where = package(tmp_path / "site", PARTS)
    with CaptureWriter(tmp_path / "capture", conditions={"virtual": True}, journal=False) as writer:
        writer.add_rows("commands", {"cqe_tick": [2000], "doorbell_tick": [1000], "opcode": [2], "blocks": [8]})
    wattbell(where, "export", "as", "count", tmp_path / "capture", "--out", tmp_path / "x.txt")
    assert (tmp_path / "x.txt").read_text() == "1 commands in 1001 ticks"
    refused = wattbell(where, "export", "as", "coutn", tmp_path / "capture", "--out", tmp_path / "y", code=2)
    assert "There is no format coutn" in refused and "Did you mean count?" in refused


def test_a_package_adds_a_kind_of_test(tmp_path: Path) -> None:
    where = package(tmp_path / "site", PARTS)
    text = "from wattbell.suites.kinds import KINDS; print(type(KINDS['shunted']).__module__, KINDS['shunted'].name)"
    done = subprocess.run(
        [sys.executable, "-c", text],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(where), *sys.path])},
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["shunts.kinds", "shunted"], done.stderr


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import nothing_of_this_name", "ModuleNotFoundError"),
        ("x = 1", "registers nothing"),
        (PARTS["wattbell.meters"].replace("shunt:PORT", "ppk2:PORT"), "two parts called ppk2"),
    ],
)
def test_a_package_that_cannot_be_loaded_is_named(tmp_path: Path, text: str, reason: str) -> None:
    said = wattbell(package(tmp_path / "site", {"wattbell.meters": text}), "meters", code=2)
    assert "entry point shunt (wattbell.meters) of shunts" in said and reason in said and "Traceback" not in said


def test_every_file_of_a_folder_that_registers_is_found() -> None:
    assert list(METERS) == ["file", "powersensor3", "ppk2", "quarch", "rig", "scpi"]
    assert {"csv", "jls", "otii", "ppk2", "ppk2-session", "quarch", "sigrok"} <= set(FORMATS) and len(FORMATS) == 10
    assert set(EXPORTS) == {"csv", "parquet", "jls", "sr", "perfetto", "vcd"}
    assert "burst" in KINDS and len(KINDS) == 15


def test_a_file_is_of_one_format_besides_the_general_ones(tmp_path: Path) -> None:
    """So the order in which formats are tried does not matter."""
    few = np.linspace(0.1, 0.4, 200)
    made = {
        "jls": files.jls(tmp_path / "a", 1_000_000, {"current": ("A", few), "voltage": ("V", few)}),
        "ppk2": files.ppk2(tmp_path / "b", few.tolist()),
        "quarch": files.quarch(tmp_path / "c", [3300] * 200, [1000] * 200),
        "powersensor3": files.powersensor3(tmp_path / "d", few, few),
        "otii": files.otii(tmp_path / "e", 0.001, few.tolist()),
        "joulescope-csv": files.statistics(tmp_path / "f", few.tolist(), few.tolist(), few.tolist()),
        "sigrok": files.sigrok(tmp_path / "g", "1 MHz", {"current": few}),
        "ppk2-session": files.ppk2_session(tmp_path / "h", few),
    }
    for name, path in made.items():
        head = read_head(path)
        assert [known.name for known in FORMATS.values() if known.matches(head) and not known.general] == [name]


def test_a_name_is_given_once() -> None:
    register: PartRegister[int] = PartRegister("wattbell.none", "wattbell.serve")  # whose files register nothing
    register.add("two", 2)
    register.add("one", 1)
    assert list(register.values()) == [1, 2], "in the order of the names"
    with pytest.raises(ValueError, match=r"wattbell\.none has two parts called one"):
        register.add("one", 2)
