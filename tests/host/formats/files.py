"""Files as the programs of other instruments write them, by the layouts those publish. Nothing here knows the readers."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyjls

F64 = npt.NDArray[np.float64]


def jls(
    path: Path,
    rate: int,
    signals: dict[str, tuple[str, F64]],
    *,
    start: dict[str, int] | None = None,
    utc: Sequence[tuple[int, float]] = (),
    kind: Any = pyjls.DataType.F32,
    gap: tuple[int, int] | None = None,
) -> Path:
    """A recording of a Joulescope by its own library. ``signals``: (unit, samples) by name; ``start``: sample id of the first of each;
    ``utc``: (sample id, s since 1970); ``gap``: samples ``[first, last)`` that were never written."""
    writer = pyjls.Writer(str(path))
    writer.source_def(1, name="JS220-001122", vendor="Jetperch", model="JS220", version="1.0.4", serial_number="001122")
    for number, (name, (unit, _)) in enumerate(signals.items(), start=1):
        writer.signal_def(number, 1, signal_type=pyjls.SignalType.FSR, data_type=kind, sample_rate=rate, name=name, units=unit)
    # All signals before any data: signal_def keeps the GIL while it waits for the library's thread, which wants it to log a gap.
    for number, (name, (_, samples)) in enumerate(signals.items(), start=1):
        begin = (start or {}).get(name, 0)
        data = samples.astype(np.float32 if kind == pyjls.DataType.F32 else np.int16)
        for first, last in ((0, len(data)),) if gap is None else ((0, gap[0]), (gap[1], len(data))):
            writer.fsr(number, begin + first, np.ascontiguousarray(data[first:last]))
        for sample, seconds in utc:
            writer.utc(number, sample, int((seconds - pyjls.time64.EPOCH) * pyjls.time64.SECOND))
    writer.close()
    return path


def ppk2(path: Path, current_ua: Sequence[float], *, every_us: int = 10, lost: Sequence[int] = (), digital: bool = True) -> Path:
    """nRF Connect Power Profiler: microseconds by 1000, microamperes with three digits, rows of lost samples left out."""
    with open(path, "w") as out:
        out.write("Timestamp(ms),Current(uA)" + (",D0-D7,D0,D1,D2,D3,D4,D5,D6,D7" if digital else "") + "\n")
        for n, value in enumerate(current_ua):
            if n not in lost:
                out.write(f"{_js(n * every_us / 1000)},{value:.3f}{',00000000,0,0,0,0,0,0,0,0' if digital else ''}\n")
    return path


def _js(value: float) -> str:
    """A number as JavaScript prints it."""
    return str(int(value)) if value == int(value) else repr(value)


def quarch(
    path: Path,
    voltage_mv: Sequence[int],
    current_ua: Sequence[int],
    *,
    step: int = 4,
    unit: str = "uS",
    lost: Sequence[int] = (),
    remark: str = "",
) -> Path:
    """QPS and QIS, header v3, with a second rail."""
    with open(path, "w", newline="") as out:
        out.write(f"Time {unit},3.3V voltage mV,3.3V current uA,12V voltage mV,12V current uA,Tot uW\r\n")
        for n, (v, i) in enumerate(zip(voltage_mv, current_ua, strict=True)):
            if n not in lost:
                out.write(f"{n * step},{v},{i},12000,5,{v * i // 1000}\r\n")
        if remark:
            out.write(remark + "\r\n")
    return path


def powersensor3(path: Path, volts: F64, amps: F64, *, lost: range = range(0), stall: int = -1000, absolute: float | None = None) -> Path:
    """Its host library: elapsed seconds with six digits as iostream prints them (or UTC), the device's 50 us modulo 1024."""
    with open(path, "w") as out:
        out.write("marker time dt_micro device_timestamp current0 voltage0 power0 current2 voltage2 power2 power_total\n")
        before = host = 0.0
        for n, (v, a) in enumerate(zip(volts, amps, strict=True)):
            if n in lost:
                continue
            device_us = 333 + 50 * n
            host = max(host, n * 50e-6 + 2e-4 + (5e-3 if stall <= n < stall + 90 else 0.0))
            shown = f"{host:.6g}" if absolute is None else f"{absolute + host:.6f}"
            mark = "A" if n == 7 else "S"
            out.write(
                f"{mark} {shown} {int(1e6 * (host - before))} {device_us % 1024} {a:g} {v:g} {v * a:g} 0.5 12.1 6.05 {v * a + 6.05:g}\n"
            )
            before = host
    return path


def otii(path: Path, every_s: float, values: Sequence[float]) -> Path:
    """One channel."""
    with open(path, "w") as out:
        out.write('"Timestamp","Value"\n')
        for n, value in enumerate(values):
            out.write(f"{n * every_s:.6f},{value:.9f}\n")
    return path


def statistics(path: Path, current: Sequence[float], voltage: Sequence[float], power: Sequence[float]) -> Path:
    """Joulescope UI, twice a second."""
    with open(path, "w") as out:
        out.write("#time,current,voltage,power,charge,energy\n")
        for n, (i, v, p) in enumerate(zip(current, voltage, power, strict=True)):
            out.write(f"{n * 0.5:.1f},{i:g},{v:g},{p:g},{n * 0.5 * i:g},{n * 0.5 * p:g}\n")
    return path


def sigrok(path: Path, rate: str, channels: dict[str, F64], *, chunk: int = 1000, probes: int = 8) -> Path:
    """srzip version 2, chunks in the order in which a directory lists them: 1, 10, 11, 2."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("version", "2")
        lines = ["[global]", "sigrok version=0.5.2", "", "[device 1]", "capturefile=logic-1", f"total probes={probes}"]
        lines += [f"samplerate={rate}", f"total analog={len(channels)}", "probe1=D0", "unitsize=1"]
        lines += [f"analog{probes + 1 + n}={name}" for n, name in enumerate(channels)]
        out.writestr("metadata", "\n".join(lines) + "\n")
        for n, values in enumerate(channels.values()):
            parts = [values[i : i + chunk] for i in range(0, len(values), chunk)]
            for name, part in sorted((f"analog-1-{probes + 1 + n}-{k + 1}", part) for k, part in enumerate(parts)):
                out.writestr(name, part.astype("<f4").tobytes())
    return path


def ppk2_session(
    path: Path, microamperes: F64, *, rate: int = 100_000, started_ms: int | None = 1_700_000_000_000, version: int = 2, extra: bytes = b""
) -> Path:
    """nRF Connect Power Profiler, saveFileHandler.ts and globals.ts: float32 little-endian and 16 bits big-endian a sample."""
    frames = np.zeros(len(microamperes), np.dtype([("i", "<f4"), ("bits", ">u2")]))
    frames["i"], frames["bits"] = microamperes, 0xAAAA
    start = "" if started_ms is None else f',"startSystemTime":{started_ms}'
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("session.raw", frames.tobytes() + extra)
        out.writestr("minimap.raw", "{}")
        out.writestr("metadata.json", f'{{"metadata":{{"samplesPerSecond":{rate}{start}}},"formatVersion":{version}}}')
    return path
