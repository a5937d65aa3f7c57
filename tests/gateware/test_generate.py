"""The generated Verilog for other projects."""

import os
import subprocess
import sys

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


def test_a_variant_is_the_same_in_every_process(tmp_path):
    """A set that is iterated over, for instance, has another order in each process."""
    made = []
    for seed in ("1", "3"):  # of which Python orders the names of the two clocks otherwise
        command = [sys.executable, "-m", "wattbell_gateware.generate", "--out", tmp_path / seed, "--variant", "instrument_x4_word"]
        subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": seed}, check=True, stdout=subprocess.DEVNULL)
        made.append((tmp_path / seed / "instrument_x4_word.v").read_text())
    assert made[0] == made[1]
