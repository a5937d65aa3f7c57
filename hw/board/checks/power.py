"""The power tree against ``power.toml``: every rail's voltage and current, heat, USB's budget, the order, the capacitors of each supply."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..check import Check
from ..design import design
from ..netlist import Design, DesignError
from ..powertree import NO_LIMIT_V, RailSupply, Tree, between, load, pins_named, supply_pins
from ..values import number

__all__ = ["capacitors", "checks", "fed", "heat", "input_current", "known", "light", "order", "quick", "rails", "reset", "rise"]

SHARE = 0.8
"""Usable share of a regulator's rating."""


def quick() -> Iterator[Check]:
    """All without KiCad."""
    yield from checks(design(), load())


def checks(ours: Design, table: dict[str, Any]) -> Iterator[Check]:
    """Every row. A tree that cannot be worked out is one row that fails."""
    try:
        tree = Tree(ours, table)
        rows = [
            *rails(tree),
            heat(tree),
            input_current(tree),
            rise(tree),
            light(tree),
            order(tree),
            reset(tree),
            fed(tree),
            known(tree),
            capacitors(tree),
        ]
    except DesignError as error:
        yield Check("power tree", "not whole", "whole", False, str(error))
        return
    yield from rows


def rails(tree: Tree) -> Iterator[Check]:
    """A row a rail: its voltage with every tolerance within what hangs on it allows, its current within the rating."""
    for net, link in tree.links.items():
        span, (typical, most) = tree.voltage(net), tree.current(net)
        low, high = tree.limits(net)
        for user in tree.links.values():
            if user.input != net:
                continue
            low = max(low, user.figure("input_low_v"))
            high = min(high, user.figure("input_high_v", NO_LIMIT_V))
            if user.kind in ("linear", "buck"):
                low = max(low, tree.voltage(user.output).high + user.figure("dropout_v"))
        if link.kind in ("positive", "negative"):
            high = min(high, float(link.spec[link.kind]["high_v"]["value"]))
        rating = _rating(tree, link) * (1 if link.kind == "fuse" else SHARE)
        passed = low <= span.low and span.high <= high and most <= rating
        sign = "-" if net.startswith("-") else ""
        yield Check(
            f"supply {net}",
            f"{sign}{span.low:.3f} .. {sign}{span.high:.3f} V, {typical:.3f} to {most:.3f} A",
            f"{sign}{low:.3f} .. {sign}{high:.3f} V, {rating:.2f} A" if high < NO_LIMIT_V else f"no load's; {rating:.2f} A",
            passed,
            f"made by {link.part.ref} ({link.part.value}) out of {link.input}",
        )


def _rating(tree: Tree, link: RailSupply) -> float:
    if "limit_pin" not in link.spec:
        return link.figure("rating_a")
    (pin,) = pins_named(link.part, link.spec["limit_pin"])
    ohm, spread = tree.resistor(pin, "GND")
    least = link.figure("limit_base_a") + link.figure("limit_a_per_ohm") * ohm * (1 - spread)
    return least * (1 - link.figure("limit_tolerance"))


def heat(tree: Tree) -> Check:
    """The warmest junction of the regulators, at the largest currents."""
    ambient = tree.figure("usb", "ambient_c")
    found = {
        link.part.ref: (ambient + tree.loss(link) * link.figure("theta"), link.figure("junction_c"), link.part.value)
        for link in tree.links.values()
        if "theta" in link.spec
    }
    ref, (junction, limit, name) = max(found.items(), key=lambda item: item[1][0] - item[1][1])
    total = sum({link.part.ref: tree.loss(link) for link in tree.links.values()}.values())
    figure = f"{junction:.0f} C ({ref}, {name}); all {total:.2f} W"
    return Check("regulators, warmest junction", figure, f"{limit:.0f} C in air of {ambient:.0f} C", junction <= limit, "theta from memory")


def input_current(tree: Tree) -> Check:
    """Compare the board's current from USB with the current that the source has to advertise."""
    typical, most = tree.current(tree.usb_input)
    limit = tree.figure("usb", "advertised_a")
    return Check(
        "USB, current", f"{typical:.2f} to {most:.2f} A", f"{limit} A advertised", most <= limit, f"at {tree.figure('usb', 'low_v')} V"
    )


def rise(tree: Tree) -> Check:
    """Capacitance at USB's own 5 V, and what charging the rest takes while the switch opens slowly."""
    net, link = next((net, link) for net, link in tree.links.items() if "slope_pin" in link.spec)
    (pin,) = pins_named(link.part, link.spec["slope_pin"])
    caps = between(tree.ours, "C", pin, "GND")
    if len(caps) != 1:
        raise DesignError(f"{pin}: wanted one capacitor, and there are {len(caps)}")
    at_input = tree.capacitance(link.input) + tree.capacitance(tree.usb_input)
    behind = sum(tree.capacitance(name) for name in (net, *(n for n, k in tree.links.items() if k.input == net and k.kind == "bead")))
    seconds = link.figure("slope_s_per_f_v") * number(caps[0].value) * 5.0
    inrush = behind * 5.0 / seconds
    return Check(
        "USB, capacitance and inrush",
        f"{at_input * 1e6:.1f} uF; {inrush:.2f} A for {seconds * 1e3:.1f} ms",
        "1 to 10 uF (USB 2.0, 7.2.4.1); 0.5 A",
        1e-6 <= at_input <= 1e-5 and inrush <= 0.5,
        f"{behind * 1e6:.0f} uF behind the switch, nominal",
    )


