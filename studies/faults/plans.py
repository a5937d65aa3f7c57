"""Work that shows a requirement: plans for the drive model, with their job files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

HEAD = "[global]\ndirect=1\nioengine=libaio\ntime_based=1\nsize=4g\nnorandommap=1\n"


@dataclass(frozen=True)
class Work:
    """A plan and its files by name. ``interval_s``: between conversions of the rail; a sample is of ``decimation`` of them."""

    plan: str
    files: Mapping[str, str]
    interval_s: float
    decimation: int | None = None


def _step(action: str, **settings: object) -> str:
    words = {True: "true", False: "false"}
    lines = [f"{key} = {words[value] if isinstance(value, bool) else repr(value)}" for key, value in settings.items()]
    return "[[step]]\n" + action + "\n" + "\n".join(lines) + "\n"


def _job(name: str, seconds: float, think_us: int, what: str = "randwrite", bs: str = "64k", depth: int = 1) -> str:
    return f"[{name}]\nstonewall\nrw={what}\nbs={bs}\niodepth={depth}\nruntime={round(seconds * 1000)}ms\nthinktime={think_us}us\n"


def loads(state: int) -> Work:
    """Reads and writes for 4 s in an operational state."""
    jobs = HEAD + _job("reads", 1.5, 2000, "randread", "4k") + _job("writes", 2.5, 1000)
    return Work('condition = "test-data"\n' + _step('fio = "load.fio"', ps=state), {"load.fio": jobs}, 1e-4)


def asleep(state: int, idle_s: float = 1.2) -> Work:
    """Three rests in a sleeping state that the host asks for, and a wake-up from each."""
    rest = _step(f"idle_s = {idle_s}", ps=state, aspm="l1.2") + _step("wake = { idle_s = 0.3, slba = 8 }", ps=state, aspm="l1.2")
    return Work('condition = "test-data"\n' + 3 * rest, {}, 1e-5)


def many_wakes(state: int, times: int, idle_s: float) -> Work:
    """Many wake-ups from a sleeping state."""
    wake = _step(f"wake = {{ idle_s = {idle_s}, slba = 8 }}", ps=state, aspm="l1.2")
    return Work('condition = "test-data"\n' + times * wake, {}, 2e-5)


def by_itself() -> Work:
    """Two idle times with APST on, each longer than its table."""
    jobs = HEAD + _job("reads", 0.3, 1000, "randread", "4k")
    idle = _step('fio = "load.fio"', apst=True, aspm="l1.2") + _step("idle_s = 4.0", apst=True, aspm="l1.2")
    return Work('condition = "test-data"\n' + 2 * idle, {"load.fio": jobs}, 1e-5)


def metered(levels: list[tuple[float, int]]) -> Work:
    """Loads of different power while the drive's own meter runs. ``levels``: seconds, and thinktime in us."""
    jobs = HEAD + "".join(_job(f"load{k}", seconds, think_us) for k, (seconds, think_us) in enumerate(levels))
    steps = [
        _step('own_meter = "start"'),
        _step('fio = "load.fio"'),
        _step('own_meter = "stop"'),
        _step('read_logs = ["power_measurement"]'),
    ]
    return Work('condition = "test-data"\n' + "".join(steps), {"load.fio": jobs}, 1e-4)


def monitored(reports: str, depth: int, old_s: float = 601.0) -> Work:
    """Reads that wait for each other, while the drive's latency monitor runs, and ten minutes until its page is read.

    reports : ``largest`` or ``first``.
    """
    jobs = HEAD + _job("reads", 1.5, 0, "randread", "4k", depth).replace("thinktime=0us\n", "")
    steps = [
        _step(f'latency_monitor = {{ thresholds_ms = [5, 10, 20, 40], reports = "{reports}" }}'),
        _step('fio = "load.fio"'),
        _step(f"idle_s = {old_s}"),
        _step('read_logs = ["latency_monitor"]'),
    ]
    return Work('condition = "test-data"\n' + "".join(steps), {"load.fio": jobs}, 1e-3, decimation=100)


def crossed(threshold_w: float, times: int) -> Work:
    """A load behind idle time, with the event of a power threshold asked for, once or several times."""
    jobs = HEAD + _job("writes", 4.6, 12000)
    steps = [_step(f"power_threshold_w = {threshold_w}"), _step("idle_s = 1.6"), _step('fio = "load.fio"'), _step("idle_s = 0.8")]
    # a reset shows requests for events that still wait
    return Work('condition = "test-data"\n' + times * "".join(steps) + _step('reset = "flr"'), {"load.fio": jobs}, 1e-4)


def restarted() -> Work:
    """A power cycle, and the first command after it."""
    return Work('condition = "test-data"\n' + _step("idle_s = 0.2") + _step("restart = { off_s = 0.2 }"), {}, 1e-4)
