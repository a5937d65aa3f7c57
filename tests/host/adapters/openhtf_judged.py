"""Judge a capture or a run in OpenHTF: ``openhtf_judged.py RECORDS REFERENCE FILE.toml...`` writes a record a file of requirements.

``--allow_unset_measurements`` is OpenHTF's own option.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import openhtf  # type: ignore[import-not-found, unused-ignore]
from openhtf.output.callbacks.json_factory import OutputToJSON  # type: ignore[import-not-found, unused-ignore]
from openhtf.util.configuration import CONF  # type: ignore[import-not-found, unused-ignore]
from wattbell.adapters.openhtf_phases import StationPlug, station_plug, verdict_phase
from wattbell.adapters.station import StationSetup


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("records", type=Path)
    parser.add_argument("reference")
    parser.add_argument("files", nargs="+")
    parser.add_argument("--allow_unset_measurements", action="store_true")
    given = parser.parse_args()
    CONF.load(allow_unset_measurements=given.allow_unset_measurements)
    plug = station_plug(StationSetup(virtual="intel-660p-1tb"), given.records / "runs")

    def add(rig: StationPlug) -> None:
        rig.runs.append(given.reference)

    for file in given.files:
        test = openhtf.Test(openhtf.plugs.plug(rig=plug)(add), verdict_phase(plug, [file]), test_name=Path(file).stem)
        test.add_output_callbacks(OutputToJSON(str(given.records / f"{Path(file).stem}.json")))
        test.execute(test_start=lambda: "X")


if __name__ == "__main__":
    main()
