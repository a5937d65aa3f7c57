"""Every requirement of the documents that a rig at the connector could check has a row: judged, or not measured with a reason.

The list was written by hand from a page of facts on the documents of NVM Express and OCP.
"""

from __future__ import annotations

import pytest
from wattbell.requirements.files import load, set_names
from wattbell.requirements.measurands import MEASURANDS

JUDGED = {
    # OCP: power, times after enable, command timeouts, declared temperatures, latency monitor
    *("ocp/PCM-1", "ocp/PCM-3", "ocp/PWR-6", "ocp/PWR-7", "ocp/TTR-1", "ocp/TTR-2", "ocp/CTO-1", "ocp/CTO-3", "ocp/CTO-3-rate"),
    *("ocp/TTHROTTLE-9", "ocp/TTHROTTLE-10", "ocp/LATENCY-MONITOR", "ocp/LATENCY-MONITOR-latency", "ocp/LATENCY-MONITOR-stamp"),
    # NVMe: MP, IDLP, ACTP, latencies, transitions, APST's timers, the last operational state's MP
    *("declared/MP", "declared/MP-idle", "declared/IDLP", "declared/ACTP", "declared/ENLAT", "declared/EXLAT"),
    *("nvme/TRANSITIONS", "nvme/APST-early", "nvme/APST-late", "nvme/LAST-STATE"),
    # the drive's own power meter: mean, maximum, count, histogram, time stamp
    *("nvme/POWER-MEASUREMENT", "nvme/POWER-MEASUREMENT-largest", "nvme/POWER-MEASUREMENT-count", "nvme/POWER-MEASUREMENT-histogram"),
    *("nvme/POWER-MEASUREMENT-time", "nvme/METER-GENERATION"),
    # events of the power threshold; own work asleep
    *("nvme/POWER-THRESHOLD", "nvme/POWER-THRESHOLD-extra", "nvme/PERMISSIVE-OFF"),
    # the SMART log
    *("nvme/SMART-ENERGY", "nvme/SMART-POWER"),
    # shutdown
    *("nvme/RTD3E", "ocp/TTR-5"),
    # the slot
    *("form-factor/M2-LOW", "form-factor/M2-HIGH", "form-factor/M2-SLOT-POWER"),
}
"""Rows that a measurand judges."""
OTHERS = {
    *("ocp/PCM-2", "ocp/PWR-4", "ocp/PWR-5", "ocp/TTR-20", "ocp/CTO-2", "ocp/TTHROTTLE-2", "ocp/TTHROTTLE-5"),
    *("ocp/TTHROTTLE-7", "ocp/LPWR-1", "nvme/HCTM", "nvme/POWER-LIMIT"),
    *("nvme/VOLTAGE-MEASUREMENT", "nvme/POWER-LOSS"),
    *("nvme/RTD3R", "form-factor/M2-PEAK-CURRENT"),
}
"""Rows that may still be without a measurand. One that gets one may stay here."""
ROWS = {f"{name}/{one.id}": one for name in set_names() for one in load(name).requirement}


@pytest.mark.parametrize("name", sorted(JUDGED | OTHERS))
def test_a_requirement_has_a_row(name: str) -> None:
    row = ROWS[name]
    if row.measurand:
        assert row.measurand in MEASURANDS and row.limit is not None and not row.not_measured
    else:
        assert name in OTHERS, "it was judged"
        assert len(row.not_measured.split()) >= 5, "a reason that a reader can act on"
    assert row.text and row.clause and row.title
