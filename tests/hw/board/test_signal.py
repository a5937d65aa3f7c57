"""Impedance, channel and eyes against closed forms that we did not write, and broken boards that have to be caught."""

from dataclasses import replace

import numpy as np
import pytest
import skrf
from board.checks import signal as checks
from board.design import design
from board.signal import eye, field, impedance, lines, margins
from board.signal.channel import Model, figures
from board.signal.stackup import load
from scipy.special import ellipk
from skrf.media import MLine

STACK = load()
VALUES = figures()


@pytest.fixture(scope="module")
def model():
    return Model(STACK, VALUES, stop=20e9)


def ground(width, y0, y1):
    return field.Conductor(0.0, width, y0, y1)


@pytest.mark.parametrize("w,s,b,er", [(150e-6, 100e-6, 300e-6, 4.0), (90e-6, 200e-6, 200e-6, 4.2), (300e-6, 60e-6, 250e-6, 3.5)])
def test_stripline_pair_is_cohns(w, s, b, er):
    # Cohn, "Shielded coupled-strip transmission line", IRE Trans. MTT-3 (1955): exact for strips without thickness
    right = s / 2 + w + 6 * b
    strips = (field.Conductor(s / 2, s / 2 + w, b / 2, b / 2, 1.0), ground(right, 0, 0), ground(right, b, b))
    for mode, sign in (("odd", -1), ("even", 1)):
        cut = field.CrossSection(0, right, 0, b, (field.Dielectric(0, right, 0, b, er),), strips, mode)
        k = np.tanh(np.pi * w / 2 / b) * np.tanh(np.pi * (w + s) / 2 / b) ** sign
        exact = 30 * np.pi / np.sqrt(er) * ellipk(1 - k**2) / ellipk(k**2)
        assert field.line(cut, skin=False).impedance == pytest.approx(exact, rel=3e-3)


@pytest.mark.parametrize("w,h,er", [(1e-3, 1e-3, 4.0), (150e-6, 100e-6, 4.0), (2e-3, 0.5e-3, 10.0)])
def test_microstrip_is_hammerstad_and_jensens(w, h, er):
    # scikit-rf's MLine, without dispersion, losses and thickness
    theirs = MLine(
        skrf.Frequency(1, 2, 2, "mhz"),
        w=w,
        h=h,
        ep_r=er,
        t=None,
        model="hammerstadjensen",
        disp="none",
        diel="frequencyinvariant",
        tand=0,
        rho=0,
    )
    right = w + 40 * h
    cut = field.CrossSection(
        0,
        right,
        -h / 20,
        60 * h,
        (field.Dielectric(0, right, 0, h, er),),
        (field.Conductor(0, w / 2, h, h, 1.0), ground(right, -h / 20, 0)),
    )
    assert field.line(cut, skin=False, finest=h / 300).impedance / 2 == pytest.approx(theirs.z0_characteristic[0].real, rel=2e-3)


def test_pairs_as_the_fabs_own_calculator_has_them():
    # JLC08161H-3313, outer layer, from its calculator (2026-08, in a public project's notes): 0.0994 mm of Dk 4.1, 35 um, gap 8 mil
    mil, h, t = 25.4e-6, 99.4e-6, 35e-6
    for width, target in ((6.05, 90), (4.69, 100)):
        x0, x1 = 4 * mil, (4 + width) * mil
        right = x1 + 20 * h
        mask = 12.7e-6
        cut = field.CrossSection(
            0,
            right,
            -5e-6,
            h + t + 20 * h,
            (
                field.Dielectric(0, right, 0, h, 4.1),
                field.Dielectric(0, right, h, h + 20.3e-6, 3.8),
                field.Dielectric(x0 - mask, x1 + mask, h, h + t + mask, 3.8),
            ),
            (field.Conductor(x0, x1, h, h + t, 1.0), ground(right, -5e-6, 0)),
            "odd",
        )
        assert 2 * field.line(cut, skin=False).impedance == pytest.approx(target, rel=0.03)


def test_skin_resistance_of_a_wide_strip_is_that_of_two_planes():
    # Far from its ends a strip over a plane has 2 Rs / w; a 3 mm strip over 50 um is nearly all that
    w, h = 3e-3, 50e-6
    right = w / 2 + 40 * h
    cut = field.CrossSection(0, right, -20e-6, 60 * h, (), (field.Conductor(0, w / 2, h, h + 20e-6, 1.0), ground(right, -20e-6, 0)))
    assert field.skin_factor(cut) / 2 == pytest.approx(2 / w, rel=0.12)


