"""A process that behaves like a rig's two serial ports and plays a recorded stream, with faults on demand.

It unplugs, damages and stalls a stream at chosen places. It answers the few SCPI lines that a recorder sends. It counts its written
bytes in the file given by --sent. SIGUSR1 lifts its rate limit.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import select
import signal
import struct
import termios
import time
import tty
from pathlib import Path


class Ports:
    def __init__(self, serial: str, folder: Path) -> None:
        self.serial, self.folder = serial, folder
        self.data, data_slave = os.openpty()
        self.control, control_slave = os.openpty()
        for slave in (data_slave, control_slave):
            tty.setraw(slave)
        self.slaves = (data_slave, control_slave)
        entry = {
            "serial": serial,
            "data": os.ttyname(data_slave),
            "control": os.ttyname(control_slave),
            "pid": os.getpid(),
        }
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{serial}.tmp").write_text(json.dumps(entry))
        os.replace(folder / f"{serial}.tmp", folder / f"{serial}.json")

    def let_read(self, patience_s: float = 10.0) -> None:
        """Wait until the reader has drained the ptys: on a busy machine it may lag behind."""
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            time.sleep(0.3)  # bytes that a full line discipline has not accepted yet are not counted
            if not any(struct.unpack("i", fcntl.ioctl(slave, termios.FIONREAD, b"\0" * 4))[0] for slave in self.slaves):
                return

    def close(self) -> None:
        (self.folder / f"{self.serial}.json").unlink()
        for fd in (*self.slaves, self.data, self.control):
            os.close(fd)


class Feeder:
    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.stream = Path(args.stream).read_bytes()
        self.position = 0
        self.running = False
        self.taken = False
        self.error = '0,"No error"'
        self.line = b""
        self.folder = Path(os.environ["WATTBELL_RUNTIME"]) / "rigs"
        self.ports = Ports(args.serial, self.folder)

    def answer(self) -> None:
        self.line += os.read(self.ports.control, 4096)
        while b"\n" in self.line:
            text, _, self.line = self.line.partition(b"\n")
            if self.args.heard:
                with open(self.args.heard, "ab") as heard:
                    heard.write(text + b"\n")
            reply = None
            if text == b"*IDN?":
                reply = f"Wattbell,feeder,{self.args.serial},0.1"
            elif text == b"SYST:ERR?":
                reply, self.error = self.error, '0,"No error"'
                self.taken = self.running
            elif text in (b"SYST:TICK?", b"SENS:SWE:TINT?", b"SENS:SWE:DEC?"):
                reply = {b"SYST:TICK?": "500", b"SENS:SWE:TINT?": "1E-6", b"SENS:SWE:DEC?": "1"}[text]
            elif text == b"STAT:RIG?":
                reply = f"state={'RUN' if self.running else 'READY'}"
            elif text.startswith(b"SENS:RUN") and self.args.old:
                self.error = '-113,"Undefined header"'
            elif text == b"INIT" and self.args.refuse:
                self.error = '-200,"Execution error"'
            elif text == b"INIT":
                if self.running or self.args.running:
                    self.error = '-213,"Init ignored"'
                self.running = True
            elif text == b"ABOR":
                self.running = False
                self.position = max(self.position, len(self.stream) - self.args.tail)
                self.args.then_stop = True
            if reply is not None:
                os.write(self.ports.control, reply.encode() + b"\n")

    def run(self) -> None:
        args = self.args
        started = time.monotonic()
        signal.signal(signal.SIGUSR1, lambda *_: setattr(args, "rate", None))
        cut_at = args.cut_at
        sent_file = open(args.sent, "w") if args.sent else None  # noqa: SIM115
        while True:
            if args.rate and not self.running:
                started = time.monotonic() - self.position / args.rate  # pace the data as the capture was
            due = self.position < len(self.stream) and (self.running or args.then_stop)
            if args.rate and due and not args.then_stop:
                due = self.position < (time.monotonic() - started) * args.rate
            writers = [self.ports.data] if due else []
            readable, writable, _ = select.select([self.ports.control], writers, [], 0.01)
            if readable:
                try:
                    self.answer()
                except OSError:
                    time.sleep(0.01)
            if writable:
                stop = len(self.stream) if cut_at is None else cut_at
                self.position += os.write(self.ports.data, self.stream[self.position : min(self.position + 4096, stop)])
                if sent_file:
                    sent_file.seek(0)
                    sent_file.write(f"{self.position:20d}")
                    sent_file.flush()
            if cut_at is not None and self.position >= cut_at and self.taken:  # not before the answer to INIT
                self.ports.let_read()
                self.ports.close()
                time.sleep(args.cut_seconds)
                self.position += args.cut_skip
                cut_at = None
                self.running = self.taken = False  # opening a port flushes it: wait for INIT, so that the loss is known
                self.ports = Ports(args.serial, self.folder)
            if self.position >= len(self.stream) and args.exit_at_end:
                time.sleep(0.5)
                return


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--stream", required=True)
    parser.add_argument("--serial", default="FEED1")
    parser.add_argument("--rate", type=float, help="bytes a second; as fast as possible when left out")
    parser.add_argument("--cut-at", type=int, help="unplug after this many bytes")
    parser.add_argument("--cut-seconds", type=float, default=0.5)
    parser.add_argument("--cut-skip", type=int, default=0, help="bytes of the stream lost while unplugged")
    parser.add_argument("--tail", type=int, default=0, help="bytes at the end that a stop leaves to send")
    parser.add_argument("--sent", help="file that holds the count of bytes written")
    parser.add_argument("--exit-at-end", action="store_true")
    parser.add_argument("--heard", help="file that gets every line it was sent")
    parser.add_argument("--running", action="store_true", help="it says that it captures already")
    parser.add_argument("--refuse", action="store_true", help="it does not start to capture")
    parser.add_argument("--old", action="store_true", help="it knows of no SENS:RUN")
    args = parser.parse_args()
    args.then_stop = False
    feeder = Feeder(args)
    try:
        feeder.run()
    except KeyboardInterrupt:
        pass
    finally:
        feeder.ports.close()


if __name__ == "__main__":
    main()
