#!/usr/bin/env python3
"""A bench in a box: a Linux guest with the modelled drive as /dev/nvme0n1 and the virtual rig on two serial ports.

    box.py --out build/box --script 'wattbell run quick --drive /dev/nvme0n1 --serial ... --rig /dev/ttyS1,/dev/ttyS2'

The guest sees this machine's own file system, read-only with a tmpfs on top. It runs this machine's Python and this checkout's
``wattbell``; fio and nvme-cli come from the guest stack. The drive is the SSD model over vfio-user. The virtual rig records the
traffic at the drive's connector as it happens. The rig's ports are the guest's /dev/ttyS1 (data) and /dev/ttyS2 (control) under the
kernel's 8250 driver.

The script runs as root in /run/box, which is OUT, and its files stay there. OUT also gets ``console.log`` (the script's output),
``exit-code``, ``dmesg.txt`` and ``trace.wbt``. Needs root.

With ``--rail-only`` the rig has no tap and sees only the rail and the sidebands. With ``--virtio`` the ports are /dev/hvc0,
/dev/hvc1, ... of virtio's console, which carries 100 times as much as QEMU's UART.

``--port PATH`` gives the guest another serial port, the next /dev/ttyS, on a terminal of this machine. With ``--no-drive`` there
are only these ports: no drive and no rig.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from run import QUIET_HELP, QUIET_S, START_S, SignsOfLife, guest_binary, memory, qemu_command, start_vfio, stop_server, tail
from stack import CHECKOUT, GuestError, Stack, die, stack_dir

SERIAL = "BOX1"


def started(stack: ExitStack, command: list[str], log: Path, **options: object) -> subprocess.Popen[bytes]:
    """Start a program that ends with ``stack``; its output goes to ``log``."""
    file = stack.enter_context(log.open("wb"))
    process = subprocess.Popen(command, stderr=file, **{"stdout": file, **options})  # type: ignore[call-overload]
    ends_with(stack, process)
    return process


def ends_with(stack: ExitStack, process: subprocess.Popen[bytes]) -> None:
    """End ``process`` with ``stack``, if it has not ended by itself."""

    def end() -> None:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    stack.callback(end)


def wait_for(path: Path, process: subprocess.Popen[bytes], log: Path, what: str) -> None:
    """Wait until ``path`` exists. Raises GuestError with the program's output if it does not appear."""
    deadline = time.monotonic() + START_S
    while not path.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise GuestError(f"{what} did not start:\n{tail(log)}")
        time.sleep(0.05)


def share(
    stack: ExitStack, guest: Stack, work: Path, tag: str, folder: Path, *, read_only: bool
) -> tuple[subprocess.Popen[bytes], list[str]]:
    """Serve ``folder`` to the guest under ``tag``; return the server, and QEMU's arguments for the folder."""
    socket = work / f"{tag}.sock"
    program = [*guest.run_prefix("x")[:-1], str(guest.tree / "usr/libexec/virtiofsd")]
    # overlayfs takes no file system with automounts below it
    words = [f"--socket-path={socket}", f"--shared-dir={folder}", "--sandbox=none", "--no-announce-submounts"]
    words.append("--cache=always" if read_only else "--cache=auto")
    if read_only:
        words.append("--readonly")
    server = started(stack, [*program, *words], work / f"{tag}.log")
    wait_for(socket, server, work / f"{tag}.log", "virtiofsd")
    return server, ["-chardev", f"socket,id={tag},path={socket}", "-device", f"vhost-user-fs-pci,chardev={tag},tag={tag}"]


def slot(text: str) -> list[str]:
    """Return QEMU's arguments for a root port such as ``8x4`` (GT/s, lanes); none for an empty text. Raises GuestError."""
    if not text:
        return []
    speed, _, width = text.partition("x")
    if speed not in ("2_5", "5", "8", "16") or width not in ("1", "2", "4", "8", "16"):
        raise GuestError(f"--slot {text}: GT/s (2_5, 5, 8, 16), an x, and lanes, such as 8x4")
    return ["-device", f"pcie-root-port,id=above,bus=pcie.0,chassis=1,slot=1,x-speed={speed},x-width={width}"]


def start_rig(stack: ExitStack, work: Path, trace: Path, options: list[str], rail_only: bool) -> dict[str, str]:
    """Start the virtual rig on the growing trace; return its ports. A pipe alone would stall the drive while nobody records."""
    follow = started(stack, ["tail", "--bytes=+1", "--follow", str(trace)], work / "tail.log", stdout=subprocess.PIPE)
    if rail_only:
        script = [sys.executable, str(Path(__file__).with_name("rail_only.py"))]
        follow = started(stack, script, work / "rail-only.log", stdin=follow.stdout, stdout=subprocess.PIPE)
    environment = {**os.environ, "WATTBELL_RUNTIME": str(work / "runtime")}
    rig = started(
        stack,
        [str(guest_binary().with_name("wattbell-rig")), "play", "-", "--serial", SERIAL, *options],
        work / "rig.log",
        stdin=follow.stdout,
        env=environment,
    )
    registration = work / "runtime" / "rigs" / f"{SERIAL}.json"
    wait_for(registration, rig, work / "rig.log", "the virtual rig")
    ports: dict[str, str] = json.loads(registration.read_text())
    return ports


