"""Properties of the host computer that change figures: its processors, their clocks, where fio may run, and the kernel's options.

Read from sysfs and procfs (Documentation/admin-guide/pm/cpufreq.rst, intel_pstate.rst, kernel-parameters.txt of the Linux kernel).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

POLICIES = "devices/system/cpu/cpufreq"
_MATTERS = re.compile(
    r"(nvme(_core)?\.|pcie_|pci=|intel_idle\.|intel_pstate|amd_pstate|processor\.max_cstate|idle=|isolcpus|nohz_full|"
    r"rcu_nocbs|irqaffinity|iommu|intel_iommu|amd_iommu|mitigations|maxcpus|nosmt)"
)
"""Options of the kernel that change how fast commands come back, or how deep drive and link may sleep."""


def about_host(sys: Path = Path("/sys"), proc: Path = Path("/proc")) -> Mapping[str, object]:
    """Return ``conditions.computer``; properties that the machine does not report are left out."""
    found = {
        "cpu": _model(proc),
        "cpus": os.cpu_count(),
        "governor": _by_policy(sys, "scaling_governor"),
        "frequency_driver": _by_policy(sys, "scaling_driver"),
        "turbo": _turbo(sys),
        "fio_may_run_on": ranges(os.sched_getaffinity(0)),
        "kernel_options": _options(proc),
        "aspm_policy": _chosen(_read(sys / "module/pcie_aspm/parameters/policy")),
        "nvme_poll_queues": _read(sys / "module/nvme/parameters/poll_queues"),
    }
    return {name: value for name, value in found.items() if value not in (None, "", [])}


def policies(sys: Path = Path("/sys")) -> list[Path]:
    """Folders of the frequency policies, in order."""
    found = {path.name.removeprefix("policy"): path for path in (sys / POLICIES).glob("policy[0-9]*")}
    return [found[number] for number in sorted(filter(str.isdigit, found), key=int)]


def ranges(numbers: Iterable[int]) -> str:
    """``0-3, 8``, as the kernel writes lists of processors."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in parts)


def _by_policy(sys: Path, name: str) -> str:
    """The value, or where policies differ each with its policies: ``performance (policy 0-3), powersave (policy 4)``."""
    found: dict[str, list[int]] = {}
    for path in policies(sys):
        value = _read(path / name)
        if value:
            found.setdefault(value, []).append(int(path.name.removeprefix("policy")))
    if len(found) == 1:
        return next(iter(found))
    return ", ".join(f"{value} (policy {ranges(which)})" for value, which in found.items())


def _turbo(sys: Path) -> str:
    cpu = sys / "devices/system/cpu"
    intel, other = _read(cpu / "intel_pstate/no_turbo"), _read(cpu / "cpufreq/boost")
    if intel in ("0", "1"):
        return "off" if intel == "1" else "on"
    return {"0": "off", "1": "on"}.get(other, "")


def _model(proc: Path) -> str:
    found = re.search(r"^(?:model name|Model|Hardware)\s*:\s*(.+)$", _read(proc / "cpuinfo"), re.MULTILINE)
    return found[1].strip() if found else ""


def _options(proc: Path) -> list[str]:
    return [word for word in _read(proc / "cmdline").split() if _MATTERS.match(word)]


def _chosen(text: str) -> str:
    found = re.search(r"\[(\S+)\]", text)
    return found[1] if found else text


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


__all__ = ["about_host", "policies", "ranges"]
