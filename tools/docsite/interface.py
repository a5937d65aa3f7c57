"""The Python interfaces, out of their docstrings: directives of Sphinx for everything public of `wattbell` and of `cocotbext.nvmetap`."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

import wattbell
from wattbell import api, errors
from wattbell.analysis import result


def reference() -> str:
    """Return the sections of the page."""
    lines = [*section("Open a capture", "wattbell", wattbell.__all__, below=errors.WattbellError.__name__)]
    lines += section("Pictures and times", "wattbell.api", [name for name in api.__all__ if name not in wattbell.__all__])
    lines += section("Bounds of a capture", "wattbell.api.span", ["Bounds"])
    kinds = [name for name, of in vars(errors).items() if isinstance(of, type) and of.__module__ == errors.__name__]
    lines += section("Errors", "wattbell.errors", kinds)
    lines += section("A figure", "wattbell.measure.figure", ["Figure"])
    typed = [name for name, of in vars(result).items() if isinstance(of, type) and of.__module__ == result.__name__]
    lines += section("The result of an analysis", "wattbell.analysis.result", [name for name in typed if not name.startswith("_")])
    return "\n".join(lines)


MONITOR = {
    "Monitor and observer": ("nvmetap", ("Monitor", "LinkObserver", "Command", "Doubt")),
    "Sources of TLPs": ("nvmetap", ("TlpSource", "CallSource", "PcieLinkSource", "Direction", "play_trace")),
    "Rules": ("nvmetap", ("Checker", "Rule", "Violation")),
    "Power": ("nvmetap", ("SupplyRail", "watch_rail")),
    "Results in files": ("nvmetap", ("write_perfetto", "TraceWriter")),
    "A capture of Wattbell": ("nvmetap.capture", ("write_capture",)),
    "Coverage": ("nvmetap.coverage", ("Coverage", "CommandKind", "SeenCommand", "CoverageError", "opcode_name")),
    "Host model": (
        "nvmetap.host",
        (
            "NvmeHost",
            "HostQueue",
            "PendingCommand",
            "HostMemory",
            "DataBuffer",
            "HostError",
            "CommandError",
            "HostTimeoutError",
            "at_blocks",
            "now_ps",
        ),
    ),
    "Drive model": ("nvmetap.drive", ("NvmeDrive", "DriveFault", "FaultOrder")),
    "A design with streams": ("nvmetap.stream", ("StreamEndpoint",)),
    "Queue entries": ("nvmetap.entries", ("Submission", "Completion", "PointerError", "descriptor", "data_pieces")),
    "Decoding of TLPs": ("nvmetap", ("Tlp", "TlpKind", "MalformedTlpError", "decode_tlp")),
}
"""Sections of docs/nvmetap-api.md: module in `cocotbext`, and its public names."""


def monitor_reference() -> str:
    """Return the sections of the page of `cocotbext.nvmetap`.

    A rule's line has its text and clause, which no docstring has.
    """
    lines: list[str] = []
    for title, (module, names) in MONITOR.items():
        lines += section(title, f"cocotbext.{module}", list(names), made=True)
        if title == "Rules":
            rules = import_module("cocotbext.nvmetap").Rule
            lines += ["| rule | what must hold | clause |", "|---|---|---|"]
            lines += [f"| `{rule.name}` | {rule.text} | {rule.clause} |" for rule in rules]
            lines.append("")
    return "\n".join(lines)


def section(title: str, module: str, names: list[str], below: str = "", made: bool = False) -> Iterator[str]:
    """Yield a heading and a directive for each name; without constants, and without the class that has a section of its own.

    made: show the docstring of `__init__` behind the class's own
    """
    yield from (f"## {title}", "", "```{eval-rst}")
    for name in sorted(names, key=lambda one: one[0].isupper()):  # functions first
        if name.startswith("__") or name == below:
            continue
        kind = "class" if name[0].isupper() else "function"
        options = ["   :members:", "   :undoc-members:", *["   :class-doc-from: both"] * made] if kind == "class" else []
        yield from (f".. auto{kind}:: {module}.{name}", *options, "")
    yield from ("```", "")
