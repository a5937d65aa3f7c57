"""Identify data as people have them in files: the facts read, and the name of each wrong file.

Inputs are written by hand after the NVMe specification (offsets) and nvme-cli's source (keys of JSON); so are the expected numbers.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattbell.capture.identify import IdentifiedDrive, IdentifiedNamespace
from wattbell.errors import CaptureError
from wattbell.importer.identity import read_identity

from tests.host.fuzzing import examples

PSD: dict[str, Any] = {"max_power": 600, "max_power_scale": 0, "non-operational_state": 0, "entry_lat": 0, "exit_lat": 0}
ASLEEP: dict[str, Any] = {"max_power": 50, "max_power_scale": 1, "non-operational_state": 1, "entry_lat": 1000, "exit_lat": 9000}
CONTROLLER: dict[str, Any] = {
    "vid": 7439,
    "sn": "S1    ",
    "mn": "SOME DRIVE   ",
    "fr": "1.0",
    "ver": 66560,
    "npss": 1,
    "psds": [PSD, ASLEEP],
}
SPACE: dict[str, Any] = {
    "nsze": 1000,
    "ncap": 900,
    "nuse": 5,
    "nlbaf": 1,
    "flbas": 1,
    "lbafs": [{"ms": 0, "ds": 9, "rp": 1}, {"ms": 8, "ds": 12, "rp": 0}],
}


def of(folder: Path, content: bytes | str | dict[str, Any], name: str = "id.json") -> IdentifiedDrive:
    data = json.dumps(content) if isinstance(content, dict) else content
    (folder / name).write_bytes(data.encode() if isinstance(data, str) else data)
    return read_identity([folder / name])


def space(folder: Path, content: bytes | str | dict[str, Any]) -> IdentifiedNamespace:
    (found,) = of(folder, content)["namespaces"]
    return found


def refusal(folder: Path, content: bytes | str | dict[str, Any]) -> str:
    with pytest.raises(CaptureError) as error:
        of(folder, content)
    said = str(error.value)
    assert said.startswith(str(folder / "id.json")) and "\n" not in said
    return said.removeprefix(str(folder / "id.json"))


# -- JSON --------------------------------------------------------------------------------------------------------------


def test_a_controller_has_what_the_file_says_and_no_more(tmp_path: Path) -> None:
    drive = of(tmp_path, CONTROLLER)
    assert (drive["vendor_id"], drive["serial"], drive["model"], drive["nvme_version"]) == (7439, "S1", "SOME DRIVE", "1.4.0")
    powers = [(state["max_power_w"], state["non_operational"], state["exit_latency_s"]) for state in drive["power_states"]]
    assert powers == [(6.0, False, 0), (0.005, True, 0.009)]
    # a file without VWC, APSTA or HMPRE does not say that there is none of these
    assert not {"volatile_write_cache", "apst", "hctm", "nopspm", "hmb_preferred_bytes", "warning_temperature_c"} & set(drive)
    assert (drive["rtd3_resume_s"], drive["rtd3_entry_s"]) == (None, None)


def test_what_else_a_controller_says(tmp_path: Path) -> None:
    more = {"apsta": 1, "wctemp": 350, "cctemp": 358, "hctma": 1, "ctratt": 2, "vwc": 6, "hmpre": 16}
    drive = of(tmp_path, {**CONTROLLER, **more})
    assert (drive["apst"], drive["hctm"], drive["nopspm"], drive["volatile_write_cache"]) == (True, True, True, False)
    assert (drive["warning_temperature_c"], drive["critical_temperature_c"], drive["hmb_preferred_bytes"]) == (77, 85, 65536)
    none = of(tmp_path, {**CONTROLLER, **dict.fromkeys(more, 0), "ver": 0})
    assert (none["apst"], none["hctm"], none["nopspm"], none["volatile_write_cache"], none["hmb_preferred_bytes"]) == (False,) * 4 + (0,)
    assert (none["warning_temperature_c"], none["critical_temperature_c"], none["nvme_version"]) == (None, None, None)
    others = {"apsta": 254, "hctma": 2, "ctratt": 1, "vwc": 255}  # other bits of the same fields
    bits = of(tmp_path, {**CONTROLLER, **others})
    assert (bits["apst"], bits["hctm"], bits["nopspm"], bits["volatile_write_cache"]) == (False, False, False, True)


def test_flags_before_nvme_cli_2_6(tmp_path: Path) -> None:
    states = [{"max_power": 600, "flags": flags, "entry_lat": 0, "exit_lat": 0} for flags in (0, 1, 2, 3)]
    found = of(tmp_path, {**CONTROLLER, "npss": 3, "psds": states})["power_states"]
    assert [(state["max_power_w"], state["non_operational"]) for state in found] == [(6, False), (0.06, False), (6, True), (0.06, True)]


def test_namespaces_are_numbered_by_their_files(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("one", "two", "drive")]
    for path, content in zip(paths, ({**SPACE, "nsze": 7000}, SPACE, CONTROLLER)):
        path.write_text(json.dumps(content))
    drive = read_identity(paths)
    assert [(space["nsid"], space["size_blocks"]) for space in drive["namespaces"]] == [(1, 7000), (2, 1000)]
    assert (drive["model"], drive["source"]) == ("SOME DRIVE", "file")


LATENCIES = [
    (10_000_000, 10),
    ("10000000", 10),
    ("0x989680", 10),
    ("10 s", 10),
    ("10s", 10),
    ("9.5 sec", 9.5),
    ("3 secs", 3),
    ("2 seconds", 2),
    ("500 ms", 0.5),
    ("100 us", 1e-4),
    ("100 µs", 1e-4),
    ("250 usecs", 2.5e-4),
    (0, None),
    ("0 us", None),
]


@pytest.mark.parametrize(("told", "seconds"), LATENCIES)
def test_latencies_are_numbers_of_us_or_texts_with_a_unit(tmp_path: Path, told: int | str, seconds: float | None) -> None:
    drive = of(tmp_path, {**CONTROLLER, "rtd3r": told, "rtd3e": told, "psds": [PSD, {**ASLEEP, "exit_lat": told}]})
    assert drive["rtd3_resume_s"] == drive["rtd3_entry_s"] == (None if seconds is None else pytest.approx(seconds))
    assert drive["power_states"][1]["exit_latency_s"] == pytest.approx(seconds or 0)


@pytest.mark.parametrize("told", [None, "-", "", "Not reported"])
def test_a_latency_that_the_drive_does_not_report_is_unknown(tmp_path: Path, told: str | None) -> None:
    assert of(tmp_path, {**CONTROLLER, "rtd3r": told})["rtd3_resume_s"] is None


@pytest.mark.parametrize(
    ("told", "celsius"),
    [
        (354, 81),
        ("354", 81),
        ("354 K", 81),
        ("81 °C (354 K, 178 °F)", 81),
        ("81 C", 81),
        ("81°C", 81),
        ("0x162", 81),
        # degrees Celsius in the place of kelvins, or nonsense: no drive warns at -192 or 227 degrees
        (81, None),
        ("81", None),
        (500, None),
        (0, None),
        ("-273 °C (0 K)", None),
    ],
)
def test_a_threshold_of_temperature_has_a_unit_or_is_unknown(tmp_path: Path, told: int | str, celsius: int | None) -> None:
    drive = of(tmp_path, {**CONTROLLER, "wctemp": told, "cctemp": told})
    assert (drive["warning_temperature_c"], drive["critical_temperature_c"]) == (celsius, celsius)


@pytest.mark.parametrize(
    ("keys", "version", "resume_s"),
    [
        ({"ver": "1.4.0"}, "1.4.0", None),
        ({"ver": "2.0"}, "2.0.0", None),
        ({"ver": "0x10300", "rtd3r": "500000"}, "1.3.0", 0.5),
        ({"ver": 66048, "rtd3r": "500000"}, "1.2.0", 0.5),
        # nvme-cli 1.x prints VER and RTD3 as hexadecimal digits alone: 0x10200, 0x7a120 = 500 000, 0x989680 = 10 000 000
        ({"ver": "10200", "rtd3r": "7a120"}, "1.2.0", 0.5),
        ({"ver": "10200", "rtd3r": "989680"}, "1.2.0", 10.0),
        ({"ver": "66048", "rtd3r": "989680"}, "1.2.0", 0.98968),
    ],
)
def test_a_version_as_text_shows_the_base_of_the_numbers(
    tmp_path: Path, keys: dict[str, Any], version: str, resume_s: float | None
) -> None:
    drive = of(tmp_path, {**CONTROLLER, **keys})
    assert (drive["nvme_version"], drive["rtd3_resume_s"]) == (version, resume_s)


def test_sizes_and_answers_in_words(tmp_path: Path) -> None:
    for told in ("64 MiB", "65536 KiB"):
        assert of(tmp_path, {**CONTROLLER, "hmpre": told})["hmb_preferred_bytes"] == 67_108_864
    words = [{**PSD, "non-operational_state": "no"}, {**ASLEEP, "non-operational_state": "Yes"}]
    states = of(tmp_path, json.dumps([{**CONTROLLER, "psds": words}]))["power_states"]
    assert [state["non_operational"] for state in states] == [False, True]
    lbafs = [{"Data Size": "512 bytes"}, {"Metadata Size": "8   bytes", "Data Size": "4096 bytes - Relative Performance: 0 Best"}]
    assert space(tmp_path, {**SPACE, "lbafs": lbafs})["lba_size_bytes"] == 4096


@pytest.mark.parametrize(("told", "watts"), [(620, 6.2), ("620", 6.2), ("6.20W", 6.2), ("6.20 W", 6.2), ("40 mW", 0.04), (0, None)])
def test_a_power_is_a_number_by_its_scale_or_a_text_with_its_unit(tmp_path: Path, told: int | str, watts: float | None) -> None:
    assert of(tmp_path, {**CONTROLLER, "psds": [{**PSD, "max_power": told}, ASLEEP]})["power_states"][0]["max_power_w"] == watts


@pytest.mark.parametrize(
    ("keys", "idle_w", "active_w", "workload"),
    [
        # nvme-cli 1.x: bits 7:6 as they stand, APW and APS in one byte
        ({"idle_scale": 0x80, "active_work_scale": 0x80 | 2}, 5.06, 25.0, 2),
        ({"idle_scale": 0x40, "active_work_scale": 0x40 | 1}, 0.0506, 0.25, 1),
        # 2.0 to 2.2: APS alone under the name that had both; which of them is not known
        ({"idle_scale": 0x80, "active_work_scale": 2}, 5.06, None, None),
        # since 2.3
        ({"idle_scale": 2, "active_scale": 2, "active_power_work": 2}, 5.06, 25.0, 2),
        ({"idle_scale": 0, "active_scale": 0, "active_power_work": 2}, None, None, None),
        ({}, None, None, None),
    ],
)
def test_scales_of_every_nvme_cli(
    tmp_path: Path, keys: dict[str, int], idle_w: float | None, active_w: float | None, workload: int | None
) -> None:
    state = of(tmp_path, {**CONTROLLER, "psds": [{**PSD, "idle_power": 506, "active_power": 2500, **keys}, ASLEEP]})["power_states"][0]
    assert (state["idle_power_w"], state["active_power_w"], state["active_power_workload"]) == (idle_w, active_w, workload)


def test_what_stands_around_the_json(tmp_path: Path) -> None:
    said = "opcode       : 06\nflags        : 00\nlatency      : 58 us\n"
    for text in (said + json.dumps(CONTROLLER, indent=2), "Warning: unknown\n" + json.dumps(CONTROLLER) + "\ndone\n"):
        assert of(tmp_path, text)["model"] == "SOME DRIVE"
    for encoding in ("utf-8-sig", "utf-16"):
        assert of(tmp_path, json.dumps(CONTROLLER).encode(encoding))["model"] == "SOME DRIVE"
    assert of(tmp_path, {"nvme0": CONTROLLER})["model"] == "SOME DRIVE"


@pytest.mark.parametrize(
    ("raw", "serial"),
    [(b"S\x01\x1b[31m", "S\ufffd\ufffd[31m"), (b"S\xe9\xff1", "S\ufffd\ufffd1"), (b"S\\ud800", "S\ufffd"), (b"S1\\u0000", "S1")],
)
def test_odd_bytes_in_a_string_become_one_character(tmp_path: Path, raw: bytes, serial: str) -> None:
    drive = of(tmp_path, json.dumps({**CONTROLLER, "sn": "SERIAL"}).encode().replace(b"SERIAL", raw))
    assert drive["serial"] == serial and drive["model"] == "SOME DRIVE"


@pytest.mark.parametrize(
    ("change", "size", "metadata"),
    [
        ({}, 4096, 8),
        ({"flbas": 0}, 512, 0),
        ({"flbas": 0x11}, 4096, 8),  # bit 4: metadata at the end of the block
        # bits 6:5 do not count up to 16 formats
        ({"flbas": 0x21}, 4096, 8),
        # a format that the file, or the drive, does not have
        ({"flbas": 2}, None, None),
        ({"flbas": 0x22, "nlbaf": 16, "nulbaf": 2}, None, None),
        ({"flbas": 1, "nlbaf": 0}, None, None),
        # LBADS 0: the format is not available
        ({"lbafs": [{"ms": 0, "ds": 9}, {"ms": 8, "ds": 0}]}, None, 8),
        ({"lbafs": [{"ms": 0, "ds": 9}, {"ms": 8, "ds": 8}]}, None, 8),
        ({"lbafs": [{"ms": 0, "ds": 9}, {"ms": 8, "ds": "12"}]}, 4096, 8),
        # nvme-cli -v
        ({"lbafs": [{"ms": "0 bytes", "ds": "512 bytes"}, {"ms": "8 bytes", "ds": "4096 bytes"}]}, 4096, 8),
        ({"lbafs": [{}, {"LBA Format": 1, "Metadata Size": "8 bytes", "Data Size": "4096 bytes", "in use": "yes"}]}, 4096, 8),
        ({"lbafs": [{}, {"Metadata Size": "0 bytes", "Data Size": "1 bytes"}]}, None, 0),
    ],
)
def test_the_block_size_is_that_of_the_format_in_use_or_unknown(
    tmp_path: Path, change: dict[str, Any], size: int | None, metadata: int | None
) -> None:
    found = space(tmp_path, {**SPACE, **change})
    assert (found["size_blocks"], found["capacity_blocks"], found["lba_size_bytes"]) == (1000, 900, size)
    assert found.get("metadata_bytes") == metadata


TEXT = "NVME Identify Controller:\nvid       : 0x144d\nmn        : SOME\nps    0 : mp:6.20W operational enlat:0 exlat:0\n"
SAID: list[tuple[str | dict[str, Any], str]] = [
    (TEXT, "is the plain text of nvme id-ctrl or id-ns, which is not read: nvme-cli prints JSON with -o json"),
    ("opcode       : 06\nlatency      : 58 us\n" + TEXT, "is the plain text of nvme id-ctrl"),
    ("NVME Identify Namespace 1:\nnsze    : 0x3b9e12b0\nlbaf  0 : ms:0   lbads:9  rp:0\n", "is the plain text of nvme id-ctrl or id-ns"),
    ("smartctl 7.3 2022-02-28 r5338\n=== START OF INFORMATION SECTION ===\n", "is smartctl's text"),
    ("Permission denied\n", "it begins with: Permission denied"),
    ("", "is empty. nvme-cli prints nothing where it fails"),
    (" \n", "is empty"),
    (json.dumps(CONTROLLER, indent=1)[:90], "the JSON is broken"),
    (json.dumps(CONTROLLER).replace('"vid"', "vid"), "line 1, column 2: the JSON is broken"),
    (json.dumps(CONTROLLER).replace("7439", "NaN"), "NaN is no number of JSON"),
    (json.dumps(CONTROLLER) + "\n" + json.dumps(SPACE), "more than one JSON document; save each in a file of its own"),
    ("[1, 2]", "no object with the fields of Identify, but a list"),
    ({"json_format_version": [1, 0], "smartctl": {"version": [7, 3]}, "model_name": "X"}, "is smartctl's JSON, which is not read here"),
    ({"Devices": [{"DevicePath": "/dev/nvme0n1"}]}, "is nvme list's JSON"),
    ({"critical_warning": 0, "temperature": 310, "avail_spare": 100}, "is nvme smart-log's JSON"),
    ({"error": "Permission denied"}, "holds an error of nvme-cli instead of data: Permission denied"),
    ({"tea": 1, "cake": 2}, "its keys: tea, cake"),
    ({**CONTROLLER, "npss": 4}, "npss is 4, but there are 2 power states; the file seems to be cut"),
    ({**CONTROLLER, "psds": [ASLEEP, ASLEEP]}, "power state 0 is non-operational"),
    ({**CONTROLLER, "vid": "Samsung"}, "vid is 'Samsung', expected a whole number from 0 to 65535"),
    ({**CONTROLLER, "wctemp": 65536}, "wctemp is 65536, expected a whole number from 0 to 65535"),
    ({**CONTROLLER, "rtd3r": "1000001 s"}, "rtd3r is '1000001 s', longer than any drive takes"),
    ({**CONTROLLER, "vwc": 256}, "vwc is 256, expected a whole number from 0 to 255"),
    ({**CONTROLLER, "rtd3r": "10 parsecs"}, "rtd3r is '10 parsecs', whose unit is not known"),
    ({**CONTROLLER, "psds": [PSD, {**ASLEEP, "exit_lat": None}]}, "psds[1].exit_lat is None"),
    ({"psds": [PSD], "npss": 0}, "sn is missing"),
    ({**CONTROLLER, "psds": [PSD, {name: ASLEEP[name] for name in ASLEEP if name != "max_power"}]}, "psds[1].max_power is missing"),
    ({**CONTROLLER, "psds": [PSD, {name: ASLEEP[name] for name in ASLEEP if name != "entry_lat"}]}, "psds[1].entry_lat is missing"),
    ({**CONTROLLER, "psds": [{"max_power": 600, "entry_lat": 0, "exit_lat": 0}, ASLEEP]}, "psds[0].non-operational_state (or flags) is"),
    ({name: CONTROLLER[name] for name in CONTROLLER if name != "npss"}, "npss is missing"),
    ({**SPACE, "ncap": 1001}, "ncap (1001) is greater than nsze (1000)"),
    ({**SPACE, "nsze": 0, "ncap": 0}, "nsze is 0: the namespace is not active"),
    ({"nsze": 5}, "lbafs is missing"),
    ({"lbafs": [{"ms": 0, "ds": 9}]}, "nsze and ncap and flbas are missing"),
]


@pytest.mark.parametrize(("content", "says"), SAID, ids=[says[:40] for _, says in SAID])
def test_a_wrong_file_is_called_what_it_is(tmp_path: Path, content: str | dict[str, Any], says: str) -> None:
    assert says in refusal(tmp_path, content)


def test_no_advice_to_do_what_was_done(tmp_path: Path) -> None:
    """Who gives JSON of nvme-cli has used -o json; who gives no -v output has left -v away."""
    for content in (json.dumps(CONTROLLER)[:60], {**CONTROLLER, "npss": 4}, {**SPACE, "ncap": 1001}, {"error": "x"}, {"tea": 1}):
        said = refusal(tmp_path, content)
        assert "-o json" not in said and "-v" not in said


# -- raw bytes ---------------------------------------------------------------------------------------------------------


def raw_controller(serial: bytes = b"SN1".ljust(20), model: bytes = b"RAW DRIVE".ljust(40), firmware: bytes = b"FW1".ljust(8)) -> bytearray:
    data = bytearray(4096)
    data[0:4] = struct.pack("<HH", 0x1BB1, 0x1BB1)
    data[4:72] = serial + model + firmware
    data[80:84] = struct.pack("<I", 0x10300)
    data[263] = 1
    struct.pack_into("<HBB", data, 2048, 900, 0, 0)
    struct.pack_into("<HBB", data, 2080, 50, 0, 3)
    return data


def raw_space(size: int = 1000, capacity: int = 900, used: int = 5, nlbaf: int = 1, flbas: int = 1, exponent: int = 12) -> bytearray:
    data = bytearray(4096)
    struct.pack_into("<QQQ", data, 0, size, capacity, used)
    data[25], data[26] = nlbaf, flbas
    form = flbas & 15 | (flbas >> 5 & 3) << 4
    struct.pack_into("<HB", data, 128 + 4 * form, 8, exponent)
    return data


@pytest.mark.parametrize(
    ("serial", "model", "firmware", "shown"),
    [
        (b"SN1".ljust(20), b"RAW DRIVE".ljust(40), b"FW1".ljust(8), ("SN1", "RAW DRIVE", "FW1")),
        (b"SN1".ljust(20, b"\0"), b"RAW DRIVE".ljust(40, b"\0"), b"FW1".ljust(8, b"\0"), ("SN1", "RAW DRIVE", "FW1")),
        (bytes(20), b"RAW DRIVE".ljust(40, b"\0"), bytes(8), ("", "RAW DRIVE", "")),
        (b"SN\xff\x01".ljust(20), b"RAW DRIVE".ljust(40), b"FW1".ljust(8), ("SN\ufffd\ufffd", "RAW DRIVE", "FW1")),
        (b"SN\xff\x01".ljust(20, b"\0"), b"RAW DRIVE".ljust(40, b"\0"), b"FW1".ljust(8), ("SN\ufffd\ufffd", "RAW DRIVE", "FW1")),
    ],
)
def test_raw_bytes_of_a_controller_are_its_whatever_pads_its_strings(
    tmp_path: Path, serial: bytes, model: bytes, firmware: bytes, shown: tuple[str, str, str]
) -> None:
    drive = of(tmp_path, bytes(raw_controller(serial, model, firmware)))
    assert (drive["serial"], drive["model"], drive["firmware"], drive["namespaces"]) == (*shown, [])
    assert [state["max_power_w"] for state in drive["power_states"]] == [9.0, 0.005]


def lines_of(data: bytes, line: Callable[[int, bytes], str]) -> list[str]:
    return [line(offset, data[offset : offset + 16]) for offset in range(0, len(data), 16)]


def shown(data: bytes) -> str:
    return "".join(chr(byte) if 32 <= byte < 127 else "." for byte in data)


DUMPS: dict[str, Callable[[bytes], list[str]]] = {
    "xxd": lambda data: lines_of(data, lambda at, b: f"{at:08x}: {b.hex(' ', 2)}  {shown(b)}"),
    "hexdump -Cv": lambda data: [
        *lines_of(data, lambda at, b: f"{at:08x}  {b[:8].hex(' ')}  {b[8:].hex(' ')}  |{shown(b)}|"),
        f"{len(data):08x}",
    ],
    "hexdump -v": lambda data: lines_of(data, lambda at, b: f"{at:07x} " + " ".join(f"{b[n + 1]:02x}{b[n]:02x}" for n in range(0, 16, 2))),
    "od -A x -t x1": lambda data: lines_of(data, lambda at, b: f"{at:06x} {b.hex(' ')}"),
    "nvme admin-passthru": lambda data: [
        "NVMe command result:00000000",
        "       0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f",
        *lines_of(data, lambda at, b: f'{at:04x}: {b.hex(" ")} "{shown(b)}"'),
    ],
}


@pytest.mark.parametrize("program", DUMPS)
def test_a_hex_dump_is_the_bytes(tmp_path: Path, program: str) -> None:
    drive = of(tmp_path, "\n".join(DUMPS[program](bytes(raw_controller()))) + "\n")
    assert (drive["model"], drive["vendor_id"], [state["max_power_w"] for state in drive["power_states"]]) == (
        "RAW DRIVE",
        0x1BB1,
        [9.0, 0.005],
    )
    assert space(tmp_path, "\n".join(DUMPS[program](bytes(raw_space()))))["lba_size_bytes"] == 4096


def test_a_star_in_a_hex_dump_stands_for_equal_lines(tmp_path: Path) -> None:
    short: list[str] = []
    before = ""
    for line in DUMPS["hexdump -Cv"](bytes(raw_controller())):
        if line[10:] != before or not line[10:]:
            short.append(line)
        elif short[-1] != "*":
            short.append("*")
        before = line[10:]
    assert len(short) < 20 and short[-1] == "00001000" and "*" in short
    assert of(tmp_path, "\n".join(short) + "\n")["model"] == "RAW DRIVE"


def test_a_part_of_a_hex_dump_is_refused(tmp_path: Path) -> None:
    lines = DUMPS["xxd"](bytes(raw_controller()))
    assert "is a hex dump of 1600 bytes in a row; Identify data have 4096" in refusal(tmp_path, "\n".join(lines[:100]))
    assert "is a hex dump of 1600 bytes in a row" in refusal(tmp_path, "\n".join([*lines[:100], *lines[101:]]))


@pytest.mark.parametrize(
    ("data", "size"),
    [(raw_space(), 4096), (raw_space(900, 900, 900, 0, 0, 9), 512), (raw_space(nlbaf=18, flbas=0x22), 4096), (raw_space(used=0), 4096)],
)
def test_raw_bytes_of_a_namespace(tmp_path: Path, data: bytearray, size: int) -> None:
    assert space(tmp_path, bytes(data))["lba_size_bytes"] == size


NO_STRUCTURE = {
    "NCAP above NSZE": raw_space(capacity=1001),
    "NUSE above NCAP": raw_space(used=901),
    "nothing": raw_space(0, 0, 0),
    "format 2 of 2": raw_space(flbas=2),
    "format 34 of 2": raw_space(nlbaf=1, flbas=0x42),
    "65 formats": raw_space(nlbaf=64),
    "blocks of 256 bytes": raw_space(exponent=8),
    "blocks of 2 MiB": raw_space(exponent=21),
    "no block size": raw_space(exponent=0),
    "an exabyte": raw_space(size=1 << 50),
    "a list of namespaces": bytearray(struct.pack("<2I", 1, 2).ljust(4096, b"\0")),
    "text": bytearray(b"namespace " * 410)[:4096],
    "a drive without a name": raw_controller(model=bytes(40)),
    "a drive whose name is no text": raw_controller(b"\x80\x90" * 10, b"AB" + b"\x80" * 38),
    "33 power states": raw_controller(),
    "power state 0 asleep": raw_controller(),
    "version 100": raw_controller(),
}
NO_STRUCTURE["33 power states"][263] = 32
NO_STRUCTURE["power state 0 asleep"][2051] = 2
NO_STRUCTURE["version 100"][80:84] = struct.pack("<I", 100 << 16)
NO_STRUCTURE["text"][4095] = 0


@pytest.mark.parametrize("name", NO_STRUCTURE)
def test_bytes_without_the_shape_of_a_structure_are_none(tmp_path: Path, name: str) -> None:
    data = bytes(NO_STRUCTURE[name])
    assert len(data) == 4096 and "neither those of Identify Controller nor of Identify Namespace" in refusal(tmp_path, data)


@pytest.mark.parametrize("length", [4095, 4097, 512, 8192])
def test_another_length_is_neither(tmp_path: Path, length: int) -> None:
    assert f"it has {length}. It is cut, or of another command." in refusal(tmp_path, bytes(raw_controller()).ljust(length, b"\0")[:length])


@examples(200)
@given(st.data())
def test_a_controllers_bytes_are_never_a_namespace(tmp_path: Path, data: st.DataObject) -> None:
    """Whatever its strings hold: the drive, or an error."""
    content = raw_controller(*(data.draw(st.binary(min_size=n, max_size=n)) for n in (20, 40, 8)))
    content[96:128] = data.draw(st.binary(min_size=32, max_size=32))
    try:
        drive = of(tmp_path, bytes(content))
    except CaptureError as error:
        assert re.search("neither those of Identify", str(error))
        return
    assert drive["namespaces"] == [] and len(drive["power_states"]) == 2
