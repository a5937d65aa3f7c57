"""The generated Verilog for other projects."""

import pytest
from wattbell_gateware import generate
from wattbell_gateware.instrument import Instrument, Options

# Instruments are made here and not elaborated; Amaranth would warn when they are collected, some time later.
Instrument._MustUse__silence = True


@pytest.mark.parametrize("arguments", [{"width": 96}, {"adc": "parallel"}, {"ticks_per_clock": 5}])
def test_bad_parameters_are_refused(arguments):
    with pytest.raises(ValueError) as refused:
        Options(**arguments)
    assert str(refused.value).startswith(("adc must", "ticks_per_clock must", "TLP datapath width must"))


def test_unchanged_sources_cost_nothing(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(generate, "convert", lambda component, name: made.append(name) or f"module {name}")
    generate.generate(tmp_path, ["instrument_x4_word"])
    stamp = (tmp_path / "instrument_x4_word.v").stat().st_mtime_ns
    generate.generate(tmp_path, ["instrument_x4_word"])
    assert made == ["instrument_x4_word"] and (tmp_path / "instrument_x4_word.v").stat().st_mtime_ns == stamp
    monkeypatch.setattr(generate, "sources_digest", lambda: "changed")
    generate.generate(tmp_path, ["instrument_x4_word"])
    assert len(made) == 2 and (tmp_path / "instrument_x4_word.v").stat().st_mtime_ns == stamp
