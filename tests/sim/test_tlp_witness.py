"""The TLP encoder against cocotbext-pcie: its Tlp.unpack reads back the fields that were asked for."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cocotbext.pcie.core.tlp import CplStatus, Tlp, TlpType
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

STEP_PS = 1000

ids = st.integers(0, 0xFFFF)
tags = st.integers(0, 0x3FF)
dw_addresses = st.integers(0, (1 << 62) - 1).map(lambda n: n * 4) | st.integers(0, (1 << 30) - 1).map(lambda n: n * 4)
dw_data = st.integers(1, 64).flatmap(lambda n: st.binary(min_size=4 * n, max_size=4 * n)).map(list)

orders = st.one_of(
    st.fixed_dictionaries(
        {
            "kind": st.just("mem_read"),
            "requester": ids,
            "tag": tags,
            "address": dw_addresses,
            "len": st.integers(1, 1024).map(lambda n: 4 * n),
        }
    ),
    st.fixed_dictionaries({"kind": st.just("mem_write"), "requester": ids, "tag": tags, "address": dw_addresses, "data": dw_data}),
    st.fixed_dictionaries(
        {"kind": st.just("cfg_read"), "requester": ids, "tag": tags, "target": ids, "register": st.integers(0, 1023).map(lambda n: 4 * n)}
    ),
    st.fixed_dictionaries(
        {
            "kind": st.just("cfg_write"),
            "requester": ids,
            "tag": tags,
            "target": ids,
            "register": st.integers(0, 1023).map(lambda n: 4 * n),
            "byte_enables": st.integers(1, 15),
            "value": st.integers(0, 0xFFFFFFFF),
        }
    ),
    st.fixed_dictionaries(
        {
            "kind": st.just("completion"),
            "completer": ids,
            "requester": ids,
            "tag": tags,
            "status": st.sampled_from([s.value for s in CplStatus]),
        }
    ),
    st.tuples(dw_data, st.integers(0, 4096)).flatmap(
        lambda t: st.fixed_dictionaries(
            {
                "kind": st.just("completion_data"),
                "completer": ids,
                "requester": ids,
                "tag": tags,
                "lower_address": dw_addresses,
                "remaining": st.just(min(4096, len(t[0]) + t[1])),
                "data": st.just(t[0]),
            }
        )
    ),
)


@pytest.fixture(scope="session")
def programs(sim_program: Callable[[str], Path]) -> tuple[Path, Path]:
    """Return the paths of the encoder, an example of the crate, and of the dump tool."""
    return sim_program("examples/encode_tlps"), sim_program("wattbell-bus-dump")


def encode(programs: tuple[Path, Path], wanted: list[dict[str, Any]]) -> list[dict[str, Any]]:
    lines = "\n".join(json.dumps(order) for order in wanted)
    trace = subprocess.run([programs[0]], input=lines.encode(), capture_output=True, check=True).stdout
    dump = subprocess.run([programs[1], "-"], input=trace, capture_output=True, check=True).stdout
    return [event for line in dump.splitlines() if "tlp" in (event := json.loads(line))]


def check(order: dict[str, Any], raw: bytes) -> None:
    tlp = Tlp.unpack(raw)
    kind = order["kind"]
    assert tlp.tag == order["tag"]
    assert int(tlp.requester_id) == order["requester"]
    assert not tlp.td
    assert not tlp.ep
    assert int(tlp.tc) == 0
    assert int(tlp.attr) == 0
    assert int(tlp.at) == 0
    if kind in ("mem_read", "mem_write"):
        length = order["len"] if kind == "mem_read" else len(order["data"])
        long = order["address"] + length > 1 << 32
        types = (TlpType.MEM_READ, TlpType.MEM_READ_64) if kind == "mem_read" else (TlpType.MEM_WRITE, TlpType.MEM_WRITE_64)
        assert tlp.fmt_type == types[long]
        assert (tlp.address, tlp.length * 4) == (order["address"], length)
        assert tlp.first_be == 15
        assert tlp.last_be == (0 if length == 4 else 15)
        assert bytes(tlp.get_data()) == bytes(order.get("data", b""))
    elif kind in ("cfg_read", "cfg_write"):
        assert tlp.fmt_type == (TlpType.CFG_READ_0 if kind == "cfg_read" else TlpType.CFG_WRITE_0)
        assert int(tlp.completer_id) == order["target"]
        assert tlp.address == order["register"]
        assert (tlp.length, tlp.first_be, tlp.last_be) == (1, order.get("byte_enables", 15), 0)
        assert bytes(tlp.get_data()) == (order["value"].to_bytes(4, "little") if kind == "cfg_write" else b"")
    else:
        assert int(tlp.completer_id) == order["completer"]
        if kind == "completion":
            assert tlp.fmt_type == TlpType.CPL
            assert tlp.status == CplStatus(order["status"])
            assert tlp.byte_count == 4
        else:
            assert tlp.fmt_type == TlpType.CPL_DATA
            assert tlp.status == CplStatus.SC
            assert tlp.byte_count == order["remaining"]
            assert tlp.lower_address == order["lower_address"] & 0x7F
            assert bytes(tlp.get_data()) == bytes(order["data"])


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(orders, min_size=1, max_size=40))
def test_fields_read_back_by_cocotbext_pcie(programs: tuple[Path, Path], wanted: list[dict[str, Any]]) -> None:
    events = encode(programs, wanted)
    assert [e["time_ps"] for e in events] == [i * STEP_PS for i in range(len(wanted))]
    for order, event in zip(wanted, events, strict=True):
        check(order, bytes.fromhex(event["tlp"]))


def test_bytes_that_are_not_whole_dws_are_enabled_one_by_one(programs: tuple[Path, Path]) -> None:
    for address in range(0x1000, 0x1004):
        for length in range(1, 14):
            data = list(range(1, length + 1))
            order = {"kind": "mem_write", "requester": 1, "tag": 0, "address": address, "data": data}
            tlp = Tlp.unpack(bytes.fromhex(encode(programs, [order])[0]["tlp"]))
            assert tlp.address + tlp.get_first_be_offset() == address
            assert tlp.get_be_byte_count() == length
            start = address % 4
            assert bytes(tlp.get_data())[start : start + length] == bytes(data)


def test_bursts_expand_to_one_transfer(programs: tuple[Path, Path]) -> None:
    write = {"kind": "write_burst", "requester": 0x100, "tag": 0, "address": 0x0FFFFFF00, "len": 256, "count": 16}
    read = {
        "kind": "completion_burst",
        "completer": 0,
        "requester": 0x100,
        "tag": 1000,
        "address": 0x1000,
        "len": 64,
        "count": 64,
        "remaining": 4096,
    }
    events = encode(programs, [write, read])
    tlps = [Tlp.unpack(bytes.fromhex(e["tlp"])) for e in events]
    # A burst keeps the header form of its first TLP, so a writer must not let a burst cross 4 GiB; this burst does wrap.
    assert [t.address for t in tlps[1:16]] == [(0x0FFFFFF00 + 256 * i) % (1 << 32) for i in range(1, 16)]
    assert [t.byte_count for t in tlps[16:]] == [4096 - 64 * i for i in range(64)]
    assert [t.lower_address for t in tlps[16:]] == [64 * i % 128 for i in range(64)]
    assert all(t.tag == 1000 and not any(t.get_data()) for t in tlps[16:])
    assert [e["time_ps"] for e in events] == [STEP_PS * i for i in range(80)]
