"""The lines of docs/bench.md, and what becomes of each in the guest. The page is the only place where they stand."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs/bench.md"
SERIAL, METER = "WATTBELL660P0001", "rig:/dev/hvc0,/dev/hvc1"
OTHERS = {"powersensor3:/dev/ttyACM0": METER, "S4EWNX0M123456": SERIAL}
"""Words of the page that name the reader's own meter and drive, and the words of the guest."""
SAMPLING = "--interval 1e-5 --decimation 100"
"""A sample a millisecond: a session sets a rig to a conversion a microsecond, and the guest's processor is emulated."""


@dataclass(frozen=True)
class Expected:
    """``says``: patterns that the output matches, from the page's own words; ``asks``: the drive is written, so somebody has to say yes;
    ``more``: further options, and why in ``because``; ``act``: what hands do meanwhile, from :data:`ACTS`."""

    says: tuple[str, ...] = ()
    asks: bool = False
    more: str = ""
    because: str = ""
    act: str = ""


@dataclass(frozen=True)
class Act:
    """Commands before and behind a line, in place of hands, and the file that is there then."""

    before: str
    behind: str
    makes: str


NOT_TYPED = {
    "apt-get install ": "the guest has no network; fio and nvme-cli are its own, pciutils the machine's",
    "wattbell run quick --virtual": "it takes the guest's emulated processor too long; tests/e2e/test_wheel.py runs it on this machine",
}
ACTS = {
    "an instrument that saves files": Act(
        before=f"wattbell record --meter {METER} --out instrument & sleep 15",
        behind="sleep 5; kill -INT %1; wait %1; python - <<'END'\n"
        "import wattbell\n"
        "wattbell.open('instrument').rail().select(t='t_s', I=__import__('polars').col('current_a') * 1e3).write_csv('waveform.csv')\n"
        "END",
        makes="waveform.csv",
    )
}
_PAGE = (r"results +\S+/results\.json", r"page +\S+/suite\.html")
EXPECTED = {
    "make setup": Expected(),
    "mountpoint ": Expected(),
    "nvme list": Expected(says=(rf"/dev/nvme0n1 .*{SERIAL}",)),
    "wattbell run quick --drive /dev/nvme0n1 --serial S4EWNX0M123456 --out first --dry-run": Expected(
        says=(r"step +what +writes +takes", r"This writes .* times its capacity.* and erases it", r"It takes about ")
    ),
    "wattbell meters": Expected(says=(r"powersensor3 .*installed", r"ppk2 ")),
    "wattbell record": Expected(says=(r"quiet: \d\d+\.\d+ s, 0 commands, \d{5,} rail samples",)),
    "wattbell info quiet": Expected(says=(r"rail +\d{5,} samples at 1\.00 kS/s", r"loss +none")),
    "wattbell analyze quiet": Expected(says=(r"mean power|mean .*W",)),
    "cat > reads.fio": Expected(),
    "wattbell run reads.fio": Expected(says=(r"MB/s", r"MB/J"), more=SAMPLING),
    "wattbell report reads": Expected(says=(r"reads\.html",)),
    "wattbell run --drive": Expected(says=(r"copied",), more=SAMPLING),
    "wattbell run quick --drive /dev/nvme0n1 --serial S4EWNX0M123456 --meter": Expected(
        says=(r"This writes .* times its capacity", r"It takes about ", *_PAGE), asks=True, more=SAMPLING
    ),
    "wattbell run power-states": Expected(
        says=(r"This writes .* times its capacity", r"It takes about ", *_PAGE),
        asks=True,
        more=f"{SAMPLING} --scale 0.02",
        because="16 GiB and minutes of idle in every state are hours of the emulated processor",
    ),
    "WATTBELL_DRIVE=/dev/nvme0n1 fio": Expected(act="an instrument that saves files"),
    "nvme id-ctrl": Expected(),
    "wattbell import": Expected(says=(r"imported: ",)),
    "wattbell analyze imported": Expected(says=(r"MB/J",)),
}
"""Expectations, by the beginning of a line."""


def lines() -> list[str]:
    """Every line of the page's blocks of shell, without the remark behind it; a here-document is one."""
    found: list[str] = []
    for block in re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        found += [re.sub(r"\s{2,}# .*", "", line) for line in re.findall(r"[^\n]*<<'END'\n.*?\nEND(?=\n)|[^\n]+", block, re.DOTALL)]
    return found


def begins(line: str) -> list[str]:
    """Which of the tables' beginnings are the line's: one."""
    return [start for start in (*NOT_TYPED, *EXPECTED) if line.startswith(start)]


def typed(line: str) -> str | None:
    """The line as it is typed in the guest; None for one that is not."""
    (start,) = begins(line)
    if start in NOT_TYPED:
        return None
    for page, guest in OTHERS.items():
        line = line.replace(page, guest)
    more = EXPECTED[start].more
    return line.replace("wattbell run", f"wattbell run {more}", 1) if more else line
