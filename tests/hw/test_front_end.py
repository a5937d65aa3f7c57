"""The decks of the front end against what `design.py` and this file work out by hand."""

import math
from random import Random

import pytest
from afe import design, parts, studies

PARTS, SOURCES = parts.load()
NOMINAL = design.design(PARTS)


def test_every_figure_has_a_source_and_what_is_from_memory_says_so():
    for part in PARTS.values():
        assert part.part and part.why
        for figure in part.figures.values():
            assert figure.source in SOURCES
            if figure.kind == "assumed":
                assert figure.source == "assumed"
    assert "to be confirmed" in SOURCES["unconfirmed"]


def test_a_table_with_a_figure_of_no_source_is_refused(tmp_path):
    path = tmp_path / "parts.toml"
    path.write_text('[sources]\n[x]\npart="x"\nwhy="x"\nr={value=1.0,unit="ohm",kind="typ",source="nowhere"}\n')
    with pytest.raises(ValueError, match="nowhere"):
        parts.load(path)


def test_drawn_errors_have_the_spread_that_is_stated():
    rng = Random(1)
    for draw in ("limit", "uniform", "sigma"):
        figure = parts.PartFigure(2.0, "V", "max", "design", draw)
        values = [figure.drawn(rng) for _ in range(20_000)]
        assert math.sqrt(sum(x * x for x in values) / len(values)) == pytest.approx(figure.sigma, rel=0.02)
        assert draw == "sigma" or max(map(abs, values)) <= 2.0


def test_what_the_gateware_takes_for_granted():
    # docs/architecture.md: one code is 31.25 uA and 5 V / 2**18; docs/accuracy.md: 2 us of delay
    assert pytest.approx(31.25e-6) == NOMINAL.lsb_coarse
    assert pytest.approx(5 / 2**18, rel=1e-3) == NOMINAL.lsb_voltage
    for delay in (NOMINAL.delay_coarse, NOMINAL.delay_fine, NOMINAL.delay_voltage):
        assert delay == pytest.approx(2e-6, abs=5e-9)
    assert NOMINAL.burden <= 0.05
    assert PARTS["adc"].conversion <= 320e-9


def test_gain_and_delay_of_the_decks_are_those_on_paper():
    result = studies.bandwidth(PARTS)
    for path, gain, delay in (
        ("coarse", design.GAIN_COARSE * 0.01, NOMINAL.delay_coarse),
        ("fine", design.GAIN_FINE * 0.01, NOMINAL.delay_fine),
        ("voltage", design.DIVIDER, NOMINAL.delay_voltage),
    ):
        assert result[path]["gain"] == pytest.approx(gain, rel=5e-4)  # the drivers' open-loop gain is finite
        assert result[path]["delay_s"] == pytest.approx(delay, abs=1e-9)
        assert 70e3 < result[path]["corner_hz"] < 110e3


def test_noise_of_the_coarse_path_is_that_of_its_first_pair():
    result = studies.noise(PARTS)
    amplifier, network = PARTS["amplifier"].noise, 4 * design.BOLTZMANN * design.CELSIUS_27 * 100
    # 100 ohm between the inputs, two amplifiers; behind a gain of 25 the drivers' 1.25 k, 5 k and 3.9 nV count little
    first = math.sqrt(2 * amplifier**2 + network * 24 / 25) / PARTS["shunt"].resistance
    for path in ("coarse", "fine"):
        assert result[path]["density_1khz"] == pytest.approx(first, rel=0.03)
        assert result[path]["density_1khz"] >= first * 0.999
    # noise bandwidth of one pole at the corner, less what the amplifiers' own poles take off
    bandwidth = math.pi / 2 * studies.bandwidth(PARTS)["coarse"]["corner_hz"]
    assert result["coarse"]["front_end_rms"] == pytest.approx(first * math.sqrt(bandwidth), rel=0.08)
    assert result["voltage"]["rms_lsb"] > 1


