"""The front end's circuit for ngspice, out of a netlist, for hw/afe's decks.

The netlist is KiCad's of the drawing, or ours. Amplifiers, drivers and diodes become the macromodels of hw/afe/decks/macros.lib. Resistors
and capacitors have the values beside their symbols. Nothing is taken from decks/frontend.lib, which this circuit replaces.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from .checks.fpga import volts
from .netlist import DesignError, Part
from .values import number

__all__ = ["circuit", "converters"]

SHEET = "frontend"
LT5400 = {"LT5400-7": ("5k", "1k25", "1k25", "5k"), "LT5400-8": ("9k", "1k", "1k", "9k")}
"""R1 to R4 by type: R1 = R4 and R2 = R3. -7 as public designs with it state; -8 from memory."""
RESISTORS = (("1", "8"), ("2", "7"), ("3", "6"), ("4", "5"))
"""Pins of R1 to R4, of LT5400 and SMN."""
OUTPUTS = {"adc_sdo_i": ("cp", "cm"), "adc_fine_sdo": ("fp", "fm"), "adc_sdo_v": ("vp", "vm")}
"""The decks' names of a converter's inputs, by the FPGA's line for its data."""
INNER = {
    "first_p": "o1",
    "first_n": "o2",
    "second_p": "o4",
    "second_n": "o5",
    "coarse_sum_p": "c1",
    "coarse_sum_n": "c2",
    "fine_sum_p": "f1",
    "fine_sum_n": "f2",
    "fine_out_n": "e2",
    "clamp_p": "l1",
    "clamp_n": "l2",
}
"""The names in decks/headroom.cir of the nets that it examines."""
SENSE = {"kelvin_p": "sp", "kelvin_n": "sn"}
RAIL = {"+3V3_SW": "a", "+3V3_DRIVE": "b"}
"""Ends of the shunt in the decks: from the load switch, to the drive."""
ON_OHM, OFF_OHM, JOINT_OHM = 1.0, 1e12, 1e-3
"""A closed and an open switch of ADG1636; a driver's output and the pin beside it that is the same."""
DIODES = {"BAV199": "bav199", "BAV99": "junction"}
SWITCHED = {"afe_zero1": "zeroi", "afe_zero0": "zerov"}
"""Parameters of the circuit that say whether a control line is high; low is what pulls it down."""
SKIPPED = ("Connector:TestPoint", "Device:D_Schottky")


def converters(parts: Mapping[str, Part]) -> dict[str, str]:
    """Node of each converter's input pin by its net. Raises DesignError where a line of the FPGA has no converter behind one resistor."""
    ends = {frozenset(part.pins.values()) for part in parts.values() if part.symbol == "Device:R"}
    found: dict[str, str] = {}
    for line, nodes in OUTPUTS.items():
        adcs = [part for part in parts.values() if part.symbol == "Analog_ADC:AD40xxBRMZ" and frozenset((part.pins["7"], line)) in ends]
        if len(adcs) != 1:
            raise DesignError(f"{line}: {len(adcs)} converters send on it, not 1")
        for pin, node in zip(("3", "4"), nodes, strict=True):
            if (net := adcs[0].pins[pin]) != "GND":
                found[net] = node
    return found


