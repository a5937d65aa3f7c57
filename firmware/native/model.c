#include "model.h"

#include <math.h>
#include <string.h>

#include "analog.h"
#include "devices.h"
#include "hal.h"
#include "words.h"

#define NEVER INT64_MAX
#define RAIL_RISES_NS 2000000
#define ACCESS_NS 50

static uint32_t words[256], restart;
static int64_t now, limit;

static struct {
    int64_t end;
    bool busy;
} gate;
static struct {
    double energy, charge, count;
    int64_t since;
} totals;
static int64_t i2c_done, good_at, on_since, trip_at, watchdog_at, trigger_acts_at, test_end, load_end;
static bool rail_can, overflow_armed;
static unsigned test_breaks;
static unsigned accesses[2], stop_at[2]; /* all accesses, and commands of I2C */
static void (*stop_by)(void);
static bool stopped;
static char input[1 << 16], output[1 << 16];
static unsigned in_head, in_used, out_used, out_room;

static int64_t period(void)
{
    return (int64_t)words[WB_ADC_PERIOD] * 4;
}

static void end_gate(void)
{
    analog_gate(words);
    words[WB_GATE_TICKS] = (uint32_t)period();
    gate.busy = false;
    gate.end = NEVER;
}

static bool converting(void)
{
    return words[WB_METER_CONTROL] & WB_METER_CONTROL_RUN || words[WB_CONTROL] & WB_CONTROL_RUN;
}

static void account(void)
{
    if (converting()) {
        struct conversion c = analog_conversion(words, false);
        double n = (double)(now - totals.since) / (double)period();
        totals.energy += n * (double)(c.v * c.i);
        totals.charge += n * (double)c.i;
        totals.count += n;
    }
    totals.since = now;
}

/* --- power --------------------------------------------------------------------------------------------------------- */

static void check_current(void)
{
    bool protect = words[WB_POWER_CONTROL] & WB_POWER_CONTROL_PROTECT, on = words[WB_POWER_STATE] & WB_POWER_STATE_ON;
    bool early = now < on_since + (int64_t)words[WB_INRUSH_TICKS];
    uint32_t level = words[early ? WB_INRUSH_LEVEL : WB_OCP_LEVEL];
    bool over = protect && on && converting() && analog_amperes() / (WB_CURRENT_LSB_PA * 1e-12) > (double)level;
    if (over && trip_at == NEVER)
        trip_at = now + (int64_t)words[WB_OCP_COUNT] * period();
    else if (!over)
        trip_at = NEVER;
}

static void power_changed(void)
{
    bool on = words[WB_POWER_CONTROL] & WB_POWER_CONTROL_DRIVE_ON && !words[WB_POWER_TRIP];
    bool was = words[WB_POWER_STATE] & WB_POWER_STATE_ON;
    account();
    if (on && !was) {
        on_since = now;
        good_at = rail_can ? now + RAIL_RISES_NS : NEVER;
    }
    uint32_t keep = words[WB_POWER_STATE] & WB_POWER_STATE_LINK;
    bool good = on && now >= good_at;
    words[WB_POWER_STATE] = keep | (on ? WB_POWER_STATE_ON : 0) | (good ? WB_POWER_STATE_GOOD : 0) |
                            (words[WB_POWER_CONTROL] & WB_POWER_CONTROL_PERST ? 0 : WB_POWER_STATE_PERST_N) |
                            (words[WB_POWER_CONTROL] & WB_POWER_CONTROL_CLKREQ ? 0 : WB_POWER_STATE_CLKREQ_N);
    check_current();
}

