#include "model.h"

#include <math.h>
#include <string.h>

#include "hal.h"

#define NEVER INT64_MAX
#define EEPROM_BYTES 8192
#define EEPROM_WRITE_NS 5000000
#define RAIL_RISES_NS 2000000
#ifndef SIMULATED
#define SIMULATED 4096
#endif
#define ACCESS_NS 50

static uint32_t words[256];
static int64_t now, limit;
static uint32_t restart;

static struct {
    double volts, amperes, noise, gain_error[3], offset[3];
    bool fine;
} rail;
static uint64_t random_state;

static struct {
    uint8_t bytes[EEPROM_BYTES];
    bool there;
    unsigned address, received; /* bytes since START */
    int64_t busy_until;
} eeprom;
static struct {
    bool there;
    double celsius;
    unsigned sent;
} sensor;
static struct {
    int device; /* 0: none addressed */
    bool reading;
    int64_t done;
} i2c;

static struct {
    int64_t end;
    bool busy;
} gate;
static struct {
    double energy, charge, count;
    int64_t since;
} totals;
static int64_t good_at, on_since, trip_at, watchdog_at, trigger_acts_at, test_end;
static bool rail_can, overflow_armed;
static unsigned test_breaks;

static char input[1 << 16], output[1 << 16];
static unsigned in_head, in_used, out_used, out_room;

/* --- numbers at random ------------------------------------------------------------------------------------------- */

static double uniform(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (double)(random_state >> 11) / 9007199254740992.0;
}

static double normal(void)
{
    return sqrt(-2 * log(1 - uniform())) * cos(6.283185307179586 * uniform());
}

/* --- the analog side: docs/architecture.md for the scales ------------------------------------------------------------ */

/* Code of channel 0 voltage, 1 current, 2 fine current (36 times the gain). */
static int64_t convert(int channel, double noise)
{
    double lsb = channel == 0 ? 5.0 / 262144 : channel == 1 ? 31.25e-6 : 31.25e-6 / 36;
    uint32_t zero = words[WB_AFE] & (channel ? WB_AFE_ZERO_I : WB_AFE_ZERO_V);
    bool on = words[WB_POWER_STATE] & WB_POWER_STATE_ON;
    double value = zero || !on ? 0 : channel ? rail.amperes : rail.volts;
    double code = round(value / lsb * (1 + rail.gain_error[channel]) + rail.offset[channel] + noise);
    double low = channel ? -131072 : 0, high = channel ? 131071 : 262143;
    return (int64_t)(code < low ? low : code > high ? high : code);
}

/* docs/registers.md: value = clip(floor((code * 2^8 - OFFSET) * GAIN / 2^32 + 1/2)) */
static int64_t corrected(int64_t code, unsigned offset_register, uint32_t gain, bool *clipped)
{
    int64_t offset = (int64_t)((uint64_t)words[offset_register] << 36) >> 36; /* 28 bits, signed */
    __int128 product = (__int128)(code * 256 - offset) * gain + (INT64_C(1) << 31);
    int64_t value = (int64_t)(product >> 32);
    *clipped = value < -(1 << 23) || value > (1 << 23) - 1;
    return value < -(1 << 23) ? -(1 << 23) : value > (1 << 23) - 1 ? (1 << 23) - 1 : value;
}

static bool ends(int channel, int64_t code)
{
    return channel ? code == -131072 || code == 131071 : code == 0 || code == 262143;
}

struct conversion {
    int64_t code[3], v, i;
    uint32_t state;
};