def circuit(parts: Mapping[str, Part]) -> str:
    """The subcircuits ``frontend``, ``voltage`` and ``shunt`` of decks/frontend.lib, of a netlist by reference.

    Raises DesignError for a part on the sheet that has no model here.
    """
    nodes = {"GND": "0", **SENSE, **INNER, **converters(parts)}
    ours = {ref: part for ref, part in sorted(parts.items()) if part.sheet == SHEET or set(part.pins.values()) & nodes.keys() - {"GND"}}
    ours = _without_loose_ends(ours)
    supplies = sorted({net for part in ours.values() for net in part.pins.values() if volts(net) is not None and net != "GND"})

    def node(net: str) -> str:
        return nodes.get(net) or net.lower().replace("+", "plus_").replace("-", "minus_")

    lines: list[str] = []
    shunts: list[str] = []
    for ref, part in ours.items():
        if part.symbol == "Device:R_Shunt":
            shunts = _shunt(ref, part, {pin: node(net) for pin, net in part.pins.items()})
            continue
        kind = _KINDS.get(part.symbol)
        if kind is None and part.symbol not in SKIPPED:
            raise DesignError(f"{ref} ({part.symbol}, {part.value}): no model of it in board/spice.py")
        if kind is not None:
            lines += kind(ref, part, {pin: node(net) for pin, net in part.pins.items() if net})
    lines += [f"V{node(net)} {node(net)} 0 {volts(net)}" for net in supplies]
    body = "\n".join(lines)
    if not shunts:
        raise DesignError("there is no four-terminal shunt")
    return f"""* out of the schematic's netlist (board/spice.py)
.subckt board sp sn cp cm fp fm vp zeroi=0 zerov=0
{body}
.ends
.subckt frontend sp sn cp cm fp fm t=0 zeroi=0 zerov=0
* flat, as the decks look at nodes inside
{body.replace(" vp", " vout").replace("Vvp", "Vvout")}
.ends
.subckt voltage sn vp t=0
X1 sn sn cp cm fp fm vp board
.ends
.subckt shunt a b sp sn t=0
{chr(10).join(shunts)}
.ends
.model bav199 d is={{dis}} n={{dn}} cjo={{dcj}} tt={{dtt}}
"""


def _shunt(ref: str, part: Part, pins: Mapping[str, str]) -> list[str]:
    """Describe the shunt with its inductance and thermal voltage, as decks/frontend.lib has them; those are not drawn."""
    ends = {node: end for net, end in RAIL.items() for pin, node in pins.items() if part.pins[pin] == net}
    if pins["1"] not in ends or pins["4"] not in ends:
        raise DesignError(f"{ref}: its current's terminals are on {part.pins['1']} and {part.pins['4']}, not on {' and '.join(RAIL)}")
    one, other = ends[pins["1"]], ends[pins["4"]]
    return [
        f"Rs {one} x {number(part.value)!r}",
        f"Ls x {other} {{lshunt}}",
        f"Vemf {one} {pins['2']} {{-emf}}",
        f"Rsn {other} {pins['3']} 1u",
    ]


def _without_loose_ends(parts: dict[str, Part]) -> dict[str, Part]:
    """Return the parts without resistors that end at nothing, in the converters' lines and at test points."""
    count = Counter(net for part in parts.values() for net in set(part.pins.values()) if part.symbol not in (*SKIPPED, "wattbell:ADG1636"))
    for part in parts.values():
        if part.symbol == "Analog_ADC:AD40xxBRMZ":
            count.subtract(part.pins[pin] for pin in part.pins if pin not in ("3", "4"))
    loose = {ref for ref, part in parts.items() if part.symbol == "Device:R" and any(count[net] < 2 for net in part.pins.values())}
    return {ref: part for ref, part in parts.items() if ref not in loose}


def _resistor(ref: str, part: Part, pins: Mapping[str, str]) -> Iterator[str]:
    yield f"{ref} {pins['1']} {pins['2']} {max(number(part.value), JOINT_OHM)!r}"


def _capacitor(ref: str, part: Part, pins: Mapping[str, str]) -> Iterator[str]:
    yield f"{ref} {pins['1']} {pins['2']} {number(part.value)!r}"


def _network(ref: str, part: Part, pins: Mapping[str, str]) -> Iterator[str]:
    values = LT5400.get(part.value) or tuple(part.note.split())
    if len(values) != len(RESISTORS):
        raise DesignError(f"{ref} ({part.value}): '{part.note}' does not say four resistors")
    for n, (value, (one, other)) in enumerate(zip(values, RESISTORS, strict=True), 1):
        if one in pins and other in pins:
            yield f"R{ref}_{n} {pins[one]} {pins[other]} {number(value)!r}"


