"""The controller's own registers, as data: word addresses 80h..FFh, next to the instrument's (:mod:`.registers`).

Only the soft core sees them. The controller's gateware, the C header of the firmware, the Rust constants of the virtual rig and
docs/registers.md are generated from this list.

Time is the instrument's: every timer compares NOW (06h, 07h) with a deadline or adds to it, in ticks of 1 ns. There is no second
clock to drift, and a simulator may skip the cycles up to the next deadline.
"""

from __future__ import annotations

from .registers import Access, Bits, Register, numbered
from .units import CURRENT_LSB_NA, VOLTAGE_LSB_UV

__all__ = ["BASE", "BOARD", "RESTART_KEY", "TRIP_BEYOND", "WATCHDOG_KEY", "board_by_name"]

BASE = 0xF000_0000
"""Byte address of word address 00h on the soft core's data bus."""
WATCHDOG_KEY = int.from_bytes(b"WDOG", "little")
"""Value that WATCHDOG_KICK expects."""
RESTART_KEY = int.from_bytes(b"RSET", "little")
"""Value that RESTART expects."""
TRIP_BEYOND = 0x7FFFFF
"""Value of TRIP_CURRENT for a current beyond the end of the ADC's scale. Such a current is above any level but this."""

_RO, _RW, _WO, _TAKE, _W1C = Access.RO, Access.RW, Access.WO, Access.TAKE, Access.W1C
_CURRENT = f"units of {CURRENT_LSB_NA} nA, two's complement, corrected"
_VOLTAGE = f"units of {VOLTAGE_LSB_UV} uV, two's complement, corrected"
_POWER = "product of the two >> 16 (units of 655.36 nW), two's complement"


def _wide(name: str, address: int, access: Access, doc: str, reset: int = 0) -> tuple[Register, Register]:
    """A 64-bit quantity: ``name_LO`` at ``address``, ``name_HI`` right after it."""
    return (
        Register(f"{name}_LO", address, 32, access, reset & 0xFFFF_FFFF, f"{doc}, bits 31:0"),
        Register(f"{name}_HI", address + 1, 32, access, reset >> 32, f"{doc}, bits 63:32"),
    )


_IRQ = (
    Bits("CONSOLE_IN", 0, 1, "CONSOLE_IN has a byte"),
    Bits("CONSOLE_OUT", 1, 1, "CONSOLE_OUT has room"),
    Bits("WAKE", 2, 1, "NOW has reached WAKE"),
    Bits("METER", 3, 1, "METER_STATE.BUSY is 0"),
    Bits("POWER", 4, 1, "POWER_TRIP is not 0"),
    Bits("TRIGGER", 5, 1, "TRIGGER_STATE.FIRED"),
    Bits("I2C", 6, 1, "I2C_STATE.BUSY is 0"),
)

_CONSOLE = (
    Register(
        "CONSOLE_IN",
        0x80,
        9,
        _TAKE,
        0,
        "bytes from the control port; a read consumes one",
        (Bits("DATA", 0, 8, "the byte"), Bits("VALID", 8, 1, "there was one")),
    ),
    Register("CONSOLE_OUT", 0x81, 8, _WO, 0, "a byte to the control port; lost if there is no room"),
    Register("LINK", 0x82, 32, _RO, 0, "what the board sees of the link (docs/bitstream.md); 0 where no lanes are tapped"),
    Register("CONSOLE_STATE", 0x83, 1, _RO, 0, "control port", (Bits("ROOM", 0, 1, "CONSOLE_OUT accepts a byte"),)),
    Register("IRQ_PENDING", 0x84, 7, _RO, 0, "interrupts pending for the core. Level-sensitive: each clears with its cause", _IRQ),
    Register("IRQ_ENABLE", 0x85, 7, _RW, 0, "the core's external interrupt 0 is high while IRQ_PENDING & IRQ_ENABLE is not 0", _IRQ),
    *_wide("WAKE", 0x86, _RW, "alarm: tick that raises IRQ_PENDING.WAKE. Write all ones to HI, then LO, then HI", (1 << 64) - 1),
)

