"""Bench session for test_real_drive.py, in the Linux guest of sim/guest/box.py; leaves all output in /run/box.

Each `wattbell` is a separate process, forked after the imports: these take the emulated processor ten seconds.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from wattbell.cli import main
from wattbell.drive import bench as bench_module
from wattbell.wire.decode import StreamDecoder

RIG = "/dev/ttyS1,/dev/ttyS2"
JOURNALLED = 40_000
"""Bytes of the host's log: some hundred commands, and some records without a command."""
TAPPED = 60
"""Further commands, seen by the tap."""
HUNG_S = 1200
"""Limit in s: twenty times the longest session on an idle machine. A session that hangs then writes its threads' stacks into its
own file, and ends.
"""
FOUND_S = 1200.0
"""Limit in s for the rig's clock, in place of a minute: beside two busy processes the simulated rig is minutes behind the drive."""
times: dict[str, float] = {}
"""Seconds since the guest's boot at which each action was done."""


def start(name: str, *arguments: str) -> int:
    """Start `wattbell run ARGUMENTS` with its output in NAME.txt; return its process id."""
    file = os.open(f"{name}.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    child = os.fork()
    if child:
        os.close(file)
        return child
    for stream in (1, 2):
        os.dup2(file, stream)
    faulthandler.dump_traceback_later(HUNG_S, exit=True, file=2)
    if name != "elsewhere":  # its rig is at another drive, and never shows this drive's traffic
        bench_module._FOUND_S = FOUND_S
    sys.argv = ["wattbell", "run", *arguments]
    code = 0
    try:
        main()
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 1 if left.code else 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def tapped(capture: str) -> int:
    """Return the tap's I/O commands that a recorder has journalled: beside two busy processes the rig is minutes behind the drive."""
    stream = Path(capture, "stream.wbs")
    batches = StreamDecoder().feed(stream.read_bytes()) if stream.exists() else []
    return sum(int((batch.commands.columns["qid"] > 0).sum()) for batch in batches if batch.commands is not None)


def end(name: str, child: int) -> None:
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    Path(f"{name}.code").write_text(str(code))
    times[name] = time.monotonic()


def ended(child: int) -> bool:
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def wait_for(name: str, words: str, child: int) -> None:
    """Wait until NAME.txt has these words, or nobody writes it any more."""
    while words not in Path(f"{name}.txt").read_text() and not ended(child):
        time.sleep(0.1)


def run(name: str, *arguments: str) -> None:
    end(name, start(name, *arguments))


def shell(command: str) -> str:
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=True).stdout


def drives() -> dict[str, str]:
    """Return the controllers by the serial numbers of their drives."""
    return {(folder / "serial").read_text().strip(): folder.name for folder in Path("/sys/class/nvme").iterdir()}


def namespaces(controller: str) -> dict[int, str]:
    """Return the block devices of a controller by NSID: the kernel numbers them in the order in which it finds them, which may be
    any.
    """
    return {int((block / "nsid").read_text()): block.name for block in Path("/sys/class/nvme", controller).glob("nvme*n*")}


def settings(name: str, controller: str) -> None:
    """Write into NAME.txt everything that a run may change of a drive and its link, as the kernel, nvme-cli and lspci show it."""
    node = Path("/sys/class/nvme") / controller
    device = (node / "device").resolve()
    files = [node / "power/pm_qos_latency_tolerance_us", device / "power/control", *sorted((device / "link").iterdir())]
    files += [file for block in sorted(node.glob("nvme*n*")) for file in (block / "queue/nomerges", block / "queue/scheduler")]
    lines = [f"{file}: {file.read_text().strip()}" for file in files if file.exists()]
    lines.append(subprocess.run(["nvme", "get-feature", f"/dev/{controller}", "-f", "2"], capture_output=True, text=True).stdout)
    for address in (device.parent.name, device.name):
        lines += [line.strip() for line in shell(f"lspci -vv -s {address}").splitlines() if "Lnk" in line]
    Path(f"{name}.txt").write_text("\n".join(lines) + "\n")


