#!/usr/bin/env python3
"""Run fio jobs under a real Linux in QEMU, on an NVMe drive with recorded traffic.

    run.py --drive qemu --jobs sim/guest/jobs/ci --out build/run      QEMU's own NVMe device; leaves OUT/qemu.log
    run.py --drive vfio --jobs sim/guest/jobs/ci --out build/run      our SSD model over vfio-user; leaves OUT/trace.wbt

A job is a fio job file (``*.fio``), an idle phase (``*.idle``: seconds), or a shell script for the guest's busybox with nvme-cli
(``*.sh``). A folder means its jobs in name order. Phase k runs between two in-band markers (docs/capture.md).

OUT also gets ``phases.json``, one ``fio-<k>.json`` for each job, ``console.txt`` and ``dmesg.txt``. Our drive leaves its truth in
``truth.json`` and ``truth-commands.csv``. With ``--guest-trace`` it gets
the kernel's own NVMe events in ``trace.txt``.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from stack import CHECKOUT, HERE, GuestError, Stack, die, stack_dir

MEMORY_MIB = 2048
RESULT_BYTES = 256 << 20
START_S = 120.0
"""Patience in s with a program that starts on a busy machine. A program that ends is noticed at once."""
QUIET_S = 300.0
QUIET_HELP = "time without a sign of life after which the guest counts as hung (default %(default)s)"
KERNEL_WORDS = "console=ttyS0 panic=-1 quiet loglevel=4 mitigations=off nokaslr tsc=reliable no_timer_check random.trust_cpu=on"
KINDS = {".fio": "fio", ".idle": "idle", ".sh": "script"}


def collect_jobs(arguments: list[Path]) -> list[Path]:
    """Return the job files in ``arguments`` (files and folders), in order. Raises GuestError."""
    jobs: list[Path] = []
    for path in arguments:
        if path.is_dir():
            found = sorted(p for p in path.iterdir() if p.suffix in KINDS)
            if not found:
                raise GuestError(f"{path} holds no *.fio, *.idle or *.sh file")
            jobs += found
        elif path.is_file() and path.suffix in KINDS:
            jobs.append(path)
        else:
            raise GuestError(f"{path}: no such job (a *.fio, *.idle or *.sh file, or a folder of them)")
    if len(jobs) > 250:
        raise GuestError(f"{len(jobs)} jobs: at most 250 in one run")
    return jobs


def plan_phases(jobs: list[Path]) -> list[dict[str, object]]:
    """Return `workload.phases` of docs/capture.md for ``jobs``, with phase numbers from 1. Raises GuestError."""
    phases: list[dict[str, object]] = []
    for number, job in enumerate(jobs, start=1):
        name = re.sub(r"^\d+[-_]", "", job.stem)
        kind = KINDS[job.suffix]
        if kind == "idle":
            text = job.read_text().strip()
            try:
                seconds = float(text)
            except ValueError:
                raise GuestError(f"{job}: must hold a number of seconds, not {text!r}") from None
            phases.append({"phase": number, "name": name, "kind": kind, "duration_s": seconds})
        elif kind == "fio":
            phases.append({"phase": number, "name": name, "kind": kind, "job": job.name, "fio": f"fio-{number}.json"})
        else:
            phases.append({"phase": number, "name": name, "kind": kind, "job": job.name})
    return phases


def write_jobs_disk(path: Path, jobs: list[Path], phases: list[dict[str, object]], options: str) -> None:
    """Write a tar with the job files, ``plan`` (for init.sh) and ``options``, padded to whole sectors."""
    plan = ""
    with tarfile.open(path, "w") as archive:

        def add(name: str, data: bytes) -> None:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))

        for phase, job in zip(phases, jobs, strict=True):
            name = f"{phase['phase']}.job"
            argument = str(phase["duration_s"]) if phase["kind"] == "idle" else name
            plan += f"{phase['phase']} {phase['kind']} {str(phase['name']).replace(' ', '_')} {argument}\n"
            add(name, job.read_bytes())
        add("plan", plan.encode())
        add("options", options.encode())


def guest_binary() -> Path:
    """Return the built ``wattbell-guest``, from ``WATTBELL_SIM_BIN``, the checkout's ``sim/target/release`` or ``PATH``. Raises
    GuestError.
    """
    folders = [os.environ.get("WATTBELL_SIM_BIN"), str(CHECKOUT / "sim/target/release")]
    for folder in folders:
        if folder and (Path(folder) / "wattbell-guest").is_file():
            return Path(folder) / "wattbell-guest"
    found = shutil.which("wattbell-guest")
    if found is None:
        raise GuestError("wattbell-guest is not built: cargo build --release in sim/ (or `make sim`)")
    return Path(found)


def qemu_command(stack: Stack, work: Path, drive: list[str], smp: int, kernel: Sequence[str] = ()) -> list[str]:
    """Return the QEMU command line with the drive's arguments; ``kernel``: more words for the kernel. Always TCG.

    The kernel's check of its timer is off. On a machine so busy that QEMU does not run for some 10 ms, the check fails and the
    kernel panics.
    """
    return [
        *stack.qemu(),
        "-M",
        "q35",
        "-accel",
        "tcg",
        "-cpu",
        "max",
        "-smp",
        str(smp),
        "-m",
        str(MEMORY_MIB),
        "-display",
        "none",
        "-nodefaults",
        "-no-user-config",
        "-no-reboot",
        "-serial",
        f"file:{work / 'console.txt'}",
        "-kernel",
        str(stack.kernel()),
        "-initrd",
        str(stack.initramfs),
        "-append",
        " ".join([KERNEL_WORDS, *kernel]),
        "-drive",
        f"if=none,id=jobs,format=raw,readonly=on,file={work / 'jobs.tar'}",
        "-device",
        "virtio-blk-pci,drive=jobs,serial=wbjobs",
        "-drive",
        f"if=none,id=out,format=raw,cache=unsafe,file={work / 'out.tar'}",
        "-device",
        "virtio-blk-pci,drive=out,serial=wbout",
        *drive,
    ]


def tail(path: Path, lines: int = 25) -> str:
    """Return the last lines of a text file, or a note that it does not exist."""
    if not path.is_file():
        return f"({path.name} was not written)"
    return "\n".join(path.read_text(errors="replace").replace("\r", "").splitlines()[-lines:])


class SignsOfLife:
    """Measures how long a guest has shown no sign of life. A guest on a busy machine is slow, but goes on printing, reading and
    writing.
    """

    def __init__(self, files: Sequence[Path], servers: Sequence[subprocess.Popen[bytes]]) -> None:
        """``files``: files that grow while the guest works. ``servers``: programs that read and write at its request."""
        self._files = files
        self._servers = servers
        self._seen: tuple[object, ...] = ()
        self._since = time.monotonic()

    def quiet_s(self) -> float:
        """Return the seconds since the last sign of life that a call of this method has seen."""
        seen = (*map(_size, self._files), *map(_transferred, self._servers))
        if seen != self._seen:
            self._seen, self._since = seen, time.monotonic()
        return time.monotonic() - self._since


def _size(path: Path) -> int:
    """Return the bytes of a file; 0 if it does not exist."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _transferred(process: subprocess.Popen[bytes]) -> str:
    """Return the bytes that a program has read and written, as the kernel counts them; empty if the program has ended."""
    try:
        return "".join(Path(f"/proc/{process.pid}/io").read_text().splitlines(keepends=True)[:2])  # rchar, wchar
    except OSError:
        return ""


