"""Board around the controller: time, the open-drain lines with an EEPROM, and the register bus."""

from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly
from wattbell_spec.controller_registers import BOARD

ADDRESS = {register.name: register.address for register in BOARD}
CLOCK_TICKS = 16


class Eeprom:
    """A serial EEPROM with two address bytes at device 50h (24LC64 data sheet, DS21189).

    It gets the levels of the lines at every change, and pulls SDA while `low`. Writes take effect at once.
    """

    def __init__(self, content=b"", there=True):
        self.bytes = bytearray(content) + bytearray(b"\xff" * (8192 - len(content)))
        self.there, self.address, self.low = there, 0, False
        self.scl = self.sda = 1
        self.bits, self.count, self.role = 0, 0, "idle"  # idle, device, high, low, write, read
        self.starts = self.stops = 0

    def levels(self, scl, sda):
        before, self.scl, self.sda = (self.scl, self.sda), scl, sda
        if before[0] and scl and before[1] != sda:
            if sda:
                self.role, self.low, self.stops = "idle", False, self.stops + 1
            else:
                self.role, self.bits, self.count, self.low, self.starts = "device", 0, 0, False, self.starts + 1
        elif scl and not before[0]:
            self._rises(sda)
        elif before[0] and not scl:
            self._falls()

    def _rises(self, sda):
        if self.role == "idle":
            return
        if self.count < 8:
            self.bits = (self.bits << 1 | sda) & 0xFF
        elif self.role == "read" and sda:
            self.role = "idle"  # NACK: the last byte
        self.count += 1

    def _falls(self):
        if self.role == "idle":
            self.low = False
            return
        if self.count == 8:
            self.low = self._takes()
        elif self.count == 9:
            self.count = 0
            self.low = False
            if self.role == "turn":
                self.role = "read"
        if self.role == "read" and self.count < 8:
            self.low = not self.bytes[self.address] >> (7 - self.count) & 1

    def _takes(self):
        """Take a complete byte; return whether it is acknowledged."""
        if self.role == "device":
            if self.bits >> 1 != 0x50 or not self.there:
                self.role = "idle"
                return False
            self.role = "turn" if self.bits & 1 else "high"
        elif self.role == "high":
            self.address, self.role = self.bits << 8 & 0x1F00, "low"
        elif self.role == "low":
            self.address, self.role = self.address | self.bits, "write"
        elif self.role == "write":
            self.bytes[self.address] = self.bits
            self.address = (self.address & ~31) | ((self.address + 1) & 31)
        elif self.role == "read":
            self.address = (self.address + 1) % 8192
            return False
        return True


class Bench:
    """Drives the peripherals alone, cycle by cycle."""

    def __init__(self, dut, eeprom=None):
        self.dut, self.eeprom, self.now = dut, eeprom, 1000
        self.scl_held = self.sda_held = False
        for name, value in {
            "rst": 0,
            "bus_we": 0,
            "bus_re": 0,
            "fault": 0,
            "console_in__valid": 0,
            "console_out__ready": 0,
            "rail_valid": 0,
            "rail_v": 0,
            "rail_i": 0,
            "rail_guard": 0,
            "rail_beyond": 0,
            "completed": 0,
            "write__ready": 1,
            "rail_good": 0,
            "perst_n": 1,
            "clkreq_n": 1,
            "link_state": 0,
            "link": 0,
            "scl_i": 1,
            "sda_i": 1,
            "now": self.now,
        }.items():
            getattr(dut, name).value = value

    async def begin(self):
        """Start the clock and apply the reset."""
        Clock(self.dut.clk, CLOCK_TICKS, unit="ns").start()
        self.dut.rst.value = 1
        await self.clock(2)
        self.dut.rst.value = 0
        await self.clock(2)

    async def clock(self, count=1, jump=0):
        """Clock. `jump`: additional ticks of the first cycle."""
        for _ in range(count):
            await FallingEdge(self.dut.clk)
            self.now += CLOCK_TICKS + jump
            jump = 0
            self.dut.now.value = self.now
            scl = not (self.dut.scl_low.value == 1 or self.scl_held)
            sda = not (self.dut.sda_low.value == 1 or self.sda_held or (self.eeprom and self.eeprom.low))
            if self.eeprom:
                self.eeprom.levels(int(scl), int(sda))
            self.dut.scl_i.value, self.dut.sda_i.value = int(scl), int(sda)

    async def write(self, name, value):
        self.dut.bus_addr.value, self.dut.bus_wdata.value, self.dut.bus_we.value = ADDRESS[name] & 0x7F, value & 0xFFFFFFFF, 1
        await self.clock()
        self.dut.bus_we.value, self.dut.bus_wdata.value = 0, 0xDEADBEEF
        await self.clock(3)

    async def read(self, name):
        return await self.read_at(ADDRESS[name])

    async def read_at(self, address):
        self.dut.bus_addr.value, self.dut.bus_re.value = address & 0x7F, 1
        await ReadOnly()
        value = int(self.dut.bus_rdata.value)
        await self.clock()
        self.dut.bus_re.value = 0
        await self.clock(2)
        return value

    async def wide(self, name):
        return await self.read(f"{name}_LO") | await self.read(f"{name}_HI") << 32

    async def i2c(self, byte=0, **conditions):
        """Execute one command; return I2C_STATE afterwards."""
        bits = {"start": 1 << 8, "stop": 1 << 9, "read": 1 << 10, "nack": 1 << 11}
        await self.write("I2C_COMMAND", byte | sum(bits[name] for name, on in conditions.items() if on))
        while (state := await self.read("I2C_STATE")) & 1:
            await self.clock(20)
        return state
