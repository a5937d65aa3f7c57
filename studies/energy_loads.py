"""The workloads of the coverage runs: random experiments of one kind each, and the drives they run on.

``mixed`` is what most captures are of; the other kinds are what such intervals were not made with.
"""

from __future__ import annotations

import random
import re
import tomllib
from pathlib import Path

from wattbell.virtual.profiles import find_profile

PHASES = 12
"""Phases with a load in a workload,"""
RUNTIME_S = (0.2, 0.6)
"""and how long each is."""
KINDS = ("randread", "randwrite", "read", "write")
SIZES_KIB = (4, 8, 16, 64, 128)
DEPTHS = (1, 2, 4, 8, 16, 32)
MIXED, TRIMS, FLUSHES, SMALL_READS, FULL, THROTTLING = WORKLOADS = (
    "mixed",
    "trims",
    "flushes",
    "512-byte reads",
    "full drive",
    "throttling",
)
WITH_DRAM, DRAM_LESS, IN_PLACE = ("with DRAM", "DRAM-less", "3D XPoint")
_FSYNC = (1, 4, 32)
"""Writes of a job between two flushes."""
_TRIMS_PER_S = (1000, 10_000)
"""Every trim is simulated on the link's level, which takes its time."""
_ABOVE_WARNING_K = (1.0, 8.0)
"""How much warmer than its warning temperature a drive that throttles begins."""


def drive_kind(profile: str) -> str:
    """Return where a drive keeps its map, as its profile says."""
    flash = tomllib.loads(find_profile(profile).read_text()).get("flash", {})
    if flash.get("in_place", {}).get("value"):
        return IN_PLACE
    return DRAM_LESS if flash.get("map_cache_kib", {}).get("value") else WITH_DRAM


def drive_of(workload: str, profile: str, seed: int, folder: Path) -> Path:
    """Return the drive's profile; for a throttling drive, a copy in ``folder`` with surroundings above its warning temperature."""
    file = find_profile(profile)
    if workload != THROTTLING:
        return file
    text, common = file.read_text(), tomllib.loads((file.parent / "common.toml").read_text())
    limits = {**common["limits"], **tomllib.loads(text).get("limits", {})}
    warm = limits["warning_temperature_c"]["value"] + random.Random(f"warm {seed}").uniform(*_ABOVE_WARNING_K)
    ambient = f'ambient_c = {{ value = {warm:.1f}, source = "assumed: an oven, so that the drive throttles" }}\n'
    text = text.replace("[thermal]\n", "[thermal]\n" + ambient) if "[thermal]\n" in text else f"{text}\n[thermal]\n{ambient}"
    warmed = folder / file.name
    warmed.write_text(text)
    return warmed


def plan(seed: int, folder: Path, workload: str = MIXED) -> Path:
    """Write a random experiment: two to four jobs, and phases in which one to three jobs run at depths drawn anew."""
    chance = random.Random(seed)
    jobs = []
    for number in range(chance.choice((2, 3, 3, 4))):
        job = f"rw={chance.choice(KINDS)}\nbs={chance.choice(SIZES_KIB)}k\noffset={4 * number}g"
        if chance.random() < 0.3:
            job += f"\nthinktime={chance.choice((100, 500, 2000))}us\nthinktime_blocks={chance.choice((1, 8, 64))}"
        jobs.append(job)
    jobs = _of(workload, jobs, seed)
    condition = "full" if workload == FULL else "test-data"
    steps = [f'condition = "{condition}"', '[[step]]\nname = "idle before"\nidle_s = 0.3']
    for load in range(PHASES):
        alone = load < len(jobs)  # each once by itself
        running = [jobs[load]] if alone else chance.sample(jobs, chance.randint(1, min(3, len(jobs))))
        text = f"[global]\ndirect=1\ntime_based=1\nsize=4g\nruntime={1000 * chance.uniform(*RUNTIME_S):.0f}ms\n"
        for number, job in enumerate(running):
            text += f"[job{number}]\n{job}\niodepth={chance.choice(DEPTHS)}\nrandseed={chance.randrange(1 << 20)}\n"
        (folder / f"load{load}.fio").write_text(text)
        steps += [f'[[step]]\nname = "load {load}"\nfio = "load{load}.fio"', f'[[step]]\nname = "after {load}"\nidle_s = 0.05']
    file = folder / "plan.toml"
    file.write_text("\n".join(steps) + "\n")
    return file


def _of(workload: str, jobs: list[str], seed: int) -> list[str]:
    """The jobs of a workload of this kind, made of mixed ones by draws of their own."""
    chance = random.Random(f"{workload} {seed}")
    if workload == TRIMS:
        trim = (
            f"rw={chance.choice(('trim', 'randtrim'))}\nbs={chance.choice(SIZES_KIB)}k\noffset=16g\nrate_iops={chance.choice(_TRIMS_PER_S)}"
        )
        return [*jobs[:3], trim]
    if workload == FLUSHES:
        synced = [f"{job}\nfsync={chance.choice(_FSYNC)}" if "write" in job else job for job in jobs]
        write = f"rw={chance.choice(('write', 'randwrite'))}\nbs={chance.choice(SIZES_KIB)}k\noffset=16g\nfsync={chance.choice(_FSYNC)}"
        return synced if any("fsync" in job for job in synced) else [*synced[:3], write]
    if workload == SMALL_READS:
        return [*jobs[:3], f"rw={chance.choice(('read', 'randread'))}\nbs=512\noffset=16g"]
    return jobs


def trim_bytes(folder: Path) -> int:
    """Size of the trims of the experiment in ``folder``; 0 without any."""
    sizes = {int(kib) for file in folder.glob("load*.fio") for kib in re.findall(r"rw=(?:rand)?trim\nbs=(\d+)k", file.read_text())}
    (size,) = sizes or {0}
    return 1024 * size