static struct conversion conversion(bool noisy)
{
    struct conversion c = {0};
    bool clip_v, clip_i, fine_ok;
    for (int k = 0; k < 3; k++)
        c.code[k] = k == 2 && !rail.fine ? 0 : convert(k, noisy ? rail.noise * normal() : 0);
    fine_ok = rail.fine && (words[WB_RANGE] == 2 || (words[WB_RANGE] == 0 && !ends(2, c.code[2])));
    c.v = corrected(c.code[0], WB_V_OFFSET, words[WB_V_GAIN], &clip_v);
    c.i = fine_ok ? corrected(c.code[2], WB_F_OFFSET, words[WB_F_GAIN], &clip_i)
                  : corrected(c.code[1], WB_I_OFFSET, words[WB_I_GAIN], &clip_i);
    c.state |= ends(0, c.code[0]) ? WB_METER_STATE_OVERLOAD_V : 0;
    c.state |= ends(fine_ok ? 2 : 1, c.code[fine_ok ? 2 : 1]) ? WB_METER_STATE_OVERLOAD_I : 0;
    c.state |= clip_v || clip_i ? WB_METER_STATE_SATURATED : 0;
    c.state |= fine_ok ? WB_METER_STATE_FINE : 0;
    return c;
}

static int64_t period(void)
{
    return (int64_t)words[WB_ADC_PERIOD] * 4;
}

static void put64(unsigned address, int64_t value)
{
    words[address] = (uint32_t)value;
    words[address + 1] = (uint32_t)((uint64_t)value >> 32);
}

static uint64_t get64(unsigned address)
{
    return (uint64_t)words[address + 1] << 32 | words[address];
}

static void end_gate(void)
{
    uint32_t count = words[WB_METER_COUNT], simulated = count < SIMULATED ? count : SIMULATED;
    double sums[6] = {0};
    int64_t least[3] = {INT64_MAX, INT64_MAX, INT64_MAX}, most[3] = {INT64_MIN, INT64_MIN, INT64_MIN};
    uint32_t state = 0, clipped = 0;
    for (uint32_t k = 0; k < simulated; k++) {
        struct conversion c = conversion(true);
        int64_t values[6] = {c.v, c.i, c.v * c.i, c.code[0], c.code[1], c.code[2]};
        for (int n = 0; n < 6; n++)
            sums[n] += (double)values[n];
        values[2] >>= 16;
        for (int n = 0; n < 3; n++) {
            least[n] = values[n] < least[n] ? values[n] : least[n];
            most[n] = values[n] > most[n] ? values[n] : most[n];
        }
        state |= c.state;
        clipped += (c.state & (WB_METER_STATE_OVERLOAD_I | WB_METER_STATE_OVERLOAD_V)) != 0;
    }
    static const uint8_t at[6] = {WB_V_SUM_LO, WB_I_SUM_LO, WB_P_SUM_LO, WB_V_CODES_LO, WB_I_CODES_LO, WB_F_CODES_LO};
    for (int n = 0; n < 6; n++)
        put64(at[n], (int64_t)round(sums[n] * count / simulated));
    for (unsigned n = 0; n < 3; n++) {
        words[WB_V_MIN + 2 * n] = (uint32_t)least[n];
        words[WB_V_MAX + 2 * n] = (uint32_t)most[n];
    }
    words[WB_GATE_CLIPPED] = (uint32_t)((uint64_t)clipped * count / simulated);
    words[WB_GATE_TICKS] = (uint32_t)period();
    words[WB_METER_STATE] = state;
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
        struct conversion c = conversion(false);
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
    bool over = protect && on && converting() && rail.amperes / 500e-9 > (double)level;
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
    put64(WB_TRIP_TICK_LO, now);
    words[WB_TRIP_CURRENT] = (uint32_t)(int32_t)round(rail.amperes / 500e-9);
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
    put64(WB_TRIGGER_TICK_LO, now);
    trigger_acts_at = now + words[WB_TRIGGER_DELAY];
}

static unsigned source(void)
{
    return words[WB_TRIGGER_CONTROL] & WB_TRIGGER_CONTROL_SOURCE;
}