def watch(
    process: subprocess.Popen[bytes], console: Path, phases: list[dict[str, object]], signs: SignsOfLife, most_quiet_s: float
) -> None:
    """Wait for the guest to end, and name each phase on stderr. Raises GuestError if the guest hangs, panics or fails."""
    shown = 0
    while process.poll() is None:
        if signs.quiet_s() > most_quiet_s:
            process.kill()
            process.wait()
            raise GuestError(
                f"the guest hangs: no sign of life for {most_quiet_s:.0f} s (--quiet). Its console ends with:\n{tail(console)}"
            )
        text = console.read_text(errors="replace") if console.is_file() else ""
        started = text.count("GUEST: PHASE ")
        while shown < started:
            phase = phases[shown]
            print(f"guest: phase {phase['phase']}/{len(phases)} {phase['name']}", file=sys.stderr, flush=True)
            shown += 1
        time.sleep(0.1)
    text = console.read_text(errors="replace") if console.is_file() else ""
    if "Kernel panic" in text:
        raise GuestError(f"the guest's kernel panicked. Its console ends with:\n{tail(console)}")
    if "GUEST: FAIL" in text:
        reason = text.split("GUEST: FAIL", 1)[1].splitlines()[0].strip()
        raise GuestError(f"the guest gave up: {reason}. Its console ends with:\n{tail(console)}")
    if process.returncode != 0 or "GUEST: END" not in text:
        raise GuestError(f"QEMU ended early (exit {process.returncode}). Its console ends with:\n{tail(console)}")