static void trip(void)
{
    bool early = now < on_since + (int64_t)words[WB_INRUSH_TICKS];
    words[WB_POWER_TRIP] |= early ? WB_POWER_TRIP_INRUSH : WB_POWER_TRIP_OVER_CURRENT;
    put64(words, WB_TRIP_TICK_LO, now);
    bool beyond = analog_amperes() >= 4.096; /* the end of the coarse path's scale */
    words[WB_TRIP_CURRENT] = beyond ? WB_TRIP_BEYOND : (uint32_t)(int32_t)round(analog_amperes() / (WB_CURRENT_LSB_PA * 1e-12));
    trip_at = NEVER;
    power_changed();
}

/* --- trigger ------------------------------------------------------------------------------------------------------- */

static void start_gate(void)
{
    words[WB_METER_STATE] = WB_METER_STATE_BUSY;
    gate.busy = true;
    gate.end = converting() ? now + (int64_t)words[WB_METER_COUNT] * period() : NEVER;
}

static void act(void)
{
    trigger_acts_at = NEVER;
    if (words[WB_TRIGGER_ACTION] & WB_TRIGGER_ACTION_METER)
        start_gate();
    if (words[WB_TRIGGER_ACTION] & WB_TRIGGER_ACTION_RUN)
        words[WB_CONTROL] |= WB_CONTROL_RUN;
    if (words[WB_TRIGGER_ACTION] & WB_TRIGGER_ACTION_STOP)
        words[WB_CONTROL] &= ~WB_CONTROL_RUN;
    words[WB_STATE] = words[WB_CONTROL] & WB_CONTROL_RUN ? WB_STATE_RUNNING : 0;
}

static void fire(void)
{
    if (!(words[WB_TRIGGER_STATE] & WB_TRIGGER_STATE_ARMED))
        return;
    words[WB_TRIGGER_STATE] = WB_TRIGGER_STATE_FIRED;
    put64(words, WB_TRIGGER_TICK_LO, now);
    trigger_acts_at = now + words[WB_TRIGGER_DELAY];
}

static unsigned source(void)
{
    return words[WB_TRIGGER_CONTROL] & WB_TRIGGER_CONTROL_SOURCE;
}

static void watch_rail(void)
{
    struct conversion c = analog_conversion(words, false);
    int64_t value = source() == 2 ? c.v : source() == 3 ? c.i : c.v * c.i >> 16, level = (int32_t)words[WB_TRIGGER_LEVEL];
    bool falling = words[WB_TRIGGER_CONTROL] & WB_TRIGGER_CONTROL_FALLING;
    int64_t hysteresis = (int32_t)words[WB_TRIGGER_HYSTERESIS];
    if (!(words[WB_TRIGGER_STATE] & WB_TRIGGER_STATE_ARMED) || source() < 2 || source() > 4)
        return;
    if (falling ? value >= level + hysteresis : value <= level - hysteresis)
        overflow_armed = true; /* it has been on the other side */
    else if (overflow_armed && (falling ? value < level : value > level))
        fire();
}

void model_event(unsigned which, unsigned argument)
{
    bool falling = words[WB_TRIGGER_CONTROL] & WB_TRIGGER_CONTROL_FALLING;
    if (which != source())
        return;
    if (which == 7 || which == 9 ? words[WB_TRIGGER_MATCH] >> argument & 1 : which == 8 || (argument == 0) == falling)
        fire();
}

static void play_test(void)
{
    if (!(words[WB_TEST_CONTROL] & WB_TEST_CONTROL_PATTERN) || !(words[WB_TEST_COMMAND] & WB_TEST_COMMAND_GO))
        return;
    uint32_t commands = words[WB_TEST_CONTROL] & WB_TEST_CONTROL_COMMANDS;
    words[WB_TEST_STATE] = WB_TEST_STATE_BUSY;
    test_end = test_breaks & 8 ? NEVER : now + 100000 + 8000 * (int64_t)commands;
    put64(words, WB_TEST_STEP_TICK_LO, now + 100000);
    put64(words, WB_TEST_DOORBELL_TICK_LO, now + 100000);
    if (!(test_breaks & 1))
        words[WB_COMMANDS] += commands;
    if (!(test_breaks & 2) && source() == 3 && converting() && (int32_t)words[WB_TRIGGER_LEVEL] < 4000000) {
        fire();
        put64(words, WB_TRIGGER_TICK_LO, now + 100000 + (test_breaks & 4 ? 200 : 0));
    }
}

