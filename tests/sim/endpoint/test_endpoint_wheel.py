"""The SSD model from Python: the wheel's contents, its errors, its example."""

from __future__ import annotations

import os
import random
import re
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples" / "ssd-model"


def python(folder: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run Python with the package, and with nothing of the checkout."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | {"PYTHONPATH": str(folder)}
    return subprocess.run([sys.executable, *arguments], env=env, capture_output=True, text=True, timeout=PATIENCE_S)


@pytest.fixture(scope="module")
def ssd(ssd_folder: Path) -> ModuleType:
    sys.path.insert(0, str(ssd_folder))
    try:
        import wattbell_ssd
    finally:
        sys.path.remove(str(ssd_folder))
    return wattbell_ssd


def test_the_wheel_is_for_python_3_11_and_later_and_has_types_and_licences(ssd_wheel: Path) -> None:
    assert re.fullmatch(r"wattbell_ssd-[\d.]+-cp311-abi3-manylinux_2_\d+_x86_64\.whl", ssd_wheel.name), ssd_wheel.name
    with zipfile.ZipFile(ssd_wheel) as file:
        names = set(file.namelist())
        licences = next(name for name in names if name.endswith("THIRD-PARTY-LICENSES.txt"))
        assert b"For pyo3" in file.read(licences) or b"pyo3 " in file.read(licences)
    package = {name.partition("/")[2] for name in names if name.startswith("wattbell_ssd/")}
    assert package == {
        *("__init__.py", "__main__.py", "_model.abi3.so", "_model.pyi", "pcie.py", "py.typed"),
        *("c/libwattbell_ssd_c.so", "c/wattbell_ssd.h"),
    }


def test_the_stubs_are_the_module_s(ssd_folder: Path) -> None:
    done = python(ssd_folder, "-m", "mypy.stubtest", "wattbell_ssd._model")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("profile", ["samsung-980-pro", "toshiba-rc100"])
def test_the_example_reads_what_it_wrote(ssd_folder: Path, profile: str) -> None:
    done = python(ssd_folder, EXAMPLES / "read.py", profile)
    assert done.returncode == 0, done.stderr
    ready, identify, write, own, other = done.stdout.splitlines()
    assert re.fullmatch(r"ready after 12\d\.\d ms, .*", ready), "the profile says 120 ms"
    assert identify.startswith("identify: ") and profile.partition("-")[0] in identify.lower()
    latency_us = [float(re.findall(r"([\d.]+) us", line)[0]) for line in (write, own, other)]
    energy_uj = [float(re.findall(r"([\d.]+) uJ", line)[0]) for line in (write, own, other)]
    assert all(4 < us < 1000 for us in latency_us) and all(0.3 < uj / us < 9 for uj, us in zip(energy_uj, latency_us, strict=True))
    assert latency_us[2] > 30, "flash is read"


def test_profiles_are_those_of_the_checkout(ssd: ModuleType) -> None:
    files = {path.stem: path.read_text() for path in (ROOT / "sim" / "profiles").glob("*.toml") if path.stem != "common"}
    assert {name: ssd.profile_text(name) for name in ssd.profiles()} == files


def memory_read(address: int, words: int, enables: int = 0xFF) -> bytes:
    return struct.pack(">BBHHBBI", 0, 0, words, 0, 0, enables, address)


BAD = [
    (b"", "shorter than its header"),
    (bytes(11), "shorter than its header"),
    (b"\x40" + bytes(2) + b"\x01" + bytes(3) + b"\x0f" + bytes(4), "payload of 0 bytes where 4 belong"),
    (memory_read(0, 1, 0x0F) + bytes(4), "payload of 4 bytes where 0 belong"),
    (memory_read(0xFF8, 3), "crosses 4 KiB"),
    (memory_read(0, 1), "last byte enables"),
    (memory_read(0, 2, 0xF0), "byte enables"),
    (b"\x1f" + bytes(11), "no TLP"),
    (b"\x40" + bytes(2) + b"\x40" + bytes(3) + b"\xff" + bytes(4 + 256), "a payload of 256 bytes, and Max_Payload_Size is 128"),
]


@pytest.mark.parametrize(("tlp", "reason"), BAD)
def test_a_malformed_tlp_is_one_line_and_changes_nothing(ssd: ModuleType, tlp: bytes, reason: str) -> None:
    drive = ssd.Drive()
    with pytest.raises(ssd.DriveError, match=f"malformed TLP: .*{reason}") as caught:
        drive.push(5, tlp)
    assert "\n" not in str(caught.value) and drive.now_ps == 0 and drive.discarded_tlps == 0


def test_time_goes_forward_only(ssd: ModuleType) -> None:
    drive = ssd.Drive()
    assert drive.advance(1000) == [] and drive.now_ps == 1000
    for bad in (999, -1, 1 << 63, 1 << 64):
        for call in (drive.advance, lambda time_ps: drive.push(time_ps, memory_read(0, 1, 0x0F))):
            with pytest.raises(ssd.DriveError, match=f"time {bad} ps: "):
                call(bad)
    with pytest.raises(TypeError, match="a time is an int"):
        drive.advance(2000.0)
    assert drive.now_ps == 1000


def test_a_drive_that_does_not_exist_is_one_line(ssd: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("name = 'x'\nlink = 7\n")
    for profile, reason in (
        ("intel", "no profile `intel`.*intel-660p-1tb"),
        (f"{tmp_path}/no.toml", "No such file"),
        (f"{tmp_path}/bad.toml", "bad.toml"),
    ):
        with pytest.raises(ssd.DriveError, match=reason):
            ssd.Drive(profile)
    with pytest.raises(ssd.DriveError, match="condition `new`"):
        ssd.Drive(condition="new")
    with pytest.raises(ssd.DriveError, match="no profile `x`"):
        ssd.profile_text("x")


def test_noise_gives_errors_and_answers_and_nothing_worse(ssd: ModuleType) -> None:
    chance, drive, refused, answers = random.Random(4), ssd.Drive(), 0, 0
    kinds = (0x00, 0x20, 0x40, 0x60, 0x04, 0x44, 0x05, 0x02, 0x42, 0x0A, 0x4A, 0x30, 0x74, 0x01, 0x4C)
    for _k in range(30_000):
        header = bytearray(chance.randbytes(16))
        header[0], header[2] = chance.choice(kinds), header[2] & 0xF0
        header[3] = chance.choice((1, 1, 1, 2, 16, 32))
        header[7] = 0x0F if header[3] == 1 else 0xFF
        if chance.random() < 0.8:
            header[4:6], header[8:12] = (
                bytes(2),
                struct.pack(">I", chance.choice((0, 0x10, 4, 0x0100_0004, 0x0100_0010, 0x1000, 0x14, 0x24, 0x2000))),
            )
        tlp = bytes(header[: 16 if header[0] & 0x20 else 12]) + chance.randbytes(4 * header[3] if header[0] & 0x40 else 0)
        try:
            drive.push(drive.now_ps + chance.randrange(2_000_000), tlp + bytes(4) * (header[2] >> 7))
        except ssd.DriveError as error:
            assert "malformed TLP" in str(error)
            refused += 1
        answers += len(drive.advance(drive.now_ps + 1000))
    assert refused > 1000 and answers > 3000 and drive.discarded_tlps > 1000
