"""ngspice and the macromodels against theory: Johnson noise, kT/C, RC corners, poles, clamps."""

import math

import numpy as np
import pytest
from afe import spice

BOLTZMANN = 1.380649e-23
WARM = 300.15


def printed(body):
    return spice.run("test", {}, "test\n.include macros.lib\n" + body + "quit 0\n.endc\n.end\n")


def test_johnson_noise_of_a_resistor():
    values, _ = printed(
        "V1 a 0 dc 0 ac 1\nR1 a b 10k\nR2 b 0 10k\n.control\nnoise v(b) V1 dec 10 1k 1001k\nlet total = noise2.onoise_total\nprint total\n"
    )
    assert values["total"] == pytest.approx(math.sqrt(4 * BOLTZMANN * WARM * 5e3 * 1e6), rel=1e-3)


def test_noise_on_a_capacitor_is_kt_over_c():
    values, _ = printed(
        "V1 a 0 dc 0 ac 1\nR1 a b 780\nC1 b 0 2256p\n.control\nnoise v(b) V1 dec 50 1 10g\nlet total = noise2.onoise_total\nprint total\n"
    )
    assert values["total"] == pytest.approx(math.sqrt(BOLTZMANN * WARM / 2256e-12), rel=2e-3)


def test_corner_of_an_rc():
    _, tables = printed("V1 a 0 dc 0 ac 1\nR1 a b 780\nC1 b 0 2256p\n.control\nac lin 1 90445.13 90445.13\nwrdata rc.txt vr(b) vi(b)\n")
    frequency, real, imaginary = tables["rc"][0]
    assert frequency == pytest.approx(1 / (2 * math.pi * 780 * 2256e-12), rel=1e-4)
    assert math.hypot(real, imaginary) == pytest.approx(math.sqrt(0.5), rel=1e-4)


AMPLIFIER = "V1 a 0 dc 0 ac 1\nX1 a n o opamp gbw=14meg en=5.8n vos=10u\nR1 n 0 1\nR2 n o 24\n.control\n"


def test_amplifier_noise_is_its_density_over_the_noise_bandwidth():
    values, _ = printed(AMPLIFIER + "noise v(o) V1 dec 50 1 10g\nlet total = noise2.onoise_total\nprint total\n")
    corner = 14e6 / 25
    resistors = math.sqrt(4 * BOLTZMANN * WARM * 24 / 25)  # of 1 and 24 ohm in parallel, at the input
    assert values["total"] == pytest.approx(25 * math.hypot(5.8e-9, resistors) * math.sqrt(math.pi / 2 * corner), rel=5e-3)


def test_amplifier_pole_is_gain_bandwidth_over_gain():
    _, tables = printed(AMPLIFIER + "ac lin 1 560k 560k\nwrdata ac.txt vr(o) vi(o)\n")
    assert complex(*tables["ac"][0, 1:]) == pytest.approx(25 / (1 + 1j), rel=1e-3)


def test_amplifier_offset_and_common_mode_error():
    values, _ = printed(
        "V1 a 0 3.3\nX1 a o o opamp vos=10u ccm=2e-6\n.options reltol=1e-9 vntol=1e-12\n"
        ".control\nop\nset numdgt=12\nlet error = v(o) - 3.3\nprint error\n"
    )
    # 3.3 V / 3e7 are missing due to finite open-loop gain
    assert values["error"] == pytest.approx(10e-6 + 3.3 * 2e-6 - 3.3 / 3e7, abs=2e-9)


def test_amplifier_is_clamped_slews_and_does_not_wind_up():
    _, tables = printed(
        "V1 a 0 pwl(0 0 1u 0 1.01u 5 10u 5 10.01u 0)\nX1 a n o opamp sr=20meg vh=9 vl=-4\nR1 n 0 1k\nR2 n o 24k\n"
        ".control\ntran 10n 15u 0 10n\nlinearize o\nwrdata out.txt o\n"
    )
    time, out = tables["out"].T
    assert 9.0 < out.max() < 10.0
    slewing = (time > 1.1e-6) & (time < 1.4e-6)
    assert np.diff(out[slewing]) / np.diff(time[slewing]) == pytest.approx(20e6, rel=0.02)
    # at 10 us down again at 20 V/us from the clamp, without having integrated 9 us of overload
    assert np.interp(11.5e-6, time, out) < 0.1


def test_driver_gain_common_mode_and_clamp():
    body = (
        "V1 a 0 3.3\nV2 b a {}\nVo c 0 2.048\nR1 b p 1k\nR2 a q 1k\nR3 p m2 4k\nR4 q p2 4k\nX1 p q p2 m2 c fda aol=1e7\n"
        ".options reltol=1e-9 vntol=1e-12\n.control\nop\nset numdgt=12\nlet difference = v(p2)-v(m2)\nlet common = (v(p2)+v(m2))/2\n"
        "print difference\nprint common\n"
    )
    values, _ = printed(body.format(0.5))
    assert values["difference"] == pytest.approx(2.0, rel=1e-5)
    assert values["common"] == pytest.approx(2.048, abs=1e-9)
    values, _ = printed(body.format(5.0))
    # the lower output stops at -0.9 V first: 2 * (2.048 + 0.9), and what the clamping diode needs
    assert 5.89 < values["difference"] < 6.9


def test_a_deck_that_fails_says_so():
    with pytest.raises(spice.SpiceError, match="nothing is not available"):
        printed("V1 a 0 1\nR1 a 0 1\n.control\nop\nprint v(nothing)\n")