/* --- time ------------------------------------------------------------------------------------------------------------ */

static uint32_t pending(void)
{
    return (in_used ? WB_IRQ_PENDING_CONSOLE_IN : 0) | (out_used < out_room ? WB_IRQ_PENDING_CONSOLE_OUT : 0) |
           (now >= 0 && (uint64_t)now >= get64(words, WB_WAKE_LO) ? WB_IRQ_PENDING_WAKE : 0) | (gate.busy ? 0 : WB_IRQ_PENDING_METER) |
           (words[WB_POWER_TRIP] ? WB_IRQ_PENDING_POWER : 0) |
           (words[WB_TRIGGER_STATE] & WB_TRIGGER_STATE_FIRED ? WB_IRQ_PENDING_TRIGGER : 0) |
           (words[WB_I2C_STATE] & WB_I2C_STATE_BUSY ? 0 : WB_IRQ_PENDING_I2C);
}

static void events(void)
{
    if (now >= i2c_done) {
        words[WB_I2C_STATE] &= ~WB_I2C_STATE_BUSY;
        i2c_done = NEVER;
    }
    if (now >= gate.end)
        end_gate();
    if (now >= trip_at)
        trip();
    if (now >= good_at && !(words[WB_POWER_STATE] & WB_POWER_STATE_GOOD))
        power_changed();
    if (now >= trigger_acts_at)
        act();
    if (now >= test_end) {
        words[WB_TEST_STATE] = 0;
        test_end = NEVER;
    }
    if (now >= watchdog_at) {
        restart |= WB_RESET_CAUSE_WATCHDOG;
        watchdog_at = NEVER;
    }
}

static int64_t next_event(void)
{
    int64_t next = earliest(earliest(i2c_done, gate.end), earliest(trip_at, trigger_acts_at));
    next = earliest(earliest(next, test_end), watchdog_at);
    return good_at > now ? earliest(next, good_at) : next;
}

/* Every access advances time a little (ACCESS_NS), so that loops waiting for time end. */
static void pass(int64_t to)
{
    while (now < to) {
        int64_t next = next_event();
        now = next > now && next < to ? next : to;
        events();
    }
}

void hal_wait(void)
{
    while (!(pending() & words[WB_IRQ_ENABLE]) && now < limit) {
        int64_t next = earliest(next_event(), limit);
        uint64_t wake = get64(words, WB_WAKE_LO);
        if (wake < (uint64_t)next)
            next = (int64_t)wake;
        pass(next > now ? next : now + 1);
    }
}

/* --- the bus --------------------------------------------------------------------------------------------------------- */

static void count(bool on_i2c)
{
    if (++accesses[on_i2c] != stop_at[on_i2c])
        return;
    stopped = true;
    if (stop_by)
        stop_by();
}

void model_stop_at(unsigned times, bool on_i2c, void (*stop)(void))
{
    stop_at[0] = stop_at[1] = 0;
    if (times)
        stop_at[on_i2c] = accesses[on_i2c] + times;
    stop_by = stop;
    stopped = false;
}

bool model_take_stop(void)
{
    bool was = stopped;
    stopped = false;
    return was;
}

unsigned model_accesses(bool on_i2c)
{
    return accesses[on_i2c];
}

