"""The wheels, built and used outside the checkout. Without the simulator's wheel, only commands that need the simulator fail; with
it all work.

The venv is fresh, apart from the packages of pyproject.toml: the packages of the tests' venv are on its path, below the wheel. The tests
look for parts missing in the wheel; `make setup` shows that the version ranges can be installed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from wattbell.capture import CaptureWriter

from tests.e2e.virtual import MARKS
from tests.patience import PATIENCE_S
from tools import wheels

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Installed:
    """The venv, and a folder to work in."""

    python: Path
    folder: Path
    wheel: Path

    def __call__(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return self.run("-m", "wattbell", *arguments)

    def run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run Python there, without anything of the checkout in its environment."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "WATTBELL"))}
        kept |= {"XDG_DATA_HOME": str(self.folder / "data"), "PATH": os.defpath}
        return subprocess.run([self.python, *arguments], cwd=self.folder, env=kept, capture_output=True, text=True, timeout=PATIENCE_S)


def install(folder: Path, *made: Path) -> Installed:
    """Make a venv in `folder` with these wheels; the first is the package's."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    place = folder / "venv"
    venv.create(place, symlinks=True)
    python = place / "bin" / "python"
    subprocess.run([*pip, "--python", python, "install", "--no-deps", "--no-index", *made], check=True, timeout=PATIENCE_S)
    (own,) = place.glob("lib/python*/site-packages")
    # A path file adds the folder, but reads no path files in it: the checkout, which is installed there as editable, stays out.
    (own / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    work = folder / "work"
    work.mkdir()
    return Installed(python, work, made[0])


@pytest.fixture(scope="module")
def pure(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheels.pure_wheel(tmp_path_factory.mktemp("pure"))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, pure: Path) -> Installed:
    return install(tmp_path_factory.mktemp("wheel"), pure)


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
    line = refused(installed(*arguments))
    assert line.startswith("error: This installation has no simulator") and "make sim rtl" in line, line
    assert f"wattbell_sim-{wheels.version()}-" in line and "make wheels" in line, line


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """Return the error on one line; the console wraps it."""
    assert done.returncode == 1 and not done.stdout, (done.stdout, done.stderr)
    return " ".join(done.stderr.split())


def test_what_an_extra_is_missing_comes_from_the_wheels_file(installed: Installed) -> None:
    lacking = installed.run(
        "-c", "import sys; sys.modules['ppk2_api'] = None; from wattbell.extras import install_command as i; print(i('ppk2'))"
    )
    assert lacking.stdout == f"{installed.python} -m pip install '{installed.wheel}[ppk2]'\n", lacking.stderr


NEEDED = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"}
"""Libraries that every Linux with this glibc has."""


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory, pure: Path) -> Installed:
    folder = tmp_path_factory.mktemp("simulator")
    return install(folder, pure, wheels.simulator_wheel(folder))


def package(simulated: Installed) -> Path:
    """Return the folder of the installed ``wattbell_sim``."""
    (folder,) = simulated.python.parents[1].glob("lib/python*/site-packages/wattbell_sim")
    return folder


