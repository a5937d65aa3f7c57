"""Files that a Linux 6.12 guest's kernel, fio 3.39, blkparse 1.2 and trace-cmd 3.1 wrote, on the SSD model over vfio-user with two CPUs.

``whole``: fio jobs (reads, a mix, trims, writes with fsync), nvme-cli (flush, write zeroes, set-feature, a refused Identify) between
markers 101h, 102h and 103h. ``overrun``: the same instance's next fio job, in a buffer too small for it. ``*-cpuN``: pages of the buffer;
``*.txt``: the kernel's own text of the same buffer.
"""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import NamedTuple

from wattbell.hostlog.pages import PageReader

DATA = Path(__file__).parent / "data"
EVENTS = ("nvme_setup_cmd", "nvme_complete_rq")


def recorded(name: str) -> bytes:
    return gzip.decompress((DATA / f"{name}.gz").read_bytes())


def text(name: str) -> str:
    return recorded(name).decode()


def unpacked(folder: Path, name: str) -> Path:
    path = folder / name
    path.write_bytes(recorded(name))
    return path


def page_reader() -> PageReader:
    return PageReader(text("header_page"), *(text(f"{name}.format") for name in EVENTS))


class Said(NamedTuple):
    """An event as the kernel's text has it."""

    us: int
    event: str
    qid: int
    cid: int


def said(name: str) -> list[Said]:
    found = re.findall(r"(\d+)\.(\d{6}): (nvme_\w+): .*?qid=(\d+), cmdid=(\d+)", text(name))
    return [Said(int(s) * 1_000_000 + int(us), event, int(qid), int(cid)) for s, us, event, qid, cid in found]