uint32_t hal_read(unsigned address)
{
    count(false);
    pass(now + ACCESS_NS);
    switch (address) {
    case WB_NOW_LO:
        return (uint32_t)now;
    case WB_NOW_HI:
        return (uint32_t)((uint64_t)now >> 32);
    case WB_CONSOLE_IN: {
        if (!in_used)
            return 0;
        uint8_t byte = (uint8_t)input[in_head];
        in_head = (in_head + 1) % sizeof input;
        in_used--;
        return byte | WB_CONSOLE_IN_VALID;
    }
    case WB_CONSOLE_STATE:
        return out_used < out_room ? WB_CONSOLE_STATE_ROOM : 0;
    case WB_IRQ_PENDING:
        return pending();
    case WB_LOAD_PULSES: /* a pulse takes two intervals, which are 139 us on average */
        return now < load_end ? (uint32_t)((load_end - now) / 278528 + 1) : 0;
    default:
        return words[address & 255];
    }
}

static void i2c_command(uint32_t command)
{
    if (i2c_done != NEVER)
        return;
    words[WB_I2C_STATE] = devices_transfer(command, now);
    i2c_done = now + 10 * (int64_t)words[WB_I2C_PERIOD];
}

static void meter_command(uint32_t value)
{
    if (value & WB_METER_COMMAND_ABORT) {
        gate.busy = false;
        gate.end = NEVER;
        words[WB_METER_STATE] = 0;
    }
    if (value & WB_METER_COMMAND_START)
        start_gate();
    account();
    if (value & WB_METER_COMMAND_LATCH) {
        put64(words, WB_ENERGY_LO, (int64_t)(uint64_t)(__int128)totals.energy);
        put64(words, WB_CHARGE_LO, (int64_t)totals.charge);
        put64(words, WB_TOTAL_COUNT_LO, (int64_t)totals.count);
    }
    if (value & WB_METER_COMMAND_CLEAR)
        totals.energy = totals.charge = totals.count = 0;
}

static void trigger_command(uint32_t value)
{
    if (value & (WB_TRIGGER_COMMAND_ARM | WB_TRIGGER_COMMAND_DISARM)) {
        words[WB_TRIGGER_STATE] = value & WB_TRIGGER_COMMAND_ARM ? WB_TRIGGER_STATE_ARMED : 0;
        trigger_acts_at = NEVER;
        overflow_armed = false;
        if (value & WB_TRIGGER_COMMAND_ARM && source() == 0)
            fire();
        else
            watch_rail();
    }
    if (value & WB_TRIGGER_COMMAND_FORCE)
        fire();
}

#define WRITABLE(name, address, readable, writable, reset) [address] = writable,
static const bool is_writable[256] = {WB_REGISTER_LIST(WRITABLE)};

void hal_write(unsigned address, uint32_t value)
{
    count(false);
    if ((address & 255) == WB_I2C_COMMAND)
        count(true);
    pass(now + ACCESS_NS);
    address &= 255;
    if (!is_writable[address])
        return;
    switch (address) {
    case WB_CONSOLE_OUT:
        if (out_used < out_room && out_used < sizeof output)
            output[out_used++] = (char)value;
        return;
    case WB_WATCHDOG_TIMEOUT:
        if (value || !words[address])
            words[address] = value;
        return;
    case WB_WATCHDOG_KICK:
        if (value != WB_WATCHDOG_KEY)
            restart |= WB_RESET_CAUSE_WATCHDOG;
        watchdog_at = words[WB_WATCHDOG_TIMEOUT] ? now + ((int64_t)words[WB_WATCHDOG_TIMEOUT] << 20) : NEVER;
        return;
    case WB_RESTART:
        if (value == WB_RESTART_KEY)
            restart |= WB_RESET_CAUSE_RESTART;
        return;
    case WB_RESET_CAUSE:
    case WB_POWER_TRIP:
        words[address] &= ~value;
        power_changed();
        return;
    case WB_I2C_COMMAND:
        i2c_command(value);
        return;
    case WB_METER_COMMAND:
        meter_command(value);
        return;
    case WB_TRIGGER_COMMAND:
        trigger_command(value);
        return;
    }
    account();
    words[address] = value;
    switch (address) {
    case WB_CONTROL:
        words[WB_STATE] = value & WB_CONTROL_RUN ? WB_STATE_RUNNING : 0;
        check_current();
        break;
    case WB_METER_CONTROL:
    case WB_OCP_LEVEL:
    case WB_INRUSH_LEVEL:
    case WB_INRUSH_TICKS:
        check_current();
        break;
    case WB_POWER_CONTROL:
        power_changed();
        break;
    case WB_LOAD_PULSES:
        load_end = words[WB_POWER_STATE] & WB_POWER_STATE_ON ? now + 278528 * (int64_t)value : 0;
        break;
    case WB_TEST_COMMAND:
        play_test();
        words[address] = 0;
        break;
    }
}