_SYSTEM = (
    Register("WATCHDOG_TIMEOUT", 0x89, 16, _RW, 0, "time from the last kick to a restart of the core, in units of 2^20 ticks (1.05 ms). "
             "0: off. Once set, only a restart makes it 0 again"),
    Register("WATCHDOG_KICK", 0x8A, 32, _WO, 0, "the bytes `WDOG` reload the timer; anything else restarts the core at once"),
    Register("RESET_CAUSE", 0x8B, 3, _W1C, 1, "why the core started; bits stay set until cleared", (
        Bits("POWER_ON", 0, 1, "configuration of the FPGA"),
        Bits("WATCHDOG", 1, 1, "the watchdog fired"),
        Bits("RESTART", 2, 1, "requested by the firmware"))),
    Register("RESTART", 0x8C, 32, _WO, 0, "the bytes `RSET` restart the core"),
    Register("CRASH_CAUSE", 0x8D, 32, _RW, 0, "firmware's scratch, kept across restarts: mcause of a crash, 0 for none"),
    Register("CRASH_PC", 0x8E, 32, _RW, 0, "firmware's scratch, kept across restarts: mepc of a crash"),
    Register("ACTIVE", 0x8F, 1, _RW, 1, "a message or an operation is in progress; else the firmware only waits for the control "
             "port. On a board it lights an LED; in the virtual rig it says whether time must advance without a capture"),
)  # fmt: skip

_POWER_REGISTERS = (
    Register("POWER_CONTROL", 0x90, 4, _RW, 1, "the drive's power and sidebands. A restart of the core, even by the watchdog, changes "
             "nothing here. The drive is on after power-on", (
        Bits("DRIVE_ON", 0, 1, "load switch closed (unless POWER_TRIP holds it open)"),
        Bits("PERST", 1, 1, "the rig pulls PERST# low"),
        Bits("CLKREQ", 2, 1, "the rig pulls CLKREQ# low"),
        Bits("PROTECT", 3, 1, "over-current and inrush protection are on"))),
    Register("POWER_STATE", 0x91, 8, _RO, 0, "state of the connector", (
        Bits("ON", 0, 1, "the load switch is closed"),
        Bits("GOOD", 1, 1, "the rail downstream of it is above 3.07 V (3.3 V - 7 %)"),
        Bits("PERST_N", 2, 1, "level of PERST#"),
        Bits("CLKREQ_N", 3, 1, "level of CLKREQ#"),
        Bits("LINK", 4, 3, "LinkState (docs/wire-format.md)"))),
    Register("POWER_TRIP", 0x92, 2, _W1C, 0, "the hardware has opened the load switch, which stays open until these are cleared", (
        Bits("OVER_CURRENT", 0, 1, "above OCP_LEVEL for OCP_COUNT conversions"),
        Bits("INRUSH", 1, 1, "above INRUSH_LEVEL for OCP_COUNT conversions, within INRUSH_TICKS of closing"))),
    Register("OCP_LEVEL", 0x93, 24, _RW, 0x7FFFFF, f"over-current: {_CURRENT}. If RANGE is fine only and "
             "the coarse path shows more than 98.3 mA, this level is compared with the coarse path's current. A coarse code at the upper "
             f"end of its scale is above any level but {TRIP_BEYOND:X}h"),
    Register("OCP_COUNT", 0x94, 20, _RW, 1, "consecutive conversions above the level that trip it, 1 or more"),
    Register("INRUSH_LEVEL", 0x95, 24, _RW, 0x7FFFFF, f"replaces OCP_LEVEL just after closing: {_CURRENT}"),
    Register("INRUSH_TICKS", 0x96, 32, _RW, 0, "for this long after closing"),
    *_wide("TRIP_TICK", 0x97, _RO, "tick of the conversion that tripped"),
    Register("TRIP_CURRENT", 0x99, 32, _RO, 0, f"that conversion's current: {_CURRENT}, sign-extended. {TRIP_BEYOND:X}h: more than the "
             "ADC can tell, its code was at the upper end of the scale"),
)  # fmt: skip

_I2C = (
    Register(
        "I2C_COMMAND",
        0xA0,
        12,
        _WO,
        0,
        "transfer one byte on the board's I2C bus; ignored while BUSY",
        (
            Bits("DATA", 0, 8, "byte to send"),
            Bits("START", 8, 1, "a (repeated) start condition before it"),
            Bits("STOP", 9, 1, "a stop condition after it"),
            Bits("READ", 10, 1, "receive a byte instead of sending one"),
            Bits("NACK", 11, 1, "answer a received byte with NACK (the last one)"),
        ),
    ),
    Register(
        "I2C_STATE",
        0xA1,
        11,
        _RO,
        0,
        "result of the transfer",
        (
            Bits("BUSY", 0, 1, "in progress"),
            Bits("ACK", 1, 1, "the byte sent was acknowledged"),
            Bits("STUCK", 2, 1, "SCL stayed low for 1 ms and the byte was abandoned"),
            Bits("DATA", 3, 8, "the byte received"),
        ),
    ),
    Register("I2C_PERIOD", 0xA2, 16, _RW, 10000, "SCL period in ticks. Reset: 100 kHz"),
)