def unpack_results(disk: Path, out: Path) -> None:
    """Unpack the guest's results tar into ``out``."""
    try:
        with tarfile.open(disk) as archive:
            for member in archive.getmembers():
                name = Path(member.name).name
                data = archive.extractfile(member) if member.isfile() else None
                if data is not None and name == member.name.removeprefix("./"):
                    (out / name).write_bytes(data.read())
    except tarfile.TarError as error:
        raise GuestError(f"the guest's results cannot be read: {error}") from None


def check_jobs(out: Path, phases: list[dict[str, object]]) -> None:
    """Raise GuestError if a job failed; the message ends with fio's output."""
    codes = dict(line.split() for line in (out / "exit-codes").read_text().splitlines())
    for phase in phases:
        code = codes.get(str(phase["phase"]), "missing")
        if code != "0":
            said = tail(out / f"{phase['kind']}-{phase['phase']}.log", 10)
            raise GuestError(f"phase {phase['phase']} ({phase['name']}) ended with exit code {code}:\n{said}")


def start_vfio(options: argparse.Namespace, work: Path, out: Path, bus: str = "") -> tuple[subprocess.Popen[bytes], list[str]]:
    """Start our drive as a vfio-user server; return it, and QEMU's arguments for the drive.

    ``bus``: the drive's bus; empty: part of the root complex.
    """
    socket = work / "drive.sock"
    command = [
        str(guest_binary()),
        "serve-vfio",
        "--profile",
        options.profile,
        "--socket",
        str(socket),
        "--trace",
        str(out / "trace.wbt"),
        "--truth",
        str(out / "truth.json"),
        "--truth-commands",
        str(out / "truth-commands.csv"),
        "--store",
    ]
    log = (out / "drive.txt").open("wb")
    server = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    deadline = time.monotonic() + START_S
    while not socket.exists():
        if server.poll() is not None or time.monotonic() > deadline:
            server.kill()
            raise GuestError(f"the drive's server did not start:\n{tail(out / 'drive.txt')}")
        time.sleep(0.02)
    address = json.dumps({"type": "unix", "path": str(socket)})
    device = {"driver": "vfio-user-pci", "socket": json.loads(address), **({"bus": bus} if bus else {})}
    return server, [*memory(), "-device", json.dumps(device)]


def memory() -> list[str]:
    """Return QEMU's arguments for guest memory that other programs share: vfio-user and virtiofs need it."""
    return ["-object", f"memory-backend-memfd,id=mem,size={MEMORY_MIB}M,share=on", "-machine", "memory-backend=mem"]


def qemu_drive(options: argparse.Namespace, work: Path, out: Path) -> list[str]:
    """Return QEMU's arguments for its own NVMe device, with its events written to ``OUT/qemu.log``."""
    image = work / "drive.raw"
    with image.open("wb") as file:
        file.truncate(options.size_mib << 20)
    block = f",logical_block_size={options.lba},physical_block_size={options.lba}" if options.lba != 512 else ""
    (out / "qemu.log").unlink(missing_ok=True)
    return [
        "-drive",
        f"if=none,id=nvm,format=raw,cache=unsafe,discard=unmap,file={image}",
        "-device",
        f"nvme,id=nvme0,serial=wattbell,drive=nvm,dbcs={options.dbcs}{block}",
        "-trace",
        f"events={HERE / 'nvme-events'}",
        "-D",
        str(out / "qemu.log"),
        "-msg",
        "timestamp=on",
    ]


