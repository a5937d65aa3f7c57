/* Runs the built firmware on the real soft core (VexRiscv, Verilated) with its bus on the register model. It takes the place of
 * console.c, so that the same tests run on it. Not the rig's gateware: memory answers in one cycle, and a cycle is 16 ns of model time. */
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "VVexRiscv.h"
#include "VVexRiscv_VexRiscv.h"
#include "verilated.h"

extern "C" {
#include "console.h"
#include "hal.h"
#include "model.h"
void core_load(const uint8_t *image, unsigned size, uint32_t complete, uint32_t intake);
uint64_t core_clocks(void);
void core_patch(uint32_t address, uint16_t instruction);
unsigned core_stack_unused(uint32_t bss_end);
void firmware_init(void);
}

static constexpr uint32_t RAM = 0x10000000, BYTES = 1 << 16, CLOCK_NS = 16, STACK_MARK = 0x5AFE5AFE;
static uint32_t rom[BYTES / 4], ram[BYTES / 4];
static uint32_t complete_at, intake_at;
static uint64_t clocks;
static bool instruction_acked, data_acked, stopped;

static VVexRiscv *core()
{
    static VVexRiscv *made = new VVexRiscv(new VerilatedContext);
    return made;
}

static uint32_t *memory(uint32_t address)
{
    if (address < BYTES)
        return &rom[address / 4];
    return address >= RAM && address < RAM + BYTES ? &ram[(address - RAM) / 4] : nullptr;
}

static uint32_t access(uint32_t address, bool write, uint32_t value, uint32_t lanes, bool *error)
{
    uint32_t *word = memory(address), mask = 0;
    *error = false;
    if (word && (!write || word >= ram)) {
        for (int k = 0; k < 4; k++)
            mask |= lanes >> k & 1 ? 0xFFu << 8 * k : 0;
        if (write)
            *word = (*word & ~mask) | (value & mask);
        return *word;
    }
    if (address >= WB_BASE && address < WB_BASE + 1024) {
        if (write)
            hal_write((address - WB_BASE) / 4, value);
        return write ? 0 : hal_read((address - WB_BASE) / 4);
    }
    *error = true; /* unmapped or read-only */
    return 0;
}

static void step_clock()
{
    VVexRiscv *c = core();
    bool error = false;
    c->externalInterruptArray = model_irq();
    c->clk = 0;
    c->eval();
    c->iBusWishbone_ACK = c->iBusWishbone_ERR = c->dBusWishbone_ACK = c->dBusWishbone_ERR = 0;
    if (c->iBusWishbone_CYC && c->iBusWishbone_STB && !instruction_acked) {
        c->iBusWishbone_DAT_MISO = access(c->iBusWishbone_ADR << 2, false, 0, 15, &error);
        c->iBusWishbone_ACK = !error;
        c->iBusWishbone_ERR = error;
    }
    if (c->dBusWishbone_CYC && c->dBusWishbone_STB && !data_acked) {
        c->dBusWishbone_DAT_MISO =
            access(c->dBusWishbone_ADR << 2, c->dBusWishbone_WE, c->dBusWishbone_DAT_MOSI, c->dBusWishbone_SEL, &error);
        c->dBusWishbone_ACK = !error;
        c->dBusWishbone_ERR = error;
    }
    c->eval();
    c->clk = 1;
    c->eval();
    clocks++;
    model_tick(CLOCK_NS);
}

static void reset()
{
    VVexRiscv *c = core();
    c->reset = 1;
    for (int k = 0; k < 8; k++)
        step_clock();
    c->reset = 0;
}

static bool asleep()
{
    return core()->VexRiscv->CsrPlugin_inWfi && !model_irq();
}

/* A few clocks, or sleep until the next event. */
static void go_on()
{
    uint32_t cause = model_take_restart();
    if (cause) {
        model_restart(cause);
        reset();
    }
    if (asleep()) {
        hal_wait();
        return;
    }
    for (int k = 0; k < 64 && !asleep() && !stopped; k++) {
        step_clock();
        stopped = model_take_stop();
    }
}

void core_load(const uint8_t *image, unsigned size, uint32_t complete, uint32_t intake)
{
    memset(rom, 0, sizeof rom);
    memcpy(rom, image, size < BYTES ? size : BYTES);
    complete_at = complete;
    intake_at = intake;
}

/* Overwrites code to provoke a crash. */
void core_patch(uint32_t address, uint16_t instruction)
{
    uint32_t *word = &rom[address / 4 % (BYTES / 4)], shift = 8 * (address & 2);
    *word = (*word & ~(0xFFFFu << shift)) | (uint32_t)instruction << shift;
}

uint64_t core_clocks(void)
{
    return clocks;
}

unsigned core_stack_unused(uint32_t bss_end)
{
    unsigned words = 0;
    for (const uint32_t *p = memory((bss_end + 3) & ~3u); *p == STACK_MARK; p++)
        words++;
    return 4 * words;
}

/* Nothing left to do: it sleeps in its main loop (not in a wait for I2C), and no message is under way. */
static bool idle()
{
    bool line = *memory(complete_at) >> 8 * (complete_at & 3) & 0xFF, listens = model_peek(WB_IRQ_ENABLE) & WB_IRQ_ENABLE_CONSOLE_IN;
    return asleep() && listens && !model_unread() && !line && !*memory(intake_at);
}

void firmware_init(void)
{
    stopped = false;
    reset();
    do
        go_on();
    while (!idle() && !stopped);
}

void console_stop_at(unsigned count, bool on_i2c)
{
    model_stop_at(count, on_i2c, nullptr);
}

int console_start(uint32_t seed)
{
    for (uint32_t &word : ram)
        word = STACK_MARK;
    model_power_on(seed);
    firmware_init();
    return stopped ? 2 : 0;
}

int console_restart(uint32_t cause)
{
    model_restart(cause);
    firmware_init();
    return stopped ? 2 : 0;
}

int console_settle(int64_t ticks)
{
    int64_t end = model_now() + ticks;
    model_limit(end);
    while (!idle()) {
        if (model_now() >= end)
            return 1;
        go_on();
        if (stopped)
            return 2;
    }
    return 0;
}

int console_advance(int64_t ticks)
{
    int64_t end = model_now() + ticks;
    model_limit(end);
    while ((model_now() < end || !asleep()) && !stopped)
        go_on();
    return stopped ? 2 : 0;
}
