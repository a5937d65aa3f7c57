"""Resets of every kind, as a host or a mishap brings them about, and the events until the driver may start again."""

from __future__ import annotations

import struct
from collections.abc import Callable

from tests.traffic import drive as registers
from tests.traffic.host import Host
from tests.traffic.kernel import US, Process
from tests.traffic.link import DETECT, L0, LINK_STATE, PERST, RECOVERY
from tests.traffic.truth import Deed

_ENABLED = 0x0046_0001


def _control(host: Host, bits: int) -> int:
    return host.write(registers.CC, struct.pack("<L", host.drive.get(registers.CC) & ~0xC001 | bits))


def _drain(host: Host) -> Process:
    """Wait until no I/O command is in flight."""
    for sq in host.sqs.values():
        if sq.qid:
            sq.left = 0
    while any(sq.flying for sq in host.sqs.values() if sq.qid):
        yield 2 * US


def _until(ended: list[Deed], until: int) -> None:
    for deed in ended:
        deed.reset_until = until


def _shut_down(host: Host) -> Process:
    """CC.SHN = 01b, and wait for CSTS.SHST = 10b (NVMe, Shutdown). The time of the write."""
    yield from _drain(host)
    at = _control(host, 1 << 14 | 1)
    yield 100_000
    while (yield from host.read(registers.CSTS, 4)) >> 2 & 3 != 2:
        yield int(host.rng.uniform(1, 4) * US)
    return at


def _disable(host: Host) -> Process:
    at = _control(host, 0)
    return at
    yield


def en(host: Host) -> Process:
    """CC.EN = 0 with commands in flight."""
    host.hold()
    at = yield from _disable(host)
    host.abandon(at)
    yield from host._until_ready(0)
    yield int(host.rng.uniform(2, 50) * US)


def shn(host: Host) -> Process:
    """A shutdown, then CC.EN = 0."""
    at = yield from _shut_down(host)
    until = yield from _disable(host)
    _until(host.abandon(at), until)
    yield from host._until_ready(0)
    yield int(host.rng.uniform(2, 50) * US)


def flr(host: Host) -> Process:
    """Initiate Function Level Reset, after a shutdown or at once. The next driver is another one, at times."""
    rng, drive, config = host.rng, host.drive, host.drive.config
    first = None
    if rng.random() < 0.5:
        first = yield from _shut_down(host)
    host.hold()
    control = int.from_bytes(config.read(config.device_control)[:2], "little")
    at = yield from host.config_write(config.device_control, control | 0x8000, 0x3)
    ended = host.abandon(at if first is None else first)
    if first is not None:
        _until(ended, at)
    drive.function_reset(configuration=True)
    yield int(rng.uniform(30, 300) * US)
    yield from host.replace_bar()
    if rng.random() < 0.5 and host.setup.interrupts == "msix":
        host.style = rng.choice(("spdk", "linux"))


def d3hot(host: Host) -> Process:
    """PMCSR to D3hot and back to D0, which resets without No_Soft_Reset (PM 5.4.1)."""
    rng, drive, config = host.rng, host.drive, host.drive.config
    first = None
    if rng.random() < 0.7:
        first = yield from _shut_down(host)
    host.hold()
    at = yield from host.config_write(config.power, 3, 0x3)
    drive.stop()
    ended = host.abandon(at if first is None else first)
    yield int(rng.uniform(20, 100) * US)
    until = yield from host.config_write(config.power, 0, 0x3)
    _until(ended, until)
    drive.function_reset(configuration=True)
    yield int(rng.uniform(20, 100) * US)
    yield from host.replace_bar()


def _link_down(host: Host, through: tuple[int, ...]) -> Process:
    """The link goes down now, over the states of `through`; everything behind it is reset. Returns when it is up again."""
    link, root, drive, rng = host.link, host.root, host.drive, host.rng
    at = host.kernel.now
    for deed in host.deeds[-20_000:]:
        if deed.reset is None:
            deed.lacks_after(at)
    link.retrain(up=False)
    root.restart()
    drive.stop()
    ended = host.abandon(at)
    for state in through:
        link.sideband(LINK_STATE, state)
        yield int(rng.uniform(1, 20) * US)
    _until(ended, host.kernel.now)
    drive.function_reset(configuration=True)
    yield int(rng.uniform(10, 100) * US)
    link.retrain(up=True)
    link.sideband(LINK_STATE, L0)
    yield int(rng.uniform(5, 50) * US)
    yield from host.enumerate()


def hot(host: Host) -> Process:
    """Hot reset: Recovery, Hot Reset (which a trace shows as Recovery), Detect, L0 (PCIe 4.2.6.11)."""
    yield from _link_down(host, (RECOVERY, DETECT))


def link(host: Host) -> Process:
    """The link is lost: Detect at once."""
    yield from _link_down(host, (DETECT,))


def nssr(host: Host) -> Process:
    """NSSR.NSSRC = 4E564D65h ("NVMe"); the drive takes its link down a little later (NVMe, NVM Subsystem Reset)."""
    done: list[int] = []
    host.drive.level_reset = lambda: done.append(1)
    host.write(registers.NSSR, b"eMVN")
    while not done:
        yield US // 4
    yield from _link_down(host, (DETECT,))


def perst(host: Host) -> Process:
    """PERST# for a while; the link goes to Detect."""
    at = host.link.sideband(PERST, 0)
    for deed in host.deeds[-20_000:]:
        if deed.reset is None:
            deed.lacks_after(at)
    host.link.retrain(up=False)
    host.root.restart()
    host.drive.stop()
    host.link.sideband(LINK_STATE, DETECT)
    host.abandon(at)
    host.drive.function_reset(configuration=True)
    yield int(host.rng.uniform(20, 200) * US)
    host.link.sideband(PERST, 1)
    yield int(host.rng.uniform(20, 100) * US)
    host.link.retrain(up=True)
    host.link.sideband(LINK_STATE, L0)
    yield int(host.rng.uniform(5, 50) * US)
    yield from host.enumerate()


RESETS: dict[str, Callable[[Host], Process]] = {
    "en": en,
    "shn": shn,
    "flr": flr,
    "d3hot": d3hot,
    "hot": hot,
    "link": link,
    "nssr": nssr,
    "perst": perst,
}