def run(options: argparse.Namespace) -> int:
    """Boot the box and run the script; return its exit code. Raises GuestError."""
    guest = Stack(stack_dir())
    guest.check()
    out: Path = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    for stale in ("trace.wbt", "truth.json", "truth-commands.csv", "exit-code", "console.log"):
        (out / stale).unlink(missing_ok=True)
    python = Path(sys.executable).parent if sys.prefix != sys.base_prefix else CHECKOUT / ".venv/bin"
    (out / "script").write_text(
        f"export PATH={python}:$PATH PYTHONPATH={os.environ.get('PYTHONPATH', '')} PYTHONDONTWRITEBYTECODE=1\n"
        f"cd /run/box\n{options.script}\n"
    )
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="wattbell-box-")))
        server, drive, ports, above = None, memory(), list(options.port), slot(options.slot)
        if options.drive:
            server, drive = start_vfio(options, work, out, "above" if above else "")
            ends_with(stack, server)
            rig = start_rig(stack, work, out / "trace.wbt", options.rig_arg, options.rail_only)
            ports = [rig["data"], rig["control"], *ports]
        machine, machine_words = share(stack, guest, work, "host", Path("/"), read_only=True)
        folder, folder_words = share(stack, guest, work, "box", out, read_only=False)
        servers = [machine, folder, *([server] if server else [])]
        extra = [*machine_words, *folder_words]
        if options.virtio:
            extra += ["-device", "virtio-serial-pci"]
        for number, path in enumerate(ports, start=1):
            device = "virtconsole" if options.virtio else "pci-serial"
            extra += ["-chardev", f"serial,id=port{number},path={path}", "-device", f"{device},chardev=port{number}"]
        for name in ("jobs.tar", "out.tar"):
            (work / name).write_bytes(bytes(512))
        words = qemu_command(guest, work, [*above, *drive], options.smp)
        kernel = words.index("-append") + 1
        words[kernel] += " rdinit=/box-init" + ("" if options.drive else " box.drive=none")
        # Programs here time their waits for serial ports. On a busy machine the kernel measured its TSC 20 times too slow.
        words[kernel] = words[kernel].replace("tsc=reliable", "tsc=unstable clocksource=hpet")
        qemu = started(
            stack, [*words, *extra, *options.qemu_arg], out / "qemu-stderr.txt", env=guest.environment(), stdin=subprocess.DEVNULL
        )
        signs = SignsOfLife([out / "console.log", work / "console.txt"], servers)
        try:
            while qemu.poll() is None:
                if signs.quiet_s() > options.quiet:
                    qemu.kill()
                    raise GuestError(
                        f"the box hangs: no sign of life for {options.quiet:.0f} s (--quiet). The script said:\n"
                        f"{tail(out / 'console.log')}\nThe console:\n{tail(work / 'console.txt')}"
                    )
                time.sleep(0.1)
        finally:
            for log in ("console.txt", "rig.log", "host.log", "box.log"):
                if (work / log).is_file():
                    shutil.copy(work / log, out / log)
        if qemu.returncode:
            raise GuestError(f"QEMU ended early (exit {qemu.returncode}):\n{tail(out / 'qemu-stderr.txt')}")
        if server:
            stop_server(server, out)
    code = out / "exit-code"
    if not code.is_file():
        raise GuestError(f"the guest ended early. Its console ends with:\n{tail(out / 'console.txt')}")
    return int(code.read_text())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--script", required=True, help="shell script for the guest")
    parser.add_argument("--out", type=Path, required=True, help="folder for the results; /run/box of the guest")
    parser.add_argument("--profile", default="intel-660p-1tb", help="SSD profile (default %(default)s)")
    parser.add_argument("--no-drive", dest="drive", action="store_false", help="neither drive nor rig: only the ports of --port")
    parser.add_argument("--slot", default="", metavar="SPEEDxLANES", help="put the drive behind a root port such as 16x4 (GT/s, lanes)")
    parser.add_argument("--port", action="append", default=[], metavar="PATH", help="a terminal that is the guest's next /dev/ttyS")
    parser.add_argument("--smp", type=int, default=1, help="guest CPUs (default %(default)s)")
    parser.add_argument("--virtio", action="store_true", help="ports of virtio's console in place of UARTs")
    parser.add_argument("--rail-only", action="store_true", help="the rig has no tap")
    parser.add_argument("--rig-arg", action="append", default=[], metavar="ARG", help="another word for wattbell-rig play")
    parser.add_argument("--qemu-arg", action="append", default=[], metavar="ARG", help="another word for QEMU")
    parser.add_argument("--quiet", type=float, default=QUIET_S, metavar="SECONDS", help=QUIET_HELP)
    options = parser.parse_args()
    try:
        code = run(options)
    except GuestError as error:
        die(str(error))
    sys.stdout.write((options.out / "console.log").read_text(errors="replace"))
    return code


if __name__ == "__main__":
    sys.exit(main())
