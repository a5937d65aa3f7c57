"""A drive against a lab's requirements, in OpenHTF: ``python openhtf_station.py intel-660p-1tb records``."""

import sys
from pathlib import Path

import openhtf
from openhtf.output.callbacks.json_factory import OutputToJSON
from wattbell.adapters.openhtf_phases import station_plug, suite_phase, verdict_phase
from wattbell.adapters.station import StationSetup


def main(profile: str, records: Path, requirements: str) -> int:
    plug = station_plug(StationSetup(virtual=profile), records / "runs")
    test = openhtf.Test(
        suite_phase(plug, "quick", ["idle", "idle-wake-up"]), verdict_phase(plug, [requirements]), test_name="incoming inspection"
    )
    records.mkdir(parents=True, exist_ok=True)
    test.add_output_callbacks(OutputToJSON(str(records / "{dut_id}.json"), indent=1))
    return 0 if test.execute(test_start=lambda: profile) else 1


if __name__ == "__main__":
    lab = Path(__file__).with_name("lab.toml")
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else str(lab)))