def light(tree: Tree) -> Check:
    """The threshold of the light for 1.5 A lies between what sources put on CC, with every tolerance and 9 mV of offset."""
    top, bottom = tree.resistor("+3V3", "cc_threshold"), tree.resistor("cc_threshold", "GND")
    rail, offset = tree.voltage("+3V3"), 0.009

    def at(volt: float, error: float) -> float:
        return volt / (1 + top[0] * (1 - error * top[1]) / (bottom[0] * (1 + error * bottom[1])))

    low, high = at(rail.low, -1) - offset, at(rail.high, 1) + offset
    least, most = tree.figure("usb", "cc_default_v"), tree.figure("usb", "cc_1a5_v")
    return Check(
        "USB, threshold of the light for 1.5 A", f"{low:.3f} .. {high:.3f} V", f"{least} .. {most} V", least < low and high < most, "at CC"
    )


def _good_of(tree: Tree, net: str) -> list[tuple[str, str]]:
    """(rail, threshold or "") of everything that holds a net low until its rail is good, or divides a rail down to it."""
    found: list[tuple[str, str]] = []
    for ref, _ in sorted(tree.ours.nets[net].pins):
        part = tree.ours.parts[ref]
        for rail, link in tree.links.items():
            if link.part.ref == ref and "good" in link.spec and net in pins_named(part, link.spec["good"]):
                found.append((rail, ""))
        if (spec := tree.table["supervisor"].get(part.bom)) and net in pins_named(part, spec["good"]):
            (sensed,) = set(pins_named(part, spec["sense"]))
            found.append(_sensed(tree, sensed, spec))
        if part.symbol == "Device:R" and between(tree.ours, "R", net, "GND"):
            found += [(rail, "") for rail in set(part.pins.values()) & tree.links.keys()]
    return found


def _sensed(tree: Tree, net: str, spec: dict[str, Any]) -> tuple[str, str]:
    threshold = float(spec["threshold_v"]["value"])
    if net in tree.links or net in tree.table["outside"]:
        return net, f"{threshold:.2f} V"
    for rail in tree.links:
        if between(tree.ours, "R", rail, net):
            top, bottom = tree.resistor(rail, net), tree.resistor(net, "GND")
            return rail, f"{threshold * (1 + top[0] / bottom[0]):.2f} V"
    raise DesignError(f"{net} senses no rail")


def order(tree: Tree) -> Check:
    """Check the order: the power good of the rail that must come first starts each regulator, and is pulled up to a rail that is there."""
    wrong: list[str] = []
    after = tree.table["after"]
    started = {net: link for net, link in tree.links.items() if "enable" in link.spec}
    wrong += [f"{net} is in no order" for net in started.keys() - after.keys()]
    wrong += [f"{net} is made by nothing that can be started" for net in after.keys() - started.keys()]
    for net in started.keys() & after.keys():
        link = started[net]
        (enable, *_) = pins_named(link.part, link.spec["enable"])
        starters = _good_of(tree, enable)
        if [rail for rail, _ in starters] != [after[net]]:
            have = ", ".join(rail for rail, _ in starters) or "nothing"
            wrong.append(f"{net} ({link.part.ref}, by {enable}) waits for {have} and should wait for {after[net]}")
        early = _ancestors(net, after, tree)
        ups = {rail for rail in tree.links if between(tree.ours, "R", rail, enable)}
        if not ups <= early or not ups:
            wrong.append(f"{enable} is pulled up to {', '.join(sorted(ups)) or 'nothing'}, which is not there before {net}")
    figure = f"{len(started) - len({w.split()[0] for w in wrong})} of {len(started)} rails"
    return Check("order of the supplies, by power good", figure, "all", not wrong, "\n".join(sorted(wrong)))


def _ancestors(net: str, after: dict[str, str], tree: Tree) -> set[str]:
    """Return the rails that are there before a rail is started: those it waits for, and those it is made of."""
    found: set[str] = set()
    todo = [after[net], tree.links[net].input]
    while todo:
        rail = todo.pop()
        if rail in found or rail not in tree.links:
            continue
        found.add(rail)
        todo.append(tree.links[rail].input)
        if rail in after:
            todo.append(after[rail])
    return found


