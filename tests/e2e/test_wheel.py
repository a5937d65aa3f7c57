"""The wheel, built and used outside the checkout: all that needs no simulator works, with every file of the package in it.

The venv is fresh, but for the packages of pyproject.toml: those of the venv that runs the tests are put on its path, below the wheel.
What is looked for here is what the wheel lacks; that the ranges can be installed, `make setup` shows.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from wattbell.capture import CaptureWriter

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "spec", "host", "gateware")


@dataclass(frozen=True)
class Installed:
    """The venv, and a folder to work in."""

    python: Path
    folder: Path
    wheel: Path

    def __call__(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return self.run("-m", "wattbell", *arguments)

    def run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Python there, without anything of the checkout in its environment."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "WATTBELL"))}
        kept |= {"XDG_DATA_HOME": str(self.folder / "data"), "PATH": os.defpath}
        return subprocess.run([self.python, *arguments], cwd=self.folder, env=kept, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"  # a copy: setuptools leaves its work beside what it builds, and takes what an earlier build left
    source.mkdir()
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy(ROOT / name, source / name)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", folder, source], check=True, timeout=300)
    (wheel,) = folder.glob("*.whl")
    shutil.rmtree(source)
    place = folder / "venv"
    venv.create(place, symlinks=True)
    python = place / "bin" / "python"
    subprocess.run([*pip, "--python", python, "install", "--no-deps", "--no-index", wheel], check=True, timeout=300)
    (own,) = place.glob("lib/python*/site-packages")
    # A path file adds the folder, but reads no path files in it: the checkout, which is installed there as editable, stays out.
    (own / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    work = folder / "work"
    work.mkdir()
    return Installed(python, work, wheel)


@pytest.fixture(scope="module")
def capture(installed: Installed) -> Path:
    path = installed.folder / "capture"
    with CaptureWriter(path, journal=False, lba_size_bytes=512) as writer:
        ticks = np.arange(1_000_000, 1_000_000 + 100_000 * 500, 100_000)
        writer.add_rows(
            "commands",
            {
                "doorbell_tick": ticks,
                "fetch_tick": ticks + 500,
                "cqe_tick": ticks + 80_000,
                "opcode": [2] * 500,
                "qid": [1] * 500,
                "blocks": [8] * 500,
            },
        )
        for k in range(20):
            volts, amps = np.full(300, 3.3, np.float32), np.full(300, 0.5, np.float32)
            writer.add_rail(k * 3_000_000, 10_000, volts, amps, energy_raw=(k + 1) * 300 * 165_000 * 1_000_000, adc_index=(k + 1) * 300)
    return path


def test_every_file_of_the_package_is_in_it(installed: Installed) -> None:
    with zipfile.ZipFile(installed.wheel) as file:
        inside = set(file.namelist())
    listed = subprocess.run(
        ["git", "ls-files", "host/wattbell", "spec/wattbell_spec"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    wanted = {path.partition("/")[2] for path in listed.stdout.split() if (ROOT / path).is_file()}
    assert not wanted - inside, "not in the wheel: see [tool.setuptools.package-data]"
    assert not [name for name in inside if name.startswith(("tests", "tools"))]


def test_it_is_the_wheel_that_runs(installed: Installed) -> None:
    where = installed.run("-c", "import wattbell, wattbell_spec; print(wattbell.__file__, wattbell_spec.__file__)")
    assert where.returncode == 0 and str(ROOT) not in where.stdout and where.stdout.count(str(installed.python.parents[1])) == 2


def test_a_capture_in_python(installed: Installed, capture: Path) -> None:
    code = (
        "import wattbell; c = wattbell.open('capture'); r = c.rail(points=10); c.plot().save('plot.png');"
        "print(c.commands.collect().height, round(r['power_w'].mean(), 4), c.figures['commands']['all']['count'])"
    )
    done = installed.run("-c", code)
    assert done.stdout.split() == ["500", "1.65", "500"], done.stderr
    assert (installed.folder / "plot.png").stat().st_size > 10_000


def test_figures_report_and_exports(installed: Installed, capture: Path) -> None:
    analyzed = installed("analyze", "capture", "--json")
    assert json.loads(analyzed.stdout)["commands"]["all"]["count"] == 500, analyzed.stderr
    for arguments in (
        ("check", "capture"),
        ("report", "capture", "--out", "report"),
        ("export", "csv", "capture", "--out", "csv"),
        ("suites", "anandtech-2018"),
        ("meters",),
    ):
        done = installed(*arguments)
        assert done.returncode == 0, done.stderr
    assert (installed.folder / "report" / "report.html").stat().st_size > 20_000
    decoders = Path(installed("sigrok-decoders").stdout.strip())
    assert (decoders / "nvme" / "pd.py").is_file() and installed.python.parents[1] in decoders.parents


@pytest.mark.parametrize("command", ["view", "record", "import"])
def test_what_looks_and_records_is_there(installed: Installed, command: str) -> None:
    done = installed(command, "--help")
    assert done.returncode == 0 and "Usage" in done.stdout, done.stderr


@pytest.mark.parametrize("arguments", [("sim", "profiles"), ("run", "quick", "--virtual", "intel-660p-1tb", "--out", "out")])
def test_what_needs_the_simulator_says_so_in_one_line(installed: Installed, arguments: tuple[str, ...]) -> None:
    done = installed(*arguments)
    assert done.returncode == 1 and not done.stdout
    line = " ".join(done.stderr.split())  # the console wraps it
    assert line.startswith("error: This installation has no simulator") and "make sim rtl" in line, line
