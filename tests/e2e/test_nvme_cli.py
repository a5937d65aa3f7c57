"""The modelled drive's features as seen by Linux' NVMe driver, nvme-cli and fio in a guest: one boot, many checks."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROFILE = ROOT / "sim/profiles/intel-660p-1tb.toml"
OFFER = {
    "namespaces": 8,
    "namespace_management": True,
    "hmb_preferred_mib": 64,
    "hmb_minimum_mib": 8,
    "hctm_minimum_c": 30,
    "hctm_maximum_c": 80,
    "erase_ms": 1500,
    "self_test_short_s": 1,
}
LBAS = 2000409264  # the profile's blocks of 512 bytes

pytestmark = [pytest.mark.xdist_group("real-linux")]


def write_profile(path: Path) -> Path:
    """Write the 660p's profile with this test's `[offer]`: a drive that requests host memory and allows namespaces to be created."""
    lines = [f'{key} = {{ value = {json.dumps(value)}, source = "assumed: test" }}' for key, value in OFFER.items()]
    text = re.sub(r"^\[offer\]\n(?:[^\[\n].*\n|\n)*", "", PROFILE.read_text(), flags=re.M)
    path.write_text(text + "\n[offer]\n" + "\n".join(lines) + "\n")
    return path


class Answers:
    """Files and exit codes of the guest's script (sim/guest/jobs/nvme-cli)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.codes = {n: int(c) for n, c in (x.split() for x in self.text("codes").splitlines())}

    def text(self, name: str) -> str:
        return (self.folder / f"script-{name}.txt").read_text()

    def json(self, name: str) -> Any:
        return json.loads((self.folder / f"script-{name}.json").read_text())


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    folder = tmp_path_factory.mktemp("nvme-cli")
    profile = write_profile(folder / "offer.toml")
    command = [
        sys.executable,
        ROOT / "sim/guest/run.py",
        "--drive",
        "vfio",
        "--profile",
        profile,
        "--smp",
        "1",
        "--jobs",
        ROOT / "sim/guest/jobs/nvme-cli",
        "--out",
        folder / "run",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return Answers(folder / "run")


def keeps_the_memory(guest: Answers) -> bool:
    """Return whether this kernel reserves the Host Memory Buffer feature to itself: 6.12.107 did, 6.12.117 does not."""
    return "Permission denied" in guest.text("hmb-off")


def test_only_what_must_fail_fails(guest: Answers) -> None:
    failed = {name for name, code in guest.codes.items() if code != 0} - ({"hmb-off"} if keeps_the_memory(guest) else set())
    assert failed == {"compare-other", "read-uncor", "hctm-bad", "read-sanitizing", "selftest-twice"}
    assert len(guest.codes) == 42


def test_refusals_say_why(guest: Answers) -> None:
    assert "Compare Failure" in guest.text("compare-other")
    assert "Unrecovered Read Error" in guest.text("read-uncor")
    assert "Invalid Field" in guest.text("hctm-bad")
    assert "Sanitize In Progress" in guest.text("read-sanitizing")
    entry = guest.json("error-log")["errors"][0]
    assert (entry["status_field"] & 0x7FF, entry["lba"], entry["nsid"], entry["sqid"]) == (0x285, 8, 1, 1)


def test_identify_declares_it(guest: Answers) -> None:
    found = guest.json("id-ctrl")
    want = {
        "hmpre": 64 * 256,
        "hmmin": 8 * 256,
        "nn": 8,
        "oacs": 0x1A,
        "oncs": 0x5F,
        "sanicap": 0x20000007,
        "hctma": 1,
        "mntmt": 303,
        "mxtmt": 353,
        "lpa": 6,
        "vwc": 7,
    }
    assert {key: found[key] for key in want} == want
    namespace = guest.json("id-ns")
    assert (namespace["nsze"], namespace["flbas"]) == (LBAS, 0)
    assert [form["ds"] for form in namespace["lbafs"]] == [9, 12]
    (effects,) = guest.json("effects")
    admin = {int(re.sub(r"\D*(\d+).*", r"\1", name)): bits for name, bits in effects["admin_cmd_set"].items()}
    assert {opcode: admin[opcode] for opcode in (0x80, 0x84, 0x0D)} == {0x80: 0x10007, 0x84: 0x20003, 0x0D: 9}
    assert len(effects["io_cmd_set"]) == 7


def test_the_kernel_lends_its_memory_and_takes_it_back(guest: Answers) -> None:
    log = guest.text("dmesg")
    assert "allocated 64 MiB host memory buffer" in log
    assert "EHM): Enabled" in guest.text("hmb")
    assert re.search(r"value: ?0x0*1\b", guest.text("hmb"))
    assert re.search(r"value: ?0x0*1\b" if keeps_the_memory(guest) else r"value: ?0+\b", guest.text("hmb-none"))
    assert re.search(r"value: ?0x0*3\b", guest.text("hmb-again"))  # enabled, memory returned


def test_the_drives_clock_is_the_kernels(guest: Answers) -> None:
    dump = re.findall(r"^0000: ((?:[0-9a-f]{2} ?){8})", guest.text("timestamp"), flags=re.M)
    assert dump, guest.text("timestamp")
    seconds = int.from_bytes(bytes.fromhex(dump[0].replace(" ", ""))[:6], "little") / 1000
    assert abs(seconds - float(guest.text("now"))) < 5


def test_smart_counts_and_warns(guest: Answers) -> None:
    health = guest.json("smart")
    assert health["media_errors"] == 1
    assert health["host_write_commands"] == 1
    assert health["host_read_commands"] >= 3
    assert health["num_err_log_entries"] == 2
    assert 295 < health["temperature"] < 320  # kelvin: a drive at room temperature, just started
    assert health["critical_warning"] == 2  # the threshold was set to 290
    assert "323 K" in guest.text("hctm") and "328 K" in guest.text("hctm")


def test_a_self_test_ends_well(guest: Answers) -> None:
    assert "Self-test In Progress" in guest.text("selftest-twice")
    log = guest.json("selftest-log")
    assert log["Current Device Self-Test Operation"] == 0
    first, second = log["List of Valid Reports"][:2]
    assert (first["Self test result"], first["Self test code"], first["Namespace Identifier"]) == (0, 1, 1)
    assert second["Self test result"] == 15  # not used


def test_a_format_changes_the_block_size(guest: Answers) -> None:
    namespace = guest.json("id-ns-4096")
    assert (namespace["nsze"], namespace["flbas"]) == (LBAS // 8, 1)
    assert guest.text("4096").split() == [str(LBAS), "4096"]


def test_sanitize_runs_and_ends(guest: Answers) -> None:
    (running,), (done,) = (list(guest.json(name).values()) for name in ("sanitizing", "sanitized"))
    assert running["sstat"]["status"].startswith("(2)")
    assert 0 < running["sprog"] < 65535
    assert done["sstat"]["status"].startswith("(1)")
    assert (done["sprog"], done["sstat"]["global_erased"]) == (65535, 1)


def test_namespaces_made_by_the_host(guest: Answers) -> None:
    found = {d["NameSpace"]: (d["PhysicalSize"], d["SectorSize"]) for d in guest.json("list")["Devices"]}
    assert found == {1: (0x100000 * 512, 512), 2: (0x10000 * 4096, 4096)}
    left = LBAS * 512 - 0x100000 * 512 - 0x10000 * 4096
    assert int(guest.json("id-ctrl-2")["unvmcap"]) == left
