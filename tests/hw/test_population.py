"""Random boards: ngspice against hand analysis, calibration, and the budget against what occurs."""

import math
import tomllib
from random import Random

import pytest
from afe import __main__ as entry
from afe import boards, budget, model, parts, report, studies
from afe import population as pop

PARTS, _ = parts.load()


@pytest.fixture(scope="module")
def noise():
    return studies.noise(PARTS)


@pytest.fixture(scope="module")
def readings(noise):
    return pop.population(PARTS, noise, 400, seed=7)


def test_ngspice_and_the_hand_analysis_agree_on_random_boards():
    agreement = entry.monte_carlo(PARTS, 3)
    assert agreement["largest_difference_v"] < entry.AGREE_V
    assert agreement["largest_difference_s"] < entry.AGREE_S


def test_autozero_shows_everything_but_the_shunts_thermal_voltage():
    rng = Random(4)
    for _ in range(20):
        board = boards.draw(PARTS, rng)
        short = boards.transfer(board, 0.7, 3.3, 10.0, short=True)
        drive = 3.3 - board["rshunt"] * (1 + board["rtol"]) * (1 + board["rtc"] * 10) * 0.7
        nothing = boards.transfer(board | {"emf": 0.0}, 0.0, drive, 10.0)
        assert short.fine == pytest.approx(nothing.fine, abs=1e-9)
        hidden = boards.transfer(board, 0.0, 3.3, 10.0).fine - boards.transfer(board, 0.0, 3.3, 10.0, short=True).fine
        assert hidden / 3600 == pytest.approx(board["emf"], rel=2e-3, abs=1e-12)


@pytest.mark.parametrize(("scenario", "condition"), [("lab, autozero", budget.CONDITIONS[1]), ("0..50 C, autozero", budget.CONDITIONS[2])])
def test_the_budget_covers_what_occurs_and_not_much_more(readings, noise, scenario, condition):
    density = noise["fine"]["density_1khz"]
    for n, current in enumerate(pop.CURRENTS_A):
        uncertain = budget.expanded(budget.current_terms(PARTS, density, current, condition), current)
        errors = [board[n].error for board in readings[scenario]]
        inside = sum(abs(error) <= uncertain for error in errors) / len(errors)
        assert inside >= 0.91, current  # 95 % less four standard errors
        if current != 0.1:  # there the budget takes the coarse path's nonlinearity at its worst; the boards' is smooth
            rms = math.sqrt(sum(x * x for x in errors) / len(errors))
            assert 2 * rms == pytest.approx(uncertain, rel=0.15), current
        by_power = budget.power(PARTS, density, 3.3 * current, condition)
        assert sum(abs(board[n].power_error) <= by_power for board in readings[scenario]) >= 0.91 * len(errors)


def test_the_goals_hold_with_autozero_and_not_without(readings):
    def share(scenario, n):
        limit = budget.limit(pop.CURRENTS_A[n])
        return sum(abs(board[n].error) <= limit for board in readings[scenario]) / len(readings[scenario])

    for n, current in enumerate(pop.CURRENTS_A):
        assert share("0..50 C, autozero", n) >= (0.98 if current < 1e-3 else 0.99)
    assert share("0..50 C, no autozero", pop.CURRENTS_A.index(1e-4)) < 0.6


def test_calibration_is_what_brings_them_there(noise):
    density = noise["fine"]["density_1khz"]
    for current in budget.DECADES_A:
        assert budget.expanded(budget.current_terms(PARTS, density, current, budget.CONDITIONS[0]), current) > budget.limit(current)


def test_the_model_file_is_of_these_parts():
    old = tomllib.loads(model.MODEL.read_text())
    fresh = model.spreads(PARTS, count=300)
    for table, entries in fresh.items():
        for key, value in entries.items():
            assert old[table][key] == pytest.approx(value, rel=0.2), (table, key)  # 300 boards: 4 % of standard error
    nominal = old["coarse"]
    assert sum(nominal["poles_s"]) - nominal["zero_s"] == pytest.approx(nominal["delay_s"], rel=1e-5)


def test_a_stale_model_file_is_named():
    old = {"coarse": {"lsb": 1.0, "poles_s": [1.0, 2.0]}, "fine": {"lsb": 1.0}}
    assert entry.differences(old, old) == []
    assert entry.differences(old, {"coarse": {"lsb": 1.0005, "poles_s": [1.0, 2.01]}}) == ["coarse.poles_s", "fine.lsb"]


def test_figures_are_written_without_exponents():
    assert [report.si(x, "A", 2) for x in (6.9e-7, 0.00104, 1.0, 0.9999, 4.0, 5e-6, 2.5e-10)] == [
        "690 nA",
        "1 mA",
        "1 A",
        "1 A",
        "4 A",
        "5 uA",
        "0.25 nA",
    ]


def test_marks_of_the_document(tmp_path):
    path = tmp_path / "a.md"
    path.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    report.write_docs("new", path)
    assert path.read_text() == f"before\n{report.BEGIN}\n\nnew\n\n{report.END}\nafter\n"
    path.write_text("no marks\n")
    with pytest.raises(ValueError, match="marks"):
        report.write_docs("new", path)
    assert report.BEGIN in report.DOCS.read_text()