class TestSimulator:
    """The wheel with the simulator, from the output of ``make sim rtl`` in the checkout."""

    pytestmark = MARKS

    def test_every_profile_and_plan_is_in_it(self, simulated: Installed) -> None:
        command = ["git", "ls-files", "sim/profiles", "sim/plans", "hw/afe/model.toml"]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
        assert len(listed) > 20
        for name in listed:
            assert (package(simulated) / Path(name).parent.name / Path(name).name).read_bytes() == (ROOT / name).read_bytes()

    def test_it_has_the_licences_of_what_others_wrote(self, simulated: Installed) -> None:
        (file,) = package(simulated).parent.glob("wattbell_sim-*.dist-info/licenses/THIRD-PARTY-LICENSES.txt")
        text = file.read_text()
        crates = subprocess.run(["strings", ROOT / "sim/target/release/wattbell-rig"], capture_output=True, text=True, check=True).stdout
        linked = set(re.findall(r"registry/src/[^/]+/([a-z0-9_-]+)-[0-9.]+[^/]*/src", crates))
        assert len(linked) > 5
        for work in (*linked, "verilator", "VexRiscv", "picolibc", "libstdc++", "GNU LESSER GENERAL PUBLIC LICENSE"):
            assert work in text, work

    def test_no_wheel_has_pip_look_for_the_other(self, simulated: Installed) -> None:
        site = package(simulated).parent
        (theirs,), (ours,) = site.glob("wattbell_sim-*.dist-info/METADATA"), site.glob("wattbell-*.dist-info/METADATA")
        assert "Requires-Dist" not in theirs.read_text()
        names = re.findall(r"(?m)^Requires-Dist: (wattbell\S*)(.*)$", ours.read_text())
        assert all('extra == "dev"' in marker for _, marker in names), names

    def test_programs_and_libraries_run_on_every_machine_of_the_wheels_tag(self, simulated: Installed) -> None:
        (wheel,) = simulated.folder.parent.glob("wattbell_sim-*.whl")
        tag = re.fullmatch(r"wattbell_sim-[0-9.]+-py3-none-manylinux_2_(\d+)_x86_64", wheel.stem)
        assert tag, wheel
        files = [*(package(simulated) / "bin").iterdir(), *(package(simulated) / "rtl").glob("*.so")]
        assert {file.name for file in files} == {"wattbell-rig", "wattbell-ssd", "lib_controller.so", "lib_x4_word.so"}
        for file in files:
            dynamic = subprocess.run(["objdump", "-p", file], capture_output=True, text=True, check=True).stdout
            assert set(re.findall(r"NEEDED +(\S+)", dynamic)) <= NEEDED, file.name
            assert max(int(minor) for minor in re.findall(r"GLIBC_2\.(\d+)", dynamic)) <= int(tag[1]), file.name
            symbols = subprocess.run(["nm", file], capture_output=True, text=True, check=False)
            assert "no symbols" in symbols.stderr, f"{file.name} is not stripped"

    def test_the_libraries_are_for_any_x86_64(self, simulated: Installed) -> None:
        """The libraries use no register that only some processors have; the programs choose theirs when they run."""
        for file in (package(simulated) / "rtl").glob("*.so"):
            code = subprocess.run(["objdump", "-d", "--no-show-raw-insn", file], capture_output=True, text=True, check=True).stdout
            assert "%xmm" in code and not re.search(r"%[yz]mm|%k[1-7]|\bv?pclmul|\b(?:andn|bextr|blsr|mulx|shlx|popcnt|tzcnt)\b", code), (
                file.name
            )

    def test_a_suite_without_any_option_is_fast_and_named_after_itself(self, simulated: Installed) -> None:
        done = simulated("run", "quick", "--virtual", "intel-660p-1tb")
        assert done.returncode == 0, done.stderr
        results = json.loads((simulated.folder / "quick-intel-660p-1tb" / "results.json").read_text())
        assert results["conditions"]["fidelity"] == "fast" and "virtual drive and rig, fast fidelity" in " ".join(done.stdout.split())
        assert all(score["value"]["value"] > 0 for test in results["tests"] for score in test["scores"]) and len(results["tests"]) == 9
        assert "quick-intel-660p-1tb/results.json" in done.stdout
        again = refused(simulated("run", "quick", "--virtual", "intel-660p-1tb"))
        assert "quick-intel-660p-1tb" in again and "--force" in again

    def test_a_job_file_runs_on_the_gateware(self, simulated: Installed) -> None:
        plans = package(simulated) / "plans"
        job = (plans / "burst-random-read.fio").read_text().replace("size=16g", "size=16g\nnumber_ios=50")
        (simulated.folder / "short.fio").write_text(job)
        done = simulated("run", "short.fio", "--virtual", "intel-660p-1tb", "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["commands"]["all"]["count"] == 50
        assert json.loads((simulated.folder / "short-intel-660p-1tb" / "meta.json").read_text())["conditions"]["fidelity"] == "rtl"

    def test_the_plans_are_found_by_name(self, simulated: Installed) -> None:
        done = simulated("run", "demo.toml", "--virtual", "intel-660p-1tb", "--dry-run", "--json")
        assert done.returncode == 0 and "burst random read" in done.stdout, done.stderr
        assert "none.toml is not a file" in refused_as_usage(simulated("run", "none.toml", "--virtual", "intel-660p-1tb"))

    def test_the_programs_start_by_their_names(self, simulated: Installed) -> None:
        for name in ("wattbell-rig", "wattbell-ssd"):
            done = subprocess.run([simulated.python.with_name(name), "--version"], capture_output=True, text=True, check=True)
            assert done.stdout.startswith(f"{name} ")

    def test_another_version_is_refused_by_both(self, simulated: Installed, other_version: None) -> None:
        said = refused(simulated("run", "quick", "--virtual", "intel-660p-1tb", "--out", "other"))
        assert "of version 9.9 (wattbell_sim)" in said and f"wattbell of {wheels.version()}" in said, said
        started = subprocess.run([simulated.python.with_name("wattbell-ssd"), "--version"], capture_output=True, text=True, check=False)
        assert started.returncode == 1 and not started.stdout
        assert started.stderr.splitlines() == [
            f"error: wattbell is of version {wheels.version()}, and wattbell_sim of 9.9: `pip install` the two wheels of one version."
        ]


def refused_as_usage(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 2, done.stderr
    return " ".join(done.stderr.split())


@pytest.fixture
def other_version(simulated: Installed) -> Iterator[None]:
    """Let the installed simulator report version 9.9."""
    (metadata,) = package(simulated).parent.glob("wattbell_sim-*.dist-info/METADATA")
    before = metadata.read_text()
    metadata.write_text(re.sub(r"(?m)^Version: .*", "Version: 9.9", before))
    yield
    metadata.write_text(before)