def run(options: argparse.Namespace) -> None:
    """Boot the guest, run the jobs, and leave the results in ``options.out``. Raises GuestError."""
    jobs = collect_jobs(options.jobs)
    phases = plan_phases(jobs)
    stack = Stack(stack_dir())
    stack.check()
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    left = [out / name for name in ("exit-codes", "phases.json", "trace.wbt", "truth.json", "truth-commands.csv")]
    for stale in [*out.glob("fio-*"), *out.glob("script-*"), *left]:
        stale.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="wattbell-guest-") as scratch:
        work = Path(scratch)
        on = {True: "on", False: "off"}
        choices = f"trace={on[options.guest_trace]}\nio-log={on[options.io_log]}\n"
        write_jobs_disk(work / "jobs.tar", jobs, phases, choices)
        with (work / "out.tar").open("wb") as file:
            file.truncate(RESULT_BYTES)
        server: subprocess.Popen[bytes] | None = None
        try:
            if options.drive == "vfio":
                server, drive = start_vfio(options, work, out)
            else:
                drive = qemu_drive(options, work, out)
            with (out / "qemu-stderr.txt").open("wb") as errors:
                command = [*qemu_command(stack, work, drive, options.smp, options.kernel_arg), *options.qemu_arg]
                process = subprocess.Popen(command, env=stack.environment(), stdin=subprocess.DEVNULL, stdout=errors, stderr=errors)
            try:
                signs = SignsOfLife([work / "console.txt", out / "qemu.log", out / "trace.wbt"], [] if server is None else [server])
                watch(process, work / "console.txt", phases, signs, options.quiet)
            except GuestError as error:
                raise GuestError(f"{error}\n{tail(out / 'qemu-stderr.txt', 5)}") from None
            finally:
                if process.poll() is None:
                    process.kill()
                    process.wait()
                if (work / "console.txt").is_file():
                    shutil.copy(work / "console.txt", out / "console.txt")
            unpack_results(work / "out.tar", out)
        finally:
            if server is not None:
                stop_server(server, out)
    check_jobs(out, phases)
    (out / "phases.json").write_text(json.dumps(phases, indent=1) + "\n")


def stop_server(server: subprocess.Popen[bytes], out: Path) -> None:
    """Wait until the server has closed its trace after QEMU's end, and end it if need be. Raises GuestError if it failed."""
    try:
        server.wait(timeout=10)
    except subprocess.TimeoutExpired:
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(timeout=10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
    if server.returncode not in (0, None) and sys.exc_info()[0] is None:
        raise GuestError(f"the drive's server failed (exit {server.returncode}):\n{tail(out / 'drive.txt')}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--drive", choices=("qemu", "vfio"), required=True, help="QEMU's own NVMe device, or our SSD model")
    parser.add_argument(
        "--jobs", type=Path, nargs="+", default=[HERE / "jobs/standard"], help="job files and folders of them (default: jobs/standard)"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--dbcs", choices=("on", "off"), default="off", help="qemu: offer shadow doorbells (default %(default)s)")
    parser.add_argument("--lba", type=int, choices=(512, 4096), default=512, help="qemu: bytes of a logical block")
    parser.add_argument("--size-mib", type=int, default=2048, help="qemu: size of the drive (default %(default)s)")
    parser.add_argument("--smp", type=int, default=1, help="guest CPUs, and so I/O queues (default %(default)s)")
    parser.add_argument("--profile", default="intel-660p-1tb", help="vfio: SSD profile (default %(default)s)")
    parser.add_argument("--guest-trace", action="store_true", help="record the guest kernel's NVMe events too")
    parser.add_argument("--io-log", action="store_true", help="let fio log every I/O (latency, offset): fio-<k>_lat.<job>.log")
    parser.add_argument(
        "--qemu-arg", action="append", default=[], metavar="ARG", help="another word for QEMU's command line (QEMU's drive is bus nvme0)"
    )
    parser.add_argument(
        "--kernel-arg", action="append", default=[], metavar="WORD", help="another word for the kernel, such as nvme.max_host_mem_size_mb=0"
    )
    parser.add_argument("--quiet", type=float, default=QUIET_S, metavar="SECONDS", help=QUIET_HELP)
    options = parser.parse_args()
    started = time.monotonic()
    try:
        run(options)
    except GuestError as error:
        die(str(error))
    print(f"guest: done in {time.monotonic() - started:.1f} s, results in {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
