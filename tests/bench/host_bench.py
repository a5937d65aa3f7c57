"""Speed of the host side, as ratios: decoding on one core, and recording live.

    python -m tests.bench.host_bench [--json] [--seconds S] [--runs R] [--urgent]

Decode: a realistic stream (``host_stream.py``) from memory to numpy columns, in one thread; compared with USB high
speed (42 MB/s) and with one bare ``zlib.crc32`` pass over the same bytes, both measured in CPU time.

Live: a process writes the stream at 42 MB/s; a recorder process (``wattbell record``'s own code) reads it into a
capture. Its CPU time (user and system, all threads, the completion of the capture included) for each 42 MB is the
share of a core. The transport is a pty, as a virtual rig has, and then a pipe behind the same reader, which shows
what the tty layer of Linux costs: it hands out at most 4095 bytes at a time. The share of a process that only reads
the transport and drops the bytes is given beside both; the rest, ``share_without_reading``, is the recorder's own.
``share_for_live_view`` is the cost of the summary for live views (aim: at most a tenth of a core). The same run has a
recorder without a summary; the cost is the difference of their CPU times in user mode. Time in system mode varies by
more. Two mixes: mostly command records, mostly rail samples. The feeder's actual rate is given; where it
is below 42 MB/s the share is scaled up to it. Of several runs, the figures come from the run with the median share; ``share_best`` and
``share_worst`` show the spread. ``--urgent`` (as root) gives feeder and recorder real-time priority, so that a loaded machine still feeds
at the full rate.
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
import zlib
from collections.abc import Callable
from pathlib import Path

from tests.bench.host_stream import MIXES, make_stream

HERE = Path(__file__).resolve().parent

USB_HIGH_SPEED = 42e6
"""Bytes per second of USB 2.0 high speed in practice."""
AIM_SHARE = 0.15
AIM_LIVE_VIEW = 0.10
TRANSPORTS = ("pty", "pipe")


def best_cpu_s(work: Callable[[], object], repeat: int = 5) -> float:
    """Best of some passes, by CPU time, so that other programs have little influence."""
    times = []
    for _ in range(repeat):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def bench_decode(stream: bytes) -> dict[str, float]:
    """Decode from memory in pieces of 1 MiB."""
    from wattbell.wire.decode import StreamDecoder

    def decode() -> None:
        decoder = StreamDecoder()
        for start in range(0, len(stream), 1 << 20):
            decoder.feed(stream[start : start + (1 << 20)])
        decoder.finish()
        assert decoder.counters.lossless

    decode_s, crc_s = best_cpu_s(decode), best_cpu_s(lambda: zlib.crc32(stream))
    rate = len(stream) / decode_s
    return {
        "decode_mb_s": rate / 1e6,
        "ratio_to_usb_high_speed": rate / USB_HIGH_SPEED,
        "aim_ratio_to_usb_high_speed": 10,
        "zlib_crc32_mb_s": len(stream) / crc_s / 1e6,
        "ratio_to_zlib_crc32": crc_s / decode_s,
    }


def bench_live(stream: Path, transport: str, what: str, first: tuple[str, ...] = ()) -> dict[str, float]:
    """`what` (``record`` or ``read``) done with `stream` at 42 MB/s: rate reached, and shares of a core."""
    with tempfile.TemporaryDirectory(prefix="wattbell-bench-", dir=stream.parent) as folder:
        environment = {**os.environ, "WATTBELL_RUNTIME": folder}
        told, size = Path(folder, "told"), stream.stat().st_size
        feed = [*first, sys.executable, str(HERE / "host_bench_feeder.py"), str(stream), str(USB_HIGH_SPEED), str(told)]
        take = [*first, sys.executable, str(HERE / "host_bench_reader.py"), what, f"{folder}/capture", str(size)]
        ours: list[int] = []
        passed: tuple[int, ...] = ()
        if transport == "pipe":
            (data_out, data_in), (control_out, control_in) = os.pipe(), os.pipe()
            ours = [data_out, data_in, control_out, control_in]
            feed += [str(data_in), str(control_out)]
            take += [str(data_out), str(control_in)]
            passed = tuple(ours)
        with subprocess.Popen(feed, env=environment, pass_fds=passed[1:3]) as feeder:
            try:
                while transport == "pty" and not Path(folder, "rigs", "BENCH.json").exists():
                    time.sleep(0.01)
                    assert feeder.poll() is None, "the feeder failed; its message stands above"
                taken = passed[:1] + passed[3:]
                command = subprocess.Popen(take, env=environment, stdout=subprocess.PIPE, pass_fds=taken)
                for descriptor in ours:
                    os.close(descriptor)
                try:
                    output, _ = command.communicate()
                finally:
                    command.kill()
                assert command.returncode == 0, "the recorder failed; its message stands above"
            finally:
                feeder.kill()
        spent, scale = json.loads(output), USB_HIGH_SPEED / size
        return {
            "mb_s": json.loads(told.read_text())["rate"] / 1e6,
            "share": (spent["user_s"] + spent["system_s"]) * scale,
            "share_user": spent["user_s"] * scale,
            "share_system": spent["system_s"] * scale,
        }


def repeated(runs: int, *what: object, **how: object) -> dict[str, float]:
    """The run with the median share of `runs`, with the best and the worst share."""
    found = sorted((bench_live(*what, **how) for _ in range(runs)), key=lambda one: one["share"])  # type: ignore[arg-type]
    middle = found[(runs - 1) // 2]
    return {**middle, "share_best": found[0]["share"], "share_worst": found[-1]["share"]}


def urgent() -> tuple[str, ...]:
    """Prefix of a command that is to run at real-time priority."""
    if os.geteuid() or not shutil.which("nice"):
        sys.exit("--urgent needs root")
    return ("nice", "-n", "-20")


def run(seconds: float = 5.0, runs: int = 3, first: tuple[str, ...] = ()) -> dict[str, dict[str, object]]:
    """Every figure; each live one with `seconds` of stream."""
    live: dict[str, object] = {"aim_share": AIM_SHARE}
    with tempfile.TemporaryDirectory(prefix="wattbell-bench-") as folder:
        stream = Path(folder, "stream")
        for mix in MIXES:
            stream.write_bytes(make_stream(int(seconds * USB_HIGH_SPEED), mix))
            for transport in TRANSPORTS:
                bare = repeated(runs, stream, transport, "read", first=first)
                recorded = repeated(runs, stream, transport, "record", first=first)
                recorded["share_without_reading"] = recorded["share"] - bare["share"]
                if transport == "pipe":
                    blind = repeated(runs, stream, transport, "blind", first=first)
                    recorded["share_for_live_view"] = recorded["share_user"] - blind["share_user"]
                    recorded["aim_share_for_live_view"] = AIM_LIVE_VIEW
                live[f"{transport}, {mix}"] = recorded
                live[f"{transport}, {mix}, only read"] = bare
    return {"decode": bench_decode(make_stream(32 << 20)), "live": live}


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seconds", type=float, default=5.0, help="of live recording (default %(default)s)")
    parser.add_argument("--runs", type=int, default=3, help="of each live measurement (default %(default)s)")
    parser.add_argument("--urgent", action="store_true", help="feeder and recorder before everything else (root)")
    options = parser.parse_args()
    found = run(options.seconds, options.runs, urgent() if options.urgent else ())
    if options.json:
        print(json.dumps(found, indent=1))
        return
    decode, live = found["decode"], found["live"]
    print(f"decode, one core            {decode['decode_mb_s']:8.0f} MB/s")
    print(f"  / USB high speed (42 MB/s){decode['ratio_to_usb_high_speed']:8.1f} x   (aim: 10)")
    print(f"  / bare zlib.crc32         {decode['ratio_to_zlib_crc32']:8.2f} x   ({decode['zlib_crc32_mb_s']:.0f} MB/s)")
    print(f"share of a core at 42 MB/s, % (aim: {100 * live.pop('aim_share'):.0f})   user  system     all    best   worst   fed at, MB/s")
    for name, figures in live.items():
        shares = "".join(f"{100 * figures[key]:8.1f}" for key in ("share_user", "share_system", "share", "share_best", "share_worst"))
        view = f"   of it for live views {100 * figures['share_for_live_view']:.1f}" if "share_for_live_view" in figures else ""
        print(f"  {name:38s}{shares}{figures['mb_s']:11.1f}{view}")


if __name__ == "__main__":
    main()