_METER = (
    Register("METER_CONTROL", 0xB0, 2, _RW, 0, "the meter", (
        Bits("RUN", 0, 1, "the ADCs convert even without a capture"),
        Bits("TOTAL", 1, 1, "the accumulators count"))),
    Register("METER_COUNT", 0xB1, 20, _RW, 1, "conversions per gate, 1 or more"),
    Register("METER_COMMAND", 0xB2, 4, _WO, 0, "each bit written 1 does something once", (
        Bits("START", 0, 1, "start a gate at the next conversion, with sums and flags cleared"),
        Bits("ABORT", 1, 1, "abort the gate"),
        Bits("LATCH", 2, 1, "copy the accumulators to ENERGY, CHARGE, TOTAL_COUNT, TOTAL_CLIPPED"),
        Bits("CLEAR", 3, 1, "clear the accumulators (after LATCH, when both are written)"))),
    Register("METER_STATE", 0xB3, 6, _RO, 0, "state of the gate", (
        Bits("BUSY", 0, 1, "in progress"),
        Bits("OVERLOAD_V", 1, 1, "a voltage conversion was at the end of the scale"),
        Bits("OVERLOAD_I", 2, 1, "a current conversion was at the end of the scale"),
        Bits("SATURATED", 3, 1, "a corrected value did not fit 24 bits"),
        Bits("UNCALIBRATED", 4, 1, "as the RAIL flag"),
        Bits("FINE", 5, 1, "at least one current conversion came from the fine path"))),
    *_wide("V_SUM", 0xB4, _RO, f"sum over the gate, signed: voltage, {_VOLTAGE}"),
    *_wide("I_SUM", 0xB6, _RO, f"sum over the gate, signed: current, {_CURRENT}"),
    *_wide("P_SUM", 0xB8, _RO, "sum over the gate, signed: voltage x current, units of 1e-11 W"),
    *numbered(0xBA, _RO, [(f"{q}_{end}", 32, 0, f"{word} of the gate: {unit}, sign-extended") for q, unit in
                          (("V", _VOLTAGE), ("I", _CURRENT), ("P", _POWER)) for end, word in (("MIN", "minimum"), ("MAX", "maximum"))]),
    Register("GATE_CLIPPED", 0xC0, 20, _RO, 0, "conversions of the gate that were at an end of the scale"),
    Register("GATE_TICKS", 0xC1, 32, _RO, 0, "conversion period in the gate, in ticks"),
    *_wide("V_CODES", 0xC2, _RO, "sum over the gate of the voltage ADC's codes (unsigned)"),
    *_wide("I_CODES", 0xC4, _RO, "sum over the gate of the current ADC's codes, coarse path (two's complement)"),
    *_wide("F_CODES", 0xC6, _RO, "sum over the gate of the current ADC's codes, fine path (two's complement)"),
    *_wide("ENERGY", 0xC8, _RO, "latched: sum of voltage x current over all conversions while TOTAL, since CLEAR, signed, units of "
                                "1e-11 W x period"),
    *_wide("CHARGE", 0xCA, _RO, f"latched: sum of current since CLEAR, signed, units of {CURRENT_LSB_NA} nA x period"),
    *_wide("TOTAL_COUNT", 0xCC, _RO, "latched: conversions since CLEAR"),
    Register("TOTAL_CLIPPED", 0xCE, 32, _RO, 0, "latched: of these, at an end of the scale"),
)  # fmt: skip

_RAIL = (
    Register("AFE", 0xD3, 2, _RW, 0, "analog front end", (
        Bits("ZERO_V", 0, 1, "the voltage channel's input is shorted"),
        Bits("ZERO_I", 1, 1, "the current channels' inputs are shorted"))),
    Register("LOAD_CONTROL", 0xD4, 2, _RW, 0, "test load between shunt and connector: which resistors LOAD_PULSES switches", (
        Bits("COARSE", 0, 1, "3.3 ohm: 1 A at 3.3 V"),
        Bits("FINE", 1, 1, "36.7 ohm: 90 mA at 3.3 V"))),
    Register("LOAD_PULSES", 0xD5, 11, _RW, 0, "load pulses left, including the current one. Edges are 131 us to 147 us "
             "apart, at random; each makes a MARKER event, source CONTROL, value FFFFFFFEh on, FFFFFFFDh off, at the tick at which the "
             "load changed. A write starts over, with the load off; 0, a restart of the core or an open load switch ends them at "
             "once, without an event"),
)  # fmt: skip