def test_a_dielectric_of_constant_loss_is_causal():
    f = np.geomspace(1e6, 4e10, 60)
    epsilon = lines.permittivity(f, 4.0, 0.02)
    assert -epsilon.imag[30] / epsilon.real[30] == pytest.approx(0.02, rel=0.1)
    # Kramers and Kronig for a flat loss: the real part falls by 2 / pi times the imaginary one for each factor e
    slope = np.diff(epsilon.real) / np.diff(np.log(f))
    assert slope[30] == pytest.approx(2 / np.pi * epsilon.imag[30], rel=0.05)


def test_a_long_line_answers_no_sooner_than_light_and_makes_no_energy(model):
    line = model.line("pcie", 100.0)
    assert line.is_passive() and line.is_reciprocal()
    pulse = eye.pulse(line.f, line.s[:, 1, 0], 200e-12, eye.Transmitter(1.0, 40e-12), eye.ReceiverModel())
    step = 200e-12 / eye.PHASES
    soonest = 0.1 / field.SPEED_OF_LIGHT + 200e-12  # the main bit is the second of the transmitter's three
    # The transmitter's Gaussian edge reaches 60 ps back
    before = np.abs(pulse[: int((soonest - 60e-12) / step)])
    assert before.max() < 0.005 * np.abs(pulse).max()
    assert np.argmax(pulse) * step == pytest.approx(0.1 * np.sqrt(2.9) / field.SPEED_OF_LIGHT + 300e-12, rel=0.05)


def test_a_tap_on_a_matched_line_divides_as_by_hand(model):
    values = {
        **VALUES,
        "tap": VALUES["tap"] | {"trace": 0.0, "stub": 0.0, "pad_capacitance": 0.0, "resistor_inductance": 0.0, "resistor_capacitance": 0.0},
    }
    values["amplifier"] = VALUES["amplifier"] | {"input_capacitance": 0.0}
    bare = Model(STACK, values, stop=2e9)
    tap = bare.tap(100.0)
    tap.renormalize(np.array([85.0, 100.0]))
    at = int(np.searchsorted(tap.f, 1e9))
    shunt = 85 * (1 + tap.s[at, 0, 0]) / (1 - tap.s[at, 0, 0])
    assert shunt == pytest.approx(300, rel=0.01)  # 2 x 100 and the amplifier's 100


def test_an_ideal_channel_has_an_open_eye():
    f = np.arange(1, 2001) * 10e6
    delay = np.exp(-2j * np.pi * f * 1e-9)
    found = eye.eye(f, delay, 400e-12, eye.Transmitter(0.8, 30e-12))
    assert found.height == pytest.approx(0.8, rel=0.02)
    assert found.width == pytest.approx(1.0, abs=0.07)
    jittered = eye.eye(f, delay, 400e-12, eye.Transmitter(0.8, 30e-12), jitter=(40e-12, 3e-12))
    assert found.width - jittered.width == pytest.approx(eye.total_jitter(40e-12, 3e-12) / 400e-12, abs=0.04)


def test_peak_distortion_is_the_worst_of_all_patterns():
    # Brute force over patterns of a channel with three samples of interference
    f = np.arange(1, 2001) * 10e6
    ui = 400e-12
    channel = np.exp(-2j * np.pi * f * 2e-9) * (1 + 0.2 * np.exp(-2j * np.pi * f * ui) + 0.1 * np.exp(-2j * np.pi * f * 2 * ui)) / 1.3
    found = eye.eye(f, channel, ui, eye.Transmitter(1.0, 20e-12))
    assert found.worst == pytest.approx((1 - 0.2 - 0.1) / 1.3, rel=0.03)
    assert 0.99 * found.worst <= found.height <= found.amplitude


def test_de_emphasis_is_that_of_the_standard():
    pre, post = eye.Transmitter.deemphasis(-6.0)
    assert pre == 0
    assert 20 * np.log10(1 - 2 * abs(post)) == pytest.approx(-6.0)


def test_the_quick_checks_pass_and_say_where_they_hold_a_stated_figure_only():
    """At the FPGA there is no margin at 5 GT/s: docs/signal.md and hw/README.md say so, and the row does."""
    found = list(checks.quick())
    assert [c.name for c in found if not c.passed] == []
    (row,) = (c for c in found if "FPGA's input" in c.name)
    assert row.name.endswith("(stated, no margin by PCIe)") and "0.39 UI" in row.limit
    assert len(found) > 8