/* --- the tests' side --------------------------------------------------------------------------------------------------- */

void model_restart(uint32_t cause)
{
    words[WB_RESET_CAUSE] |= cause;
    words[WB_IRQ_ENABLE] = 0;
    words[WB_WATCHDOG_TIMEOUT] = 0;
    watchdog_at = NEVER;
}

void model_power_on(uint32_t seed)
{
    memset(words, 0, sizeof words);
#define RESET(name, address, readable, writable, reset) words[address] = reset;
    WB_REGISTER_LIST(RESET)
    words[WB_VERSION] = WB_GATEWARE_MAJOR << 16 | WB_GATEWARE_MINOR << 8 | WB_GATEWARE_PATCH;
    words[WB_BUILD] = 4 | 16 << WB_BUILD_TLP_WIDTH_SHIFT | WB_BUILD_FINE;
    words[WB_ADC_PERIOD] = 250;
    analog_power_on(seed);
    devices_power_on();
    rail_can = true;
    i2c_done = gate.end = trip_at = watchdog_at = trigger_acts_at = test_end = NEVER;
    gate.busy = false;
    totals.energy = totals.charge = totals.count = 0;
    totals.since = now = load_end = 0;
    limit = NEVER;
    restart = 0;
    test_breaks = 0;
    in_used = out_used = 0;
    out_room = sizeof output;
    on_since = -NEVER / 2; /* the drive has been on for a long time */
    good_at = 0;
    words[WB_POWER_STATE] = WB_POWER_STATE_ON;
    power_changed();
}

void model_set_rail(double volts, double amperes)
{
    account();
    analog_set(volts, amperes);
    check_current();
    watch_rail();
}

void model_set_fine(bool there)
{
    analog_set_fine(there);
    words[WB_BUILD] = (words[WB_BUILD] & ~WB_BUILD_FINE) | (there ? WB_BUILD_FINE : 0);
}

void model_set_rail_good(bool possible)
{
    rail_can = possible;
}

void model_break_test(unsigned stages)
{
    test_breaks = stages;
}

uint32_t model_peek(unsigned address)
{
    return words[address & 255];
}

void model_poke(unsigned address, uint32_t value)
{
    words[address & 255] = value;
}

int64_t model_now(void)
{
    return now;
}

void model_limit(int64_t tick)
{
    limit = tick;
}

void model_tick(int64_t ns)
{
    pass(now + ns);
}

bool model_irq(void)
{
    return (pending() & words[WB_IRQ_ENABLE]) != 0;
}

uint32_t model_take_restart(void)
{
    uint32_t cause = restart;
    restart = 0;
    return cause;
}

void model_feed(const char *bytes, unsigned count)
{
    for (unsigned k = 0; k < count && in_used < sizeof input; k++)
        input[(in_head + in_used++) % sizeof input] = bytes[k];
}

unsigned model_unread(void)
{
    return in_used;
}

unsigned model_take(char *bytes, unsigned size)
{
    unsigned count = out_used < size ? out_used : size;
    memcpy(bytes, output, count);
    memmove(output, output + count, out_used - count);
    out_used -= count;
    return count;
}

void model_set_room(unsigned bytes)
{
    out_room = bytes;
}