def test_an_edge_is_late_by_resistance_times_capacitance():
    resistance = (
        PARTS["rail"].source_resistance
        + PARTS["rail"].copper_before
        + PARTS["rail"].copper_behind
        + PARTS["load_switch"].resistance
        + PARTS["shunt"].resistance
    )
    for name, entry in studies.edges(PARTS).items():
        capacitance = float(name.split()[0]) * 1e-6
        # first moment of (1 + s C esr) / (1 + s C (esr + R) + s^2 L C)
        assert entry["connector_delay_s"] == pytest.approx(resistance * capacitance, abs=10e-9)
        assert entry["coarse_delay_s"] - entry["connector_delay_s"] == pytest.approx(NOMINAL.delay_coarse, abs=20e-9)
        assert entry["charge"] == pytest.approx(1, abs=2e-4)  # 10 ns of edges
        assert 0.5 < entry["within"] < 1


def test_overload_recovers_no_slower_than_the_filter_and_does_saturate():
    for entry in studies.overload(PARTS).values():
        assert entry["saturated_at_v"] > PARTS["reference"].voltage
        assert entry["fine_s"] < entry["linear_s"]
        assert entry["coarse_s"] < entry["linear_s"]


def test_common_mode_by_hand():
    result = studies.common_mode(PARTS)
    # driver with both dividers off by 2e-4 of their ratio, opposite ways: error / V = 4 * match * Rf / (Rf + Rg) at the output
    match, cmrr = PARTS["driver_network"].match, PARTS["amplifier"].cmrr
    by_network = 4 * match * 4 / 5 / (design.GAIN_COARSE * PARTS["shunt"].resistance)
    by_amplifiers = 2 * cmrr / PARTS["shunt"].resistance
    assert abs(result["coarse_rail_step_a"]) == pytest.approx(studies.RAIL_STEP_V * abs(by_amplifiers - by_network), rel=0.02)
    assert abs(result["fine_rail_step_a"]) < 5e-6


def test_headroom():
    amplifier, driver = PARTS["amplifier"], PARTS["driver"]
    at = studies.headroom(PARTS)
    # By hand at 0.1 A: 1 mV times 25 around 3.2995 V, times 16 behind; drivers see the dividers' middle.
    low = at["0.1 A"]
    assert low["first_high"] - low["first_low"] == pytest.approx(25e-3, rel=1e-3)
    assert low["second_high"] - low["second_low"] == pytest.approx(0.4, rel=1e-3)
    assert low["coarse_in"] == pytest.approx((3.2995 * 4 + driver.vocm) / 5, abs=1e-3)
    assert low["fine_in"] == pytest.approx((3.2995 * 9 + driver.vocm) / 10, abs=1e-3)
    assert abs(low["clamp_current"]) < 1e-9
    for nodes in at.values():
        for name in ("first_high", "first_low", "second_high", "second_low"):
            assert amplifier.supply_low + 0.3 < nodes[name] < amplifier.supply_high - 0.3, name  # no pair ever saturates
        assert max(nodes["coarse_in"], nodes["fine_in"]) < driver.input_high
    assert 1e-3 < at["4 A"]["clamp_current"] < PARTS["driver_clamp"].clamp_current


@pytest.mark.parametrize(("network", "alone"), [(design.COARSE_DRIVER, 33), (design.FINE_DRIVER, 47)])
def test_the_drivers_phase_margin(network, alone):
    driver = PARTS["driver"]
    # by hand: where gbw / noise gain / f falls to sqrt(1 + (f / pole)^2), the pole takes its arc tangent off 90 degrees
    parallel = network[0] * network[1] / sum(network)
    pole = 1 / (2 * math.pi * parallel * driver.stray)
    unity = driver.gbw * network[0] / sum(network)
    crossing = pole * math.sqrt((math.sqrt(1 + 4 * (unity / pole) ** 2) - 1) / 2)
    assert design.phase_margin(driver, network, 0.0) == pytest.approx(90 - math.degrees(math.atan(crossing / pole)), abs=0.3)
    assert design.phase_margin(driver, network, 0.0) == pytest.approx(alone, abs=1)
    assert design.phase_margin(driver, network, driver.feedback) > 60