static void watch_rail(void)
{
    struct conversion c = conversion(false);
    int64_t value = source() == 2 ? c.v : source() == 3 ? c.i : c.v * c.i >> 16, level = (int32_t)words[WB_TRIGGER_LEVEL];
    bool falling = words[WB_TRIGGER_CONTROL] & WB_TRIGGER_CONTROL_FALLING;
    int64_t hysteresis = (int32_t)words[WB_TRIGGER_HYSTERESIS];
    if (!(words[WB_TRIGGER_STATE] & WB_TRIGGER_STATE_ARMED) || source() < 2 || source() > 4)
        return;
    if (falling ? value >= level + hysteresis : value <= level - hysteresis)
        overflow_armed = true; /* it was on the other side */
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
    put64(WB_TEST_STEP_TICK_LO, now + 100000);
    put64(WB_TEST_DOORBELL_TICK_LO, now + 100000);
    if (!(test_breaks & 1))
        words[WB_COMMANDS] += commands;
    if (!(test_breaks & 2) && source() == 3 && converting() && (int32_t)words[WB_TRIGGER_LEVEL] < 4000000) {
        fire();
        put64(WB_TRIGGER_TICK_LO, now + 100000 + (test_breaks & 4 ? 200 : 0));
    }
}

/* --- I2C ------------------------------------------------------------------------------------------------------------ */

static bool i2c_send(uint8_t byte)
{
    bool eeprom_answers = eeprom.there && now >= eeprom.busy_until;
    if (i2c.device == -1) { /* behind START: the address */
        i2c.reading = byte & 1;
        i2c.device = byte >> 1 == 0x50 && eeprom_answers ? 0x50 : byte >> 1 == 0x48 && sensor.there ? 0x48 : 0;
        eeprom.received = sensor.sent = 0;
        return i2c.device != 0;
    }
    if (i2c.device == 0x50 && !i2c.reading) {
        if (eeprom.received < 2)
            eeprom.address = (eeprom.address << 8 | byte) % EEPROM_BYTES;
        else {
            eeprom.bytes[eeprom.address] = byte;
            eeprom.address = (eeprom.address & ~31u) | ((eeprom.address + 1) & 31); /* wraps in its page */
        }
        eeprom.received++;
    }
    return i2c.device != 0;
}

static uint8_t i2c_receive(void)
{
    if (i2c.device == 0x50) {
        uint8_t byte = eeprom.bytes[eeprom.address];
        eeprom.address = (eeprom.address + 1) % EEPROM_BYTES;
        return byte;
    }
    if (i2c.device == 0x48) {
        int raw = (int)lround(sensor.celsius * 16) * 16;
        return (uint8_t)(sensor.sent++ ? raw : raw >> 8);
    }
    return 0xFF;
}

static void i2c_command(uint32_t command)
{
    uint32_t state = WB_I2C_STATE_BUSY;
    if (i2c.done != NEVER)
        return;
    if (command & WB_I2C_COMMAND_START)
        i2c.device = -1;
    if (command & WB_I2C_COMMAND_READ)
        state |= (uint32_t)i2c_receive() << WB_I2C_STATE_DATA_SHIFT;
    else
        state |= i2c_send((uint8_t)command) ? WB_I2C_STATE_ACK : 0;
    if (command & WB_I2C_COMMAND_STOP) {
        if (i2c.device == 0x50 && !i2c.reading && eeprom.received > 2)
            eeprom.busy_until = now + EEPROM_WRITE_NS;
        i2c.device = 0;
    }
    words[WB_I2C_STATE] = state;
    i2c.done = now + 10 * (int64_t)words[WB_I2C_PERIOD];
}

/* --- time ------------------------------------------------------------------------------------------------------------ */

static uint32_t pending(void)
{
    return (in_used ? WB_IRQ_PENDING_CONSOLE_IN : 0) | (out_used < out_room ? WB_IRQ_PENDING_CONSOLE_OUT : 0) |
           (now >= 0 && (uint64_t)now >= get64(WB_WAKE_LO) ? WB_IRQ_PENDING_WAKE : 0) | (gate.busy ? 0 : WB_IRQ_PENDING_METER) |
           (words[WB_POWER_TRIP] ? WB_IRQ_PENDING_POWER : 0) |
           (words[WB_TRIGGER_STATE] & WB_TRIGGER_STATE_FIRED ? WB_IRQ_PENDING_TRIGGER : 0) |
           (words[WB_I2C_STATE] & WB_I2C_STATE_BUSY ? 0 : WB_IRQ_PENDING_I2C);
}

