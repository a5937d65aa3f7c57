"""Identify Controller and Identify Namespace as nvme-cli prints them with ``-o json``.

- A power state has ``max_power_scale`` and ``non-operational_state`` since nvme-cli 2.6 (2023); before, ``flags`` (bits 0 and 1).
- Up to 2.2, ``idle_scale`` is its byte with the scale in bits 7:6; since then it is the code itself.
- In 1.x, ``active_work_scale`` is APW and APS in one byte. Since 2.3, ``active_power_work`` and ``active_scale`` are there.
- 2.0 to 2.2 print APS alone under the name of 1.x. A value below 40h may be either, and the power is then unknown.
- ``-v`` prints an LBA format's size as ``4096 bytes`` instead of its exponent (2.11).

Wrappers print numbers as text and latencies with units: ``"7439"``, ``"0x1d0f"``, ``"10 s"``, ``"6.20 W"``, ``"81 °C (354 K)"``.
Those that take the plain text of nvme-cli 1.x apart leave VER, RTD3R and RTD3E as hexadecimal digits without ``0x``. A field that is absent
in the file is absent in the result: unknown is not 0.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from ..capture.identify import (
    BLOCK_EXPONENTS,
    IdentifiedDrive,
    IdentifiedNamespace,
    IdentifiedPowerState,
    lba_format,
    power_of,
    printable,
    version_of,
)

Keys = Mapping[str, Any]
_NUMBER = re.compile(r"\s*(0[xX][0-9a-fA-F]{1,32}|\d{1,40})\s*")
_QUANTITY = re.compile(r"\s*(\d{1,12}(?:\.\d{1,9})?)\s*([A-Za-zµμ]+)\.?\s*")
_SECONDS = {
    unit: scale
    for scale, units in (
        (1e-6, ("us", "µs", "μs", "usec", "usecs", "microsecond", "microseconds")),
        (1e-3, ("ms", "msec", "msecs", "millisecond", "milliseconds")),
        (1.0, ("s", "sec", "secs", "second", "seconds")),
    )
    for unit in units
}
_WATTS = {"W": 1.0, "mW": 1e-3}
_BYTES = re.compile(r"\s*(\d{1,10})\s*[Bb]ytes?\b.*")
_SIZE = re.compile(r"\s*(\d{1,10}(?:\.\d{1,9})?)\s*([KMG]i?B)\s*")
_SIZES = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "KB": 1e3, "MB": 1e6, "GB": 1e9}
_DOTTED = re.compile(r"\s*(\d{1,3})\.(\d{1,3})(?:\.(\d{1,3}))?\s*")
_KELVIN = re.compile(r"(\d{1,5})\s*(?:K\b|Kelvin)", re.IGNORECASE)
_CELSIUS = re.compile(r"(-?\d{1,4})\s*(?:°|º|deg(?:rees)?)?\s*C(?:elsius)?\b", re.IGNORECASE)
_MELTS_K, _GLOWS_K = 273, 473
"""A threshold of temperature beyond these is of another unit, and not known."""
_NONE = frozenset({"", "-", "none", "n/a", "not reported", "not supported"})
_YES_OR_NO = {"yes": 1, "true": 1, "no": 0, "false": 0}
_MAJORS = range(1, 4)
_U8, _U16, _U32, _U63 = 0xFF, 0xFFFF, 0xFFFFFFFF, (1 << 63) - 1
_LONGEST_S = 1e6
_RAW_SCALE = 0x40
"""From here on a scale is the byte, not the code in its bits 7:6."""


class Odd(ValueError):
    """A fault in the content of a structure; the message names the key."""


def is_controller(keys: Keys) -> bool:
    """Return whether an object is the output of ``nvme id-ctrl``, whole or in part."""
    return "psds" in keys or "mn" in keys


def is_namespace(keys: Keys) -> bool:
    """Return whether an object is the output of ``nvme id-ns``, whole or in part."""
    return "lbafs" in keys or "nsze" in keys


def controller(keys: Keys) -> IdentifiedDrive:
    """Identify Controller. Raises :class:`Odd`."""
    psds = _list(keys, "psds", 32)
    npss = _number(keys, "npss", _U8)
    if npss is None:
        raise Odd("npss is missing")
    if npss + 1 != len(psds):
        raise Odd(f"npss is {npss}, but there are {len(psds)} power states; the file seems to be cut")
    drive: IdentifiedDrive = {}
    drive["serial"], drive["model"], drive["firmware"] = (_text(keys, name) for name in ("sn", "mn", "fr"))
    if (vendor := _number(keys, "vid", _U16)) is not None:
        drive["vendor_id"] = vendor
    keys = _with_prefixes(keys)
    dotted = _DOTTED.fullmatch(str(keys.get("ver", "")))
    if dotted is not None:
        drive["nvme_version"] = ".".join(str(int(part or 0)) for part in dotted.groups())
    elif (version := _number(keys, "ver", _U32)) is not None:
        drive["nvme_version"] = version_of(version)
    if (apst := _number(keys, "apsta", _U8)) is not None:
        drive["apst"] = bool(apst & 1)
    if "wctemp" in keys:
        drive["warning_temperature_c"] = _threshold_c(keys, "wctemp")
    if "cctemp" in keys:
        drive["critical_temperature_c"] = _threshold_c(keys, "cctemp")
    if (thermal := _number(keys, "hctma", _U16)) is not None:
        drive["hctm"] = bool(thermal & 1)
    if (attributes := _number(keys, "ctratt", _U32)) is not None:
        drive["nopspm"] = bool(attributes & 2)
    if (cache := _number(keys, "vwc", _U8)) is not None:
        drive["volatile_write_cache"] = bool(cache & 1)
    if words := _SIZE.fullmatch(str(keys.get("hmpre", ""))):
        drive["hmb_preferred_bytes"] = round(float(words[1]) * _SIZES[words[2]])
    elif (buffer := _number(keys, "hmpre", _U32)) is not None:
        drive["hmb_preferred_bytes"] = 4096 * buffer
    drive["rtd3_resume_s"] = _latency_s(keys, "rtd3r", "") or None
    drive["rtd3_entry_s"] = _latency_s(keys, "rtd3e", "") or None
    states = [_power_state(number, psd) for number, psd in enumerate(psds)]
    if states[0]["non_operational"]:
        raise Odd("power state 0 is non-operational, which no drive may say")
    drive["power_states"] = states
    return drive


def _with_prefixes(keys: Keys) -> Keys:
    """The same, with ``0x`` before hexadecimal digits that nvme-cli 1.x prints without, where VER shows that this is so."""
    version = keys.get("ver")
    if not isinstance(version, str) or not re.fullmatch(r"\s*[0-9a-fA-F]{5,6}\s*", version):
        return keys
    if int(version, 16) >> 16 not in _MAJORS or (version.strip().isdigit() and int(version) >> 16 in _MAJORS):
        return keys
    bare = [name for name in ("ver", "rtd3r", "rtd3e") if re.fullmatch(r"\s*[0-9a-fA-F]{1,8}\s*", str(keys.get(name, "")))]
    return {**keys, **{name: "0x" + str(keys[name]).strip() for name in bare}}


def _threshold_c(keys: Keys, name: str) -> int | None:
    """Return a threshold of temperature in degrees Celsius: a number of K, or a text with its unit. None if the drive states none."""
    told = keys[name]
    if isinstance(told, str) and (words := _KELVIN.search(told)):
        kelvin = int(words[1])
    elif isinstance(told, str) and (words := _CELSIUS.search(told)):
        kelvin = int(words[1]) + 273
    else:
        kelvin = _number(keys, name, _U16) or 0
    return kelvin - 273 if _MELTS_K < kelvin < _GLOWS_K else None


def namespace(keys: Keys, nsid: int) -> IdentifiedNamespace:
    """Return Identify Namespace for namespace number ``nsid``. Raises :class:`Odd`."""
    size, capacity, flbas = (_number(keys, name, most) for name, most in (("nsze", _U63), ("ncap", _U63), ("flbas", _U8)))
    formats = _list(keys, "lbafs", 64)
    if size is None or capacity is None or flbas is None:
        missing = [name for name, value in (("nsze", size), ("ncap", capacity), ("flbas", flbas)) if value is None]
        raise Odd(f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing")
    if not size:
        raise Odd("nsze is 0: the namespace is not active")
    if capacity > size:
        raise Odd(f"ncap ({capacity}) is greater than nsze ({size}), which no drive may say")
    nlbaf = _number(keys, "nlbaf", 63)
    form = lba_format(flbas, len(formats) - 1 if nlbaf is None else nlbaf, _number(keys, "nulbaf", 63) or 0)
    found: IdentifiedNamespace = {"nsid": nsid, "size_blocks": size, "capacity_blocks": capacity, "lba_size_bytes": None}
    if form is None or form >= len(formats):
        return found
    where = f"lbafs[{form}]."
    found["lba_size_bytes"] = _block_bytes(formats[form], where)
    metadata = _plain_bytes(formats[form], where, "ms", "Metadata Size")
    if metadata is not None:
        found["metadata_bytes"] = metadata
    return found


def _block_bytes(form: Keys, where: str) -> int | None:
    """Return the bytes of a logical block; None if the format is not available."""
    for name in ("ds", "Data Size"):
        told = form.get(name)
        if isinstance(told, str) and (words := _BYTES.fullmatch(told)):
            size = int(words[1])
            exponent = size.bit_length() - 1
            return size if size == 1 << exponent and exponent in BLOCK_EXPONENTS else None
    code = _number(form, "ds", _U8, where)
    return 1 << code if code is not None and code in BLOCK_EXPONENTS else None


def _plain_bytes(form: Keys, where: str, *names: str) -> int | None:
    for name in names:
        told = form.get(name)
        if isinstance(told, str) and (words := _BYTES.fullmatch(told)):
            return int(words[1])
    return _number(form, names[0], _U16, where)


def _power_state(number: int, psd: Keys) -> IdentifiedPowerState:
    where = f"psds[{number}]."
    flags, scale, asleep = (_number(psd, name, _U8, where) for name in ("flags", "max_power_scale", "non-operational_state"))
    if flags is None and asleep is None:
        raise Odd(f"{where}non-operational_state (or flags) is missing")
    fine = bool((flags or 0) & 1) if scale is None else bool(scale)
    entry, leave = (_latency_s(psd, name, where) for name in ("entry_lat", "exit_lat"))
    if entry is None or leave is None:
        raise Odd(f"{where}{'entry_lat' if entry is None else 'exit_lat'} is missing")
    active, workload = _active(psd, where)
    return {
        "state": number,
        "max_power_w": _power_w(psd, where, 1e-4 if fine else 1e-2),
        "non_operational": bool((flags or 0) & 2) if asleep is None else bool(asleep),
        "entry_latency_s": entry,
        "exit_latency_s": leave,
        "idle_power_w": power_of(_number(psd, "idle_power", _U16, where) or 0, _code(_number(psd, "idle_scale", _U8, where) or 0)),
        "active_power_w": active,
        "active_power_workload": workload,
    }


def _active(psd: Keys, where: str) -> tuple[float | None, int | None]:
    """(ACTP in W, its workload), each None if it is not known."""
    power = _number(psd, "active_power", _U16, where) or 0
    scale, workload = (_number(psd, name, _U8, where) for name in ("active_scale", "active_power_work"))
    if scale is None and (both := _number(psd, "active_work_scale", _U8, where) or 0) >= _RAW_SCALE:
        scale, workload = both >> 6, both & 7
    watts = power_of(power, _code(scale or 0))
    return watts, workload if watts is not None else None


def _code(scale: int) -> int:
    return scale >> 6 if scale >= _RAW_SCALE else scale


def _power_w(psd: Keys, where: str, unit_w: float) -> float | None:
    """MP in W; None if the drive states none."""
    told = psd.get("max_power")
    if isinstance(told, str) and (words := _QUANTITY.fullmatch(told)) and words[2] in _WATTS:
        return round(float(words[1]) * _WATTS[words[2]], 6) or None
    code = _number(psd, "max_power", _U16, where)
    if code is None:
        raise Odd(f"{where}max_power is missing")
    return round(code * unit_w, 6) if code else None


def _latency_s(keys: Keys, name: str, where: str) -> float | None:
    """A latency: a number of us, or a text with its unit. None if it is absent."""
    told = keys.get(name)
    if not where and (told is None or (isinstance(told, str) and told.strip().lower() in _NONE)):
        return None
    if isinstance(told, str) and (words := _QUANTITY.fullmatch(told)):
        if words[2] not in _SECONDS:
            raise Odd(f"{where}{name} is {_shown(told)}, whose unit is not known")
        found = float(words[1]) * _SECONDS[words[2]]
    else:
        code = _number(keys, name, _U32, where)
        if code is None:
            return None
        found = code / 1e6
    if found > _LONGEST_S:
        raise Odd(f"{where}{name} is {_shown(told)}, longer than any drive takes")
    return round(found, 9)


def _number(keys: Keys, name: str, most: int, where: str = "") -> int | None:
    """A whole number from 0 to ``most``, as such or as text; None if it is absent."""
    if name not in keys:
        return None
    told = keys[name]
    if isinstance(told, str) and (words := _NUMBER.fullmatch(told)):
        told = int(words[1], 16 if words[1][:2] in ("0x", "0X") else 10)
    elif isinstance(told, str):
        told = _YES_OR_NO.get(told.strip().lower(), told)
    if isinstance(told, float) and math.isfinite(told) and told == int(told):
        told = int(told)
    if not isinstance(told, int) or not 0 <= told <= most:
        raise Odd(f"{where}{name} is {_shown(told)}, expected a whole number from 0 to {most}")
    return int(told)


def _text(keys: Keys, name: str) -> str:
    if name not in keys:
        raise Odd(f"{name} is missing")
    if not isinstance(keys[name], str):
        raise Odd(f"{name} is {_shown(keys[name])}, expected a text")
    return printable(keys[name])


def _list(keys: Keys, name: str, most: int) -> list[Keys]:
    found = keys.get(name)
    if not isinstance(found, list) or not 1 <= len(found) <= most or not all(isinstance(part, dict) for part in found):
        raise Odd(f"{name} is {'missing' if name not in keys else f'no list of 1 to {most} objects'}")
    return found


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:40] + "..."
