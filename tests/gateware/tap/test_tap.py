"""The tap for other designs: its ports, its files, and its records against traffic and truth of another author."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from wattbell_gateware import tap
from wattbell_spec import wire

from tests.gateware import harness


@pytest.mark.parametrize(("width", "batches"), [(64, 25), pytest.param(128, 25, marks=pytest.mark.long)])
def test_strange_traffic_gives_right_records(width: int, batches: int) -> None:
    env = {"WIDTH": str(width), "SEED": "3", "BATCHES": str(batches)}
    harness.run(tap.FlatTap(width, small=True), name=f"tap_{width}", test_module="cocotb_tap", here=__file__, env=env)


def test_the_files_have_a_port_for_each_field_and_no_packed_ones(tmp_path: Path) -> None:
    tap.generate(tmp_path, ["wattbell_tap_64_small"], "1.2.3")
    text = (tmp_path / "wattbell_tap_64_small.v").read_text()
    found = re.search(r"^module wattbell_tap_64_small\((.*?)\);", text, re.M | re.S)
    assert found is not None
    ports = {name.strip() for name in found.group(1).split(",")}
    assert {f"command_{field.name}" for field in wire.COMMAND if field.name != "cqe_offset"} | {"command_cqe_tick"} < ports
    assert {f"event_{field.name}" for field in wire.EVENT} < ports
    own = text[found.start() :].partition("endmodule")[0]
    widest = max(int(bits) + 1 for bits in re.findall(r"^  (?:input|output) \[(\d+):0\]", own, re.M))
    assert widest == 64, "no port is a packed structure"
    core = yaml.safe_load((tmp_path / "wattbell_tap.core").read_text().removeprefix("CAPI=2:\n"))
    assert core["name"] == "wattbell:nvme:tap:1.2.3"
    assert {name for target in core["targets"].values() for name in target["filesets"]} == core["filesets"].keys() == tap.VARIANTS.keys()
    assert {target["toplevel"] for target in core["targets"].values()} == tap.VARIANTS.keys()