def bench(first: str, second: str) -> None:
    times["imports"] = time.monotonic()
    found = drives()
    drive, other = f"/dev/{found[first]}n1", found[second]
    sampling = ("--interval", "0.001", "--decimation", "8", "--rig", RIG, "--no-store", "--no-page")
    device = Path(f"/sys/class/nvme/{found[first]}/device").resolve()
    for name, address in (("slot", device.parent.name), ("drive", device.name)):
        Path(f"lspci-{name}.txt").write_text(shell(f"lspci -vv -s {address}"))

    # namespace 2 of the second drive; the first namespace holds somebody's file system
    kept, tested = (namespaces(other)[nsid] for nsid in (1, 2))
    Path("namespaces.txt").write_text(f"{kept} {tested}")
    shell(f"mkfs.ext4 -q /dev/{kept} 16M; mkdir -p /mnt/data; mount /dev/{kept} /mnt/data; echo kept > /mnt/data/file")
    target = (f"/dev/{tested}", "--serial", second, "--yes")
    run("wrong", "suite", "--drive", drive, "--serial", "NOT-THIS-ONE", "--yes", "--out", "refused", *sampling)
    run("unasked", "suite", "--drive", drive, "--serial", first, "--out", "refused", *sampling)
    run("mounted", "suite", "--drive", *target, "--out", "refused", *sampling)
    shell("umount /mnt/data")
    shell("echo powersave > /sys/module/pcie_aspm/parameters/policy")
    settings("before", other)
    run("elsewhere", "suite", "--drive", *target, "--out", "elsewhere", *sampling)
    settings("elsewhere-after", other)
    # with the kernel's log in place of a tap; the rail is the first drive's, and is not used here
    shell("mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing")
    by_the_log = ("--interval", "0.001", "--decimation", "8", "--meter", f"rig:{RIG}", "--commands", "trace", "--no-store", "--no-page")
    interrupted = start("interrupted", "suite", "--drive", *target, "--out", "second", *by_the_log)
    wait_for("interrupted", "fill", interrupted)
    settings("during", other)
    os.kill(interrupted, signal.SIGINT)
    end("interrupted", interrupted)
    settings("after", other)
    shell(f"mount /dev/{kept} /mnt/data; cp /mnt/data/file kept.txt; umount /mnt/data")
    times["second"] = time.monotonic()

    settings("whole-before", found[first])
    run("whole", "suite", "--drive", drive, "--serial", first, "--yes", "--out", "first", *sampling)
    # these only read, and are not asked for the serial number
    rig = ("--interval", "0.001", "--decimation", "8", "--rig", RIG)
    run("job", "suite/read.fio", "--drive", drive, "--out", "job", *rig, "--commands", "fio", "--keep-stream")
    run("plan", "asleep.toml", "--drive", drive, "--out", "plan", *rig)
    run("trace", "reads.iolog", "--drive", drive, "--out", "trace", *rig)
    copy = "dd if=$WATTBELL_DRIVE of=copy.bin bs=64k skip=16 count=8 iflag=direct && exit 7"
    run("command", "--drive", drive, "--out", "command", *rig, "--", "sh", "-c", copy)
    settings("whole-after", found[first])
    shell(f"dd if={drive} of=expected.bin bs=64k skip=16 count=8")

    # killed while fio reads; fio ends too, although it is in a separate session
    killed = start("killed", "long.fio", "--drive", drive, "--out", "killed", *rig, "--commands", "trace")
    journal = Path("killed/commands.arrow")
    while not (journal.exists() and journal.stat().st_size > JOURNALLED and tapped("killed") > TAPPED) and not ended(killed):
        time.sleep(0.1)
    os.kill(killed, signal.SIGKILL)
    end("killed", killed)
    # by its path: fio is a script here that gives way to the loader, and is not called fio
    shell("timeout 60 sh -c \"while pgrep -f '/lib/[f]io '; do sleep 0.1; done\"")

    # the end of the first drive: it disappears while fio reads
    slot = f"lspci -vv -s {device.parent.name} | grep LnkCtl:"
    before = shell(slot)
    gone = start("gone", "long.fio", "--drive", drive, "--out", "gone", *rig)
    wait_for("gone", "1: long/a", gone)
    reads = Path(f"/sys/class/block/{found[first]}n1/stat")
    count = int(reads.read_text().split()[0])
    while int(reads.read_text().split()[0]) < count + 200 and not ended(gone):
        time.sleep(0.1)
    (device / "remove").write_text("1")
    end("gone", gone)
    Path("gone-nodes.txt").write_text(" ".join(sorted(path.name for path in Path("/dev").glob(f"{found[first]}*"))))
    Path("gone-slot.txt").write_text("the same" if shell(slot) == before else shell(slot))


try:
    bench(*sys.argv[1:])
finally:
    Path("times.json").write_text(json.dumps(times))