def reset(tree: Tree) -> Check:
    """Check supervisors: thresholds lie below the rail's least voltage, and the one on the last of the FPGA's rails holds the FPGA."""
    wrong: list[str] = []
    shown: list[str] = []
    for part in tree.ours.parts.values():
        if spec := tree.table["supervisor"].get(part.bom):
            (sensed,) = set(pins_named(part, spec["sense"]))
            rail, text = _sensed(tree, sensed, spec)
            most = float(text.split()[0]) * (1 + float(spec["tolerance"]["value"]) + 0.02 * (sensed != rail))
            shown.append(f"{rail} {text}")
            if not 0.75 * tree.nominal(rail) < float(text.split()[0]) or most >= tree.voltage(rail).low:
                wrong.append(f"{part.ref}: {text} at {rail}, which may be {tree.voltage(rail).low:.2f} V")
    for net, link in tree.links.items():
        if "monitor" in link.spec:
            (pin,) = pins_named(link.part, link.spec["monitor"])
            top, bottom = tree.resistor(net, pin), tree.resistor(pin, "GND")
            level = link.figure("monitor_v") * (1 + top[0] / bottom[0])
            shown.append(f"{net} {level:.2f} V")
            if not 0.85 * tree.nominal(net) < level < 0.95 * tree.voltage(net).low:
                wrong.append(f"{link.part.ref}: power good of {net} at {level:.2f} V")
        if "enable_v" in link.spec:
            (pin,) = pins_named(link.part, link.spec["enable"])
            if (before := tree.table["after"].get(net)) and between(tree.ours, "R", before, pin):
                top, bottom = tree.resistor(before, pin), tree.resistor(pin, "GND")
                level = link.figure("enable_v") * (1 + top[0] / bottom[0])
                shown.append(f"{before} {level:.2f} V")
                if not 0.75 * tree.nominal(before) < level < 0.95 * tree.voltage(before).low:
                    wrong.append(f"{link.part.ref}: starts when {before} has {level:.2f} V")
    holders = [rail for rail, _ in _good_of(tree, "fpga_program_n")]
    if holders != ["+3V3"]:
        wrong.append(f"the FPGA is held in reset for {', '.join(holders) or 'nothing'}, not for +3V3")
    return Check("thresholds of power good and reset", "; ".join(shown), "above 75 %, below the least", not wrong, "\n".join(wrong))


def fed(tree: Tree) -> Check:
    """No circuit hangs on a rail that nobody makes."""
    made = {*tree.links, *tree.table["outside"], tree.usb_input}
    wrong: list[str] = []
    count = 0
    for part in tree.ours.parts.values():
        if part.ref[0] in "UYQ":
            for pin, net in part.pins.items():
                if net[:1] in "+-" and net:
                    count += 1
                    if net not in made:
                        wrong.append(f"{part.ref}.{pin} is on {net}, which nothing feeds")
    return Check("supply pins on a rail that is made", f"{count - len(wrong)} of {count}", "all", not wrong, "\n".join(wrong))


def known(tree: Tree) -> Check:
    """The table has figures of every circuit, and of none that is not there."""
    keys = {key for part in tree.ours.parts.values() for key in (part.bom, part.ref)}
    wrong = [f"{what}: no current in power.toml" for what in tree.unknown]
    for table in ("regulator", "load", "decoupling", "supervisor"):
        wrong += [f"[{table}.{key}] is of no part" for key in tree.table[table] if key not in keys]
    return Check("circuits with figures in power.toml", f"{len(wrong)} without", "0", not wrong, "\n".join(wrong))


def capacitors(tree: Tree) -> Check:
    """Check that every supply of every circuit has the number and sum of capacitors in the table; one more or less is noticed."""
    own: dict[tuple[str, str], list[float]] = {}
    for part in tree.ours.parts.values():
        if part.symbol == "Device:C" and "GND" in part.pins.values() and part.place.partition(" ")[0] in ("at", "near"):
            whose = part.place.split()[1].partition(".")[0]
            for net in part.pins.values():
                own.setdefault((whose, net), []).append(number(part.value))
    wrong: list[str] = []
    count = 0
    switched = {net for part in tree.ours.parts.values() if part.symbol == "Device:L" for net in part.pins.values() if net[:1] not in "+-"}
    for part in tree.ours.parts.values():
        made = [("output", net) for net, link in tree.links.items() if link.part.ref == part.ref and link.kind in ("buck", "bead")]
        if part.ref[0] not in "UY" and not made:
            continue
        every = tree.table["decoupling"]
        table = every.get(part.ref, every.get(part.bom, {}))
        names: dict[str, set[str]] = {}
        wanted = [*supply_pins(part), *((stem, net) for stem in table for net in pins_named(part, stem)), *made]
        for name, net in wanted:
            if net not in switched:
                names.setdefault(net, set()).add(max((key for key in table if name.startswith(key)), key=len, default=""))
        for net, stems in names.items():
            count += 1
            asked = [table[stem] for stem in stems if stem]
            have = own.get((part.ref, net), [])
            if not asked:
                wrong.append(f"{part.ref} ({part.bom}): power.toml asks for nothing at {net}")
            elif len(have) != sum(a["count"] for a in asked) or sum(have) * 1e6 < sum(a["uf"] for a in asked) * (1 - 1e-9):
                figure = f"{len(have)} capacitors, {sum(have) * 1e6:.1f} uF"
                wrong.append(f"{part.ref}: {net} has {figure}, wanted {sum(a['count'] for a in asked)}, {sum(a['uf'] for a in asked):.1f}")
    return Check("capacitors of each supply, number and sum", f"{count - len(wrong)} of {count}", "all", not wrong, "\n".join(wrong))
