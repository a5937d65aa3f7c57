"""Makes the wheels that are used without a checkout: ``wattbell``, pure; ``wattbell_sim`` with the simulator; ``wattbell_ssd``, the SSD
model for other test benches; ``cocotbext_nvmetap``, the monitor for cocotb. Beside them it puts the lists of the packages that the first
two need, with versions and hashes.

    python -m tools.wheels [--out build/wheels]

It packs what ``make sim rtl`` has built and builds nothing itself; ``make wheels`` does both. The platform in the names of the second
and third wheel is the oldest for which auditwheel finds all symbols that their programs and libraries need.

The extension of ``wattbell_ssd`` is packed in the same way, by setuptools, and not by maturin: cargo has built it with the workspace, and
maturin would be a second build tool to download that builds it again.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from wattbell import __version__

from tools.requirements import FOLDER
from tools.wheel_notices import model_notices, notices

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "spec", "host", "gateware")
"""Sources of the wheel ``wattbell``."""
PROGRAMS = ("wattbell-rig", "wattbell-ssd")
LIBRARIES = ("lib_controller.so", "lib_x4_word.so")
MODEL_EXTENSION = "libwattbell_ssd_python.so"
MODEL_FOR_C = "libwattbell_ssd_c.so"
_ANY_LINUX = "linux_x86_64"
FOR_WHEELS = ("base", "cluster", "openhtf", "perfetto", "ppk2", "quarch", "robot", "scpi")
"""Lists in requirements/ for the wheels: their own packages, and the extras of a user."""


class WheelError(Exception):
    """A wheel cannot be made; the message says what to do."""


def version() -> str:
    """Version of all wheels but the monitor's."""
    return __version__


def pure_wheel(out: Path) -> Path:
    """Wheel ``wattbell`` in the folder `out`."""
    with tempfile.TemporaryDirectory() as work:
        # A copy: setuptools leaves its work beside its output, and takes leftovers of an earlier build.
        source = Path(work) / "source"
        source.mkdir()
        for name in SOURCES:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
            else:
                shutil.copy(ROOT / name, source / name)
        return _build(source, out)


def monitor_wheel(out: Path) -> Path:
    """Wheel ``cocotbext_nvmetap`` in the folder `out`; its version is its own."""
    with tempfile.TemporaryDirectory() as work:
        source = Path(work) / "source"
        shutil.copytree(ROOT / "cocotbext", source, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "build", "examples"))
        shutil.copy(ROOT / "LICENSE", source)
        return _build(source, out)


def simulator_wheel(out: Path) -> Path:
    """Build the wheel ``wattbell_sim`` in the folder `out`, from programs for this machine's kind of processor."""
    with tempfile.TemporaryDirectory() as work:
        source = Path(work) / "source"
        _stage(source)
        tag = _oldest_platform(_build(source, Path(work), _ANY_LINUX))
        return _build(source, out, tag)


def model_wheel(out: Path) -> Path:
    """Build the wheel ``wattbell_ssd`` in the folder `out`, from libraries for this machine's kind of processor."""
    with tempfile.TemporaryDirectory() as work:
        source = Path(work) / "source"
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "build", "src", "Cargo.toml")
        shutil.copytree(ROOT / "sim" / "python", source, ignore=ignored)
        shutil.copy(ROOT / "LICENSE", source)
        (source / "THIRD-PARTY-LICENSES.txt").write_text(model_notices(ROOT / "sim"), encoding="utf-8")
        (source / "VERSION").write_text(version())
        package, built = source / "wattbell_ssd", ROOT / "sim" / "target" / "release"
        _strip(built / MODEL_FOR_C, package / "c")
        _copy([ROOT / "sim" / "capi" / "include" / "wattbell_ssd.h"], package / "c")
        _strip(built / MODEL_EXTENSION, package)
        (package / MODEL_EXTENSION).rename(package / "_model.abi3.so")
        tag = _oldest_platform(_build(source, Path(work), _ANY_LINUX))
        return _build(source, out, tag)


def _stage(source: Path) -> None:
    """The package's folder with all that goes into it; programs and libraries without their symbols."""
    shutil.copytree(ROOT / "sim" / "wheel", source, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "build"))
    shutil.copy(ROOT / "LICENSE", source)
    (source / "THIRD-PARTY-LICENSES.txt").write_text(notices(ROOT / "sim"), encoding="utf-8")
    (source / "VERSION").write_text(version())
    package = source / "wattbell_sim"
    for name in PROGRAMS:
        _strip(ROOT / "sim" / "target" / "release" / name, package / "bin")
    for name in LIBRARIES:
        _strip(ROOT / "build" / "rtl" / name, package / "rtl")
    _copy([ROOT / "build" / "rtl" / "firmware.bin"], package / "rtl")
    _copy((ROOT / "sim" / "profiles").glob("*.toml"), package / "profiles")
    _copy((ROOT / "sim" / "plans").iterdir(), package / "plans")
    _copy([ROOT / "hw" / "afe" / "model.toml"], package / "afe")


def _copy(files: Iterable[Path], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        if not file.is_file():
            raise WheelError(f"{file} is missing: run `make sim rtl`")
        shutil.copy(file, folder)


def _strip(file: Path, folder: Path) -> None:
    _copy([file], folder)
    subprocess.run(["strip", "--strip-unneeded", folder / file.name], check=True)


def _build(source: Path, out: Path, platform: str | None = None) -> Path:
    """Build the project in `source` with the setuptools of this Python, as nothing is to be downloaded."""
    with tempfile.TemporaryDirectory() as work:
        shutil.copytree(source, Path(work) / "source")
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "wheel", "--no-deps", "--no-build-isolation"]
        command += ["--no-index", "-w", f"{work}/wheel", f"{work}/source"]
        if platform:
            command.append(f"--config-settings=--build-option=--plat-name={platform}")
        subprocess.run(command, check=True)
        (wheel,) = Path(work, "wheel").glob("*.whl")
        out.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(wheel, out))


def _oldest_platform(wheel: Path) -> str:
    """Tag of the oldest platform that has all that the wheel's programs and libraries need, such as ``manylinux_2_34_x86_64``."""
    command = [sys.executable, "-m", "auditwheel", "show", "--json", str(wheel)]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    tag = str(told["overall_tag"])
    if not tag.startswith("manylinux"):
        raise WheelError(f"no manylinux platform has what the simulator needs; auditwheel says: {json.dumps(told)}")
    return tag


def main() -> int:
    """Make all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "wheels", help="folder to write (default: build/wheels)")
    out = parser.parse_args().out
    for old in (*out.glob("wattbell*.whl"), *out.glob("cocotbext*.whl")):
        old.unlink()
    try:
        for wheel in (pure_wheel(out), simulator_wheel(out), model_wheel(out), monitor_wheel(out)):
            print(f"{wheel} ({wheel.stat().st_size / 1e6:.1f} MB)")
        _copy((FOLDER / f"{name}.txt" for name in FOR_WHEELS), out / FOLDER.name)
    except WheelError as error:
        print(f"wheels: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