static void events(void)
{
    if (now >= i2c.done) {
        words[WB_I2C_STATE] &= ~WB_I2C_STATE_BUSY;
        i2c.done = NEVER;
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

static int64_t earliest(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Time goes on a little with every access (ACCESS_NS), so that loops which wait for time end. */
static void pass(int64_t to)
{
    while (now < to) {
        int64_t next = earliest(earliest(i2c.done, gate.end), earliest(trip_at, trigger_acts_at));
        next = earliest(earliest(next, test_end), watchdog_at);
        if (good_at > now)
            next = earliest(next, good_at);
        now = next > now && next < to ? next : to;
        events();
    }
}

void hal_wait(void)
{
    while (!(pending() & words[WB_IRQ_ENABLE]) && now < limit) {
        int64_t next = earliest(earliest(i2c.done, gate.end), earliest(trip_at, trigger_acts_at));
        next = earliest(earliest(next, test_end), earliest(watchdog_at, limit));
        if (good_at > now)
            next = earliest(next, good_at);
        uint64_t wake = get64(WB_WAKE_LO);
        if (wake < (uint64_t)next)
            next = (int64_t)wake;
        pass(next > now ? next : now + 1);
    }
}

/* --- the bus --------------------------------------------------------------------------------------------------------- */

uint32_t hal_read(unsigned address)
{
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
    default:
        return words[address & 255];
    }
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
        put64(WB_ENERGY_LO, (int64_t)(uint64_t)(__int128)totals.energy);
        put64(WB_CHARGE_LO, (int64_t)totals.charge);
        put64(WB_TOTAL_COUNT_LO, (int64_t)totals.count);
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
    random_state = UINT64_C(0x9E3779B97F4A7C15) ^ seed;
    for (int k = 0; k < 8; k++)
        uniform();
    rail.volts = 3.3;
    rail.amperes = 0.5;
    rail.noise = 1;
    rail.fine = true;
    for (int k = 0; k < 3; k++) {
        rail.gain_error[k] = seed ? 2e-3 * normal() : 0;
        rail.offset[k] = seed ? 20 * normal() : 0;
    }
    eeprom.there = sensor.there = rail_can = true;
    eeprom.busy_until = 0;
    sensor.celsius = 31.25;
    i2c.device = 0;
    i2c.done = gate.end = trip_at = watchdog_at = trigger_acts_at = test_end = NEVER;
    gate.busy = false;
    totals.energy = totals.charge = totals.count = 0;
    totals.since = now = 0;
    limit = NEVER;
    restart = 0;
    test_breaks = 0;
    in_used = out_used = 0;
    out_room = sizeof output;
    on_since = -NEVER / 2; /* the drive has had power for long */
    good_at = 0;
    words[WB_POWER_STATE] = WB_POWER_STATE_ON;
    power_changed();
}

void model_set_rail(double volts, double amperes)
{
    account();
    rail.volts = volts;
    rail.amperes = amperes;
    check_current();
    watch_rail();
}

void model_set_channel(int channel, double gain_error, double offset_codes)
{
    rail.gain_error[channel] = gain_error;
    rail.offset[channel] = offset_codes;
}

void model_set_noise(double codes)
{
    rail.noise = codes;
}

void model_set_fine(bool there)
{
    rail.fine = there;
    words[WB_BUILD] = (words[WB_BUILD] & ~WB_BUILD_FINE) | (there ? WB_BUILD_FINE : 0);
}

void model_set_i2c(bool with_eeprom, bool with_sensor)
{
    eeprom.there = with_eeprom;
    sensor.there = with_sensor;
}

void model_set_temperature(double celsius)
{
    sensor.celsius = celsius;
}

void model_set_rail_good(bool possible)
{
    rail_can = possible;
}

void model_break_test(unsigned stages)
{
    test_breaks = stages;
}

uint8_t *model_eeprom(void)
{
    return eeprom.bytes;
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