def test_a_pair_of_the_wrong_width_is_caught():
    wrong = replace(STACK, pairs={"pcie": replace(STACK.pairs["pcie"], width=0.2e-3)})
    (row,) = checks.pair_impedances(wrong)
    assert not row.passed


def test_a_tap_resistor_of_ten_times_the_value_is_caught():
    values = {**VALUES, "tap": VALUES["tap"] | {"resistance": 10 * VALUES["tap"]["resistance"]}}
    rows = list(checks.build_t(Model(STACK, values, stop=20e9), ("far",), ("g5",)))
    assert any(not row.passed and "amplifier" in row.name for row in rows)


def test_a_tap_without_resistors_ruins_the_link():
    values = {**VALUES, "tap": VALUES["tap"] | {"resistance": 0.0}}
    model = Model(STACK, values, stop=20e9)
    good = margins.at_receiver(model, model.channel(200.0, tapped=False), "g5")
    bad = margins.at_receiver(model, model.channel(200.0), "g5")
    assert bad.eye.height < 0.75 * good.eye.height


def test_a_thick_board_is_caught():
    layers = tuple(replace(x, top=2 * x.top, thickness=2 * x.thickness) for x in STACK.layers)
    assert not checks.thickness(replace(STACK, layers=layers)).passed


def test_a_stackup_without_a_source_is_refused(tmp_path):
    path = tmp_path / "stackup.toml"
    path.write_text('[sources]\n[[layer]]\nkind="copper"\nname="F.Cu"\nthickness=0.035\nsource="nowhere"\n')
    with pytest.raises(ValueError, match="nowhere"):
        load(path)


def test_the_nominal_is_inside_its_own_spread():
    low, high = impedance.spread(STACK, STACK.pairs["pcie"])
    assert low < impedance.differential(STACK, STACK.pairs["pcie"]) < high


def test_a_wrong_resistor_in_the_schematic_is_caught():
    good = design()
    assert checks.tap_parts(good, VALUES).passed
    ref = next(ref for ref, part in good.parts.items() if part.place.startswith("tap ") and ref[0] == "R")
    bad = replace(good, parts={**good.parts, ref: replace(good.parts[ref], value="1k")})
    row = checks.tap_parts(bad, VALUES)
    assert not row.passed and ref in row.detail


def straight(f):
    return np.exp(-2j * np.pi * f * 1e-9)


def test_a_run_of_equal_bits_is_de_emphasised_and_a_lone_one_is_not():
    f = np.arange(1, 2001) * 10e6
    tx = eye.Transmitter(0.8, 30e-12, eye.Transmitter.deemphasis(-3.5))
    found = eye.eye(f, straight(f), 400e-12, tx)
    # The worst bit is a repeated one: swing at -3.5 dB
    assert found.height == pytest.approx(0.8 * 10 ** (-3.5 / 20), rel=0.02)


def test_levels_are_probabilities_and_reach_as_far_as_the_interference():
    rows = eye._probabilities(np.array([[0.1, -0.05, 0.02]]), np.array([0.4]), 0.0, (), 0.8)
    levels = -0.8 + 1.6 / eye.LEVELS * np.arange(eye.LEVELS)
    assert rows.sum() == pytest.approx(1.0)
    assert (rows[0] * levels).sum() == pytest.approx(0.4, abs=1e-3)
    assert (rows[0] * (levels - 0.4) ** 2).sum() == pytest.approx(0.1**2 + 0.05**2 + 0.02**2, rel=0.01)


def test_crosstalk_closes_the_eye_by_its_level(model):
    channel = model.channel(100.0, tapped=False)
    quiet = Model(STACK, {**VALUES, "socket": VALUES["socket"] | {"crosstalk_db": -120.0}}, stop=20e9)
    loud = margins.at_receiver(model, channel, "g5")
    assert margins.at_receiver(quiet, channel, "g5").eye.height - loud.eye.height == pytest.approx(4 * 0.8 * 10 ** (-40 / 20), rel=0.15)


def test_the_equaliser_has_its_gain_at_dc_and_lets_the_middle_pass():
    found = np.abs(eye.ctle(np.array([1e3, 5e9]), eye.ReceiverModel(-9.0, 2e9, 16e9)))
    assert 20 * np.log10(found[0]) == pytest.approx(-9.0, abs=0.01)
    assert 20 * np.log10(found[1]) > -2