def _amplifiers(ref: str, part: Part, pins: Mapping[str, str]) -> Iterator[str]:
    if part.value != "OPA2189":
        raise DesignError(f"{ref}: no model of {part.value}")
    supplies = f"vh={volts(part.pins['8'])} vl={volts(part.pins['4'])}"
    for plus, minus, out in (("3", "2", "1"), ("5", "6", "7")):
        yield f"X{ref}_{out} {pins[plus]} {pins[minus]} {pins[out]} opamp gbw={{gbw1}} aol={{aol}} en={{en}} sr={{sr}} {supplies}"


def _driver(ref: str, part: Part, pins: Mapping[str, str]) -> Iterator[str]:
    # outputs come within 0.1 V of the supplies: parts.toml
    high, low = volts(part.pins["5"]), volts(part.pins["13"])
    if high is None or low is None:
        raise DesignError(f"{ref}: {part.pins['5']} or {part.pins['13']} is no supply")
    yield (
        f"X{ref} {pins['2']} {pins['3']} {pins['10']} {pins['11']} {pins['9']} fda gbw={{fgbw}} aol={{faol}} en={{fen}} sr={{fsr}} "
        f"vh={high - 0.1!r} vl={low + 0.1!r}"
    )
    for feedback, out in (("4", "10"), ("1", "11")):
        yield f"R{ref}_{feedback} {pins[feedback]} {pins[out]} {JOINT_OHM}"


def _diodes(ref: str, part: Part, pins: Mapping[str, str]) -> Iterator[str]:
    """Yield the diodes: pin 1 is the first's anode, 2 the second's cathode, 3 the common pin (NXP BAV199, BAV99)."""
    yield f"D{ref}_1 {pins['1']} {pins['3']} {DIODES[part.value]}"
    yield f"D{ref}_2 {pins['3']} {pins['2']} {DIODES[part.value]}"


def _switches(ref: str, part: Part, pins: Mapping[str, str]) -> Iterator[str]:
    """A high input joins D to A, a low one to B."""
    for n, (control, a, b, d) in enumerate((("1", "2", "4", "3"), ("9", "10", "12", "11")), 1):
        high = SWITCHED.get(part.pins[control])
        if high is None:
            raise DesignError(f"{ref}: {part.pins[control]} is no control line")
        yield f"R{ref}_{n}a {pins[d]} {pins[a]} {{{high} ? {ON_OHM} : {OFF_OHM}}}"
        yield f"R{ref}_{n}b {pins[d]} {pins[b]} {{{high} ? {OFF_OHM} : {ON_OHM}}}"


def _reference(ref: str, part: Part, pins: Mapping[str, str]) -> Iterator[str]:
    if not part.value.startswith("ADR444"):
        raise DesignError(f"{ref}: no model of {part.value}")
    yield f"V{ref} {pins['6']} 0 4.096"


def _converter(ref: str, part: Part, pins: Mapping[str, str]) -> Iterator[str]:
    """No model: its inputs are where the decks look. A capacitance of next to nothing keeps them nodes."""
    yield f"C{ref} {pins['3']} {pins['4']} 1f"


_KINDS: dict[str, Callable[[str, Part, Mapping[str, str]], Iterator[str]]] = {
    "Device:R": _resistor,
    "Device:C": _capacitor,
    "Device:R_Pack04_Split": _network,
    "wattbell:LT5400": _network,
    "Device:Opamp_Dual": _amplifiers,
    "Amplifier_Difference:ADA4940-1xCP": _driver,
    "Diode:BAV99": _diodes,
    "wattbell:ADG1636": _switches,
    "Reference_Voltage:ADR444xRZ": _reference,
    "Analog_ADC:AD40xxBRMZ": _converter,
}
