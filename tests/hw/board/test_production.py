"""Checks of the files for the fab: each fault put into them is seen. No KiCad: texts as KiCad writes them."""

from __future__ import annotations

from pathlib import Path

from board import production
from board.checks import production as checks
from board.design import design
from board.layout.board import FILE
from board.layout.frame import kicad_xy
from board.netlist import Design
from board.pcb import read


def ipc(ours: Design, swapped: tuple[str, str] | None = None) -> str:
    """A netlist of all pads; ``swapped``: two nets that have each other's pin of the first one's."""
    lines = ["P  CODE 00"]
    for net in ours.nets.values():
        pins = sorted(net.pins)
        if swapped and net.name in swapped:
            other = ours.nets[swapped[1 - swapped.index(net.name)]]
            pins = [*pins[1:], min(other.pins)]
        lines += [f"327{net.name[-14:]:14s}   {ref:6s}-{pin:4s}       A01X+028031Y-054488X0157Y0000R000S2" for ref, pin in pins]
    return "\n".join(lines)


def test_two_exchanged_pins_in_the_fabs_netlist_are_seen() -> None:
    ours = design()
    assert checks.nets(ipc(ours), ours).passed
    wrong = checks.nets(ipc(ours, ("DEVSLP", "SUSCLK")), ours)
    assert not wrong.passed
    assert "DEVSLP" in wrong.detail
    assert not checks.nets("\n".join(line for line in ipc(ours).splitlines() if "SUSCLK" not in line), ours).passed


def test_a_hole_too_few_is_seen() -> None:
    board = read(FILE)
    count = len(board.vias) + sum(pad.drill > 0 for pad in board.pads)
    text = "M48\nT1C0.200\nT1\n" + "X1.0Y-2.5\n" * (count - 1) + "X1.0Y2.0G85X1.0Y3.0\nT0\nM30\n"
    assert checks.drilled(checks.holes(text), board).passed
    assert not checks.drilled(checks.holes(text.replace("X1.0Y-2.5\n", "", 1)), board).passed


def test_places_of_a_build(tmp_path: Path) -> None:
    ours, board = design(), read(FILE)
    rows = []
    for ref, (at, side) in board.parts.items():
        if ref in ours.parts:
            x, y = kicad_xy(at)
            rows.append(f'"{ref}","x","y",{x:.6f},{-y:.6f},0.000000,{"top" if side == "F" else "bottom"}')
    every = "Ref,Val,Package,PosX,PosY,Rot,Side\n" + "\n".join(rows) + "\n"
    path = tmp_path / "positions.csv"
    path.write_text(production.positions(every, ours, "P"))
    assert checks.placed(path, board, ours, "P").passed
    assert "R100," not in path.read_text()  # the tap's resistors are not on it
    assert "R1," not in production.positions(every, ours, "T")
    good = path.read_text()
    line = next(line for line in good.splitlines() if line.startswith("U200,"))
    for wrong in (line.replace("top", "bottom"), line.replace(line.split(",")[3], "70.1"), f"{line}\n{line}", ""):
        path.write_text(good.replace(line, wrong).replace("\n\n", "\n"))
        found = checks.placed(path, board, ours, "P")
        assert not found.passed
        assert "U200" in found.detail


def test_an_empty_layer_and_another_content_are_seen(tmp_path: Path) -> None:
    made = {}
    for name in production.LAYERS:
        made[f"{name}.gbr"] = tmp_path / f"{name}.gbr"
        made[f"{name}.gbr"].write_text("%TF.CreationDate,2026-01-01*%\nX0Y0D03*\nM02*\n")
    assert checks.layers(made).passed
    known = production.digests(made)
    assert checks.as_committed(production.digests(made), known).passed
    made["F.Cu.gbr"].write_text("%TF.CreationDate,2027-02-02*%\nX0Y0D03*\nM02*\n")
    assert checks.as_committed(production.digests(made), known).passed
    made["F.Cu.gbr"].write_text("%TF.CreationDate,2026-01-01*%\nM02*\n")
    assert not checks.layers(made).passed
    assert checks.as_committed(production.digests(made), known).detail.startswith("F.Cu.gbr")
    assert not checks.as_committed({}, known).passed


def test_every_compared_file_is_committed_with_a_digest() -> None:
    known = production.committed()
    assert {name for name in known if name.endswith(".gbr")} == {
        f"gerbers/wattbell-{layer.replace('.', '_').replace('SilkS', 'Silkscreen')}.gbr" for layer in production.LAYERS
    }
    assert {"bom.csv", "positions-T.csv", "positions-P.csv", "wattbell.ipc", "gerbers/wattbell-PTH.drl"} <= known.keys()
    assert known["bom.csv"] == production.content(production.MANUFACTURE / "bom.csv")
