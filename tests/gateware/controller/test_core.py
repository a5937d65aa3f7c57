"""The soft core: small programs on its buses, and the built firmware. Only the register file of the instrument is present."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gateware import harness
from tests.gateware.controller.core_top import CoreTop, wrapper

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("halved", [False, True], ids=["sync", "half"])
def test_core_and_firmware(halved):
    done = subprocess.run(["make", "-s", "-C", ROOT / "firmware", f"PY={sys.executable}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + done.stdout
    top, name = CoreTop(halved=halved), "controller_core_half" if halved else "controller_core"
    harness.run(
        top,
        name=name,
        test_module="cocotb_core",
        here=__file__,
        wrapper=wrapper(top, name),
        env={"FIRMWARE": os.fspath(ROOT / "build" / "firmware" / "firmware.hex")},
    )