_TRIGGER = (
    Register("TRIGGER_CONTROL", 0xE0, 12, _RW, 0, "what fires it", (
        Bits("SOURCE", 0, 4, "0 immediate, 1 FORCE only, 2 voltage, 3 current, 4 power, 5 CLKREQ#, 6 PERST#, 7 link state, 8 command, 9 "
                             "power state"),
        Bits("FALLING", 4, 1, "sources 2 to 6: crossing LEVEL downwards, or a falling edge; else upwards, or a rising edge"),
        Bits("OPCODE", 8, 1, "source 8: TRIGGER_OPCODE must match"),
        Bits("LBA", 9, 1, "source 8: a block of the command must lie in TRIGGER_LBA; one without SLBA and NLB, or DSM, has none"),
        Bits("LATENCY", 10, 1, "source 8: CQE tick - doorbell tick must be above TRIGGER_LATENCY"),
        Bits("ERROR", 11, 1, "source 8: the command's status code or type must not be 0"))),
    Register("TRIGGER_COMMAND", 0xE1, 3, _WO, 0, "each bit written 1 does something once", (
        Bits("ARM", 0, 1, "start watching; clears FIRED"),
        Bits("DISARM", 1, 1, "stop watching; clears FIRED"),
        Bits("FORCE", 2, 1, "fire now, if armed"))),
    Register("TRIGGER_STATE", 0xE2, 2, _RO, 0, "state of the trigger", (
        Bits("ARMED", 0, 1, "watching"),
        Bits("FIRED", 1, 1, "has fired, at TRIGGER_TICK"))),
    Register("TRIGGER_LEVEL", 0xE3, 32, _RW, 0, f"sources 2 to 4: {_VOLTAGE}; {_CURRENT}; {_POWER}"),
    Register("TRIGGER_HYSTERESIS", 0xE4, 32, _RW, 0, "same units, not negative: re-arms once the value has been this far on the "
                                                     "other side"),
    Register("TRIGGER_OPCODE", 0xE5, 18, _RW, 0, "matches when (opcode ^ VALUE) & MASK is 0 and the queue is of an enabled kind", (
        Bits("VALUE", 0, 8, "opcode"), Bits("MASK", 8, 8, "bits to compare"),
        Bits("ADMIN", 16, 1, "admin commands"), Bits("IO", 17, 1, "I/O commands"))),
    *_wide("TRIGGER_LBA_FIRST", 0xE6, _RW, "first LBA"),
    *_wide("TRIGGER_LBA_LAST", 0xE8, _RW, "last LBA"),
    Register("TRIGGER_LATENCY", 0xEA, 32, _RW, 0, "ticks"),
    Register("TRIGGER_MATCH", 0xEB, 32, _RW, 0, "bit k: entering LinkState k (source 7) or power state k (source 9)"),
    *_wide("TRIGGER_TICK", 0xEC, _RO, "tick of what fired it: the conversion, the edge or the CQE"),
    Register("TRIGGER_ACTION", 0xEE, 4, _RW, 0, "what happens TRIGGER_DELAY later", (
        Bits("MARKER", 0, 1, "a MARKER event, source CONTROL, value FFFFFFFFh"),
        Bits("METER", 1, 1, "as METER_COMMAND.START"),
        Bits("RUN", 2, 1, "capture starts"),
        Bits("STOP", 3, 1, "capture stops"))),
    Register("TRIGGER_DELAY", 0xEF, 32, _RW, 0, "ticks"),
)  # fmt: skip

_TEST = (
    Register("TEST_CONTROL", 0xF0, 9, _RW, 0, "self-test", (
        Bits("COMMANDS", 0, 8, "number of reads, 1 or more"),
        Bits("PATTERN", 8, 1, "the pattern below replaces the bus, PERST# and the ADCs, even while none is being played"))),
    Register("TEST_COMMAND", 0xF1, 1, _WO, 0, "self-test", (
        Bits("GO", 0, 1, "play the pattern once: after PERST#, enumeration, controller enable and queue creation, COMMANDS reads of "
                         "one block, "
             "8 us apart; at each doorbell the current at the ADCs steps from 0.1 A to 2 A (in codes), and back 4 us later"),)),
    Register("TEST_STATE", 0xF2, 1, _RO, 0, "self-test", (Bits("BUSY", 0, 1, "the pattern is being played"),)),
    *_wide("TEST_STEP_TICK", 0xF3, _RO, "tick of the first conversion that contains the pattern's first step"),
    *_wide("TEST_DOORBELL_TICK", 0xF5, _RO, "tick of the pattern's first doorbell, taken where TLPs are timestamped"),
)  # fmt: skip

BOARD: tuple[Register, ...] = (*_CONSOLE, *_SYSTEM, *_POWER_REGISTERS, *_I2C, *_METER, *_RAIL, *_TRIGGER, *_TEST)


def board_by_name(name: str) -> Register:
    """The controller's register called ``name``; :class:`KeyError` when there is none."""
    return {register.name: register for register in BOARD}[name]
