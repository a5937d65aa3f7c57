"""The TLP header parser alone: TLPs packed by cocotbext-pcie, whole, damaged, and more than fit."""

from __future__ import annotations

import pytest
from wattbell_gateware.tlp import TlpParser

from tests.gateware import harness

BEATS, HEADERS = 64, 16


@pytest.mark.parametrize(("width", "upstream"), [(128, False), (128, True), (64, False), (64, True)])
def test_parser(width, upstream):
    harness.run(
        TlpParser(width, upstream=upstream, beats=BEATS, headers=HEADERS),
        name=f"parser_{width}_{'up' if upstream else 'down'}",
        test_module="cocotb_parser",
        here=__file__,
        env={"WIDTH": str(width), "UPSTREAM": str(int(upstream)), "BEATS": str(BEATS), "HEADERS": str(HEADERS)},
    )
