#include "meter.h"

#include "busy.h"
#include "capture.h"
#include "hal.h"
#include "scpi/error.h"
#include "scpi/status.h"
#include "settings.h"
#include "ticks.h"

#define GATE_MAX ((1 << 20) - 1) /* METER_COUNT; keeps the sum of powers below 2^63 */
#define TOTALS_EVERY TICKS_S     /* at full scale the accumulators wrap after 4 s */

#define POWER_UNIT (10 * WB_PRODUCT_LSB_PW) /* 1e-13 W */

static struct reading reading, sums; /* sums.mean: in register units; power in 1e-13 W, a gate's mean each */
static enum { IDLE, WAITING, GATE } phase;
static unsigned gates, gates_left;
static int64_t gate_conversions, deadline;
static int result;

static struct totals totals;
static uint64_t last_energy, last_charge, last_count;
static uint32_t last_clipped;
static int64_t totals_next;

void meter_convert(void)
{
    uint32_t on = phase != IDLE || totals.on || settings[SETTING_PROTECT] ? WB_METER_CONTROL_RUN : 0;
    hal_write(WB_METER_CONTROL, on | (totals.on ? WB_METER_CONTROL_TOTAL : 0));
    hal_write(WB_IRQ_ENABLE, (hal_read(WB_IRQ_ENABLE) & ~WB_IRQ_ENABLE_METER) | (phase == GATE ? WB_IRQ_ENABLE_METER : 0));
    busy_with(BUSY_GATE, phase == GATE);
    status_condition(&status_operation, OPER_MEASURING, phase == GATE ? OPER_MEASURING : 0);
}

bool meter_triggered(void)
{
    return phase == WAITING && hal_read(WB_TRIGGER_STATE) & WB_TRIGGER_STATE_FIRED;
}

void meter_abort(void)
{
    if (phase == IDLE)
        return;
    hal_write(WB_METER_COMMAND, WB_METER_COMMAND_ABORT);
    phase = IDLE;
    result = SCPI_STALE;
    meter_convert();
}

static void begin(int64_t conversions, unsigned count)
{
    meter_abort();
    sums = (struct reading){.valid = true};
    for (int k = 0; k < 3; k++) {
        sums.least[k] = INT64_MAX;
        sums.most[k] = INT64_MIN;
    }
    gates = gates_left = count;
    gate_conversions = conversions;
    result = 0;
    hal_write(WB_METER_COUNT, (uint32_t)conversions);
}

static void gate(void)
{
    phase = GATE;
    meter_convert();
    hal_write(WB_METER_COMMAND, WB_METER_COMMAND_START);
    deadline = ticks_now() + 2 * gate_conversions * capture_period_ticks() + 100 * TICKS_MS;
}

void meter_start(int64_t conversions, unsigned count)
{
    begin(conversions, count);
    gate();
}

/* The aperture in conversions, cut into gates that the counter can hold. */
static int64_t aperture(unsigned *count)
{
    int64_t period = capture_period_ticks(), conversions = (settings[SETTING_APERTURE] + period / 2) / period;
    if (conversions < 1)
        conversions = 1;
    *count = (unsigned)((conversions + GATE_MAX - 1) / GATE_MAX);
    return (conversions + *count - 1) / *count;
}

void meter_start_configured(void)
{
    unsigned count;
    int64_t conversions = aperture(&count);
    meter_start(conversions, count * (settings[SETTING_AVERAGING] ? (unsigned)settings[SETTING_AVERAGE] : 1));
}

void meter_await_trigger(void)
{
    unsigned count;
    int64_t conversions = aperture(&count);
    begin(count > 1 ? GATE_MAX : conversions, 1);
    phase = WAITING;
    meter_convert();
}

static int64_t read_signed64(unsigned address)
{
    return (int64_t)ticks_read64(address);
}

static void collect(void)
{
    static const uint8_t sum_at[3] = {WB_V_SUM_LO, WB_I_SUM_LO, WB_P_SUM_LO};
    static const uint8_t codes_at[3] = {WB_V_CODES_LO, WB_I_CODES_LO, WB_F_CODES_LO};
    static const int32_t extreme_unit[3] = {WB_VOLTAGE_LSB_NV, WB_CURRENT_LSB_PA, WB_POWER_LSB_PW};
    for (unsigned k = 0; k < 3; k++) {
        int64_t sum = read_signed64(sum_at[k]);
        int64_t least = (int64_t)(int32_t)hal_read(WB_V_MIN + 2 * k) * extreme_unit[k];
        int64_t most = (int64_t)(int32_t)hal_read(WB_V_MAX + 2 * k) * extreme_unit[k];
        sums.mean[k] += k == 2 ? number_muldiv(sum, POWER_UNIT, (uint64_t)gate_conversions) : sum;
        sums.codes[k] += read_signed64(codes_at[k]);
        sums.least[k] = least < sums.least[k] ? least : sums.least[k];
        sums.most[k] = most > sums.most[k] ? most : sums.most[k];
    }
    sums.state |= hal_read(WB_METER_STATE);
    sums.conversions += gate_conversions;
    sums.ticks += gate_conversions * hal_read(WB_GATE_TICKS);
    sums.clipped += hal_read(WB_GATE_CLIPPED);
}

bool meter_overload_voltage(const struct reading *r)
{
    return r->state & WB_METER_STATE_OVERLOAD_V && r->codes[0] > 256 << 17; /* in the upper half */
}

bool meter_overload_current(const struct reading *r)
{
    return r->state & WB_METER_STATE_OVERLOAD_I;
}

static void finish(void)
{
    uint64_t n = (uint64_t)sums.conversions;
    reading = sums;
    reading.mean[0] = number_muldiv(sums.mean[0], WB_VOLTAGE_LSB_NV, n);
    reading.mean[1] = number_muldiv(sums.mean[1], WB_CURRENT_LSB_PA, n);
    reading.mean[2] = number_muldiv(sums.mean[2], 1, 10 * (uint64_t)gates);
    for (int k = 0; k < 3; k++)
        reading.codes[k] = number_muldiv(sums.codes[k], 256, n);
    bool v = meter_overload_voltage(&reading), i = meter_overload_current(&reading);
    status_condition(&status_questionable, QUES_VOLTAGE | QUES_CURRENT | QUES_POWER,
                     (uint16_t)((v ? QUES_VOLTAGE : 0) | (i ? QUES_CURRENT : 0) | (v || i ? QUES_POWER : 0)));
    result = 1;
}

const struct reading *meter_reading(void)
{
    return &reading;
}

int meter_finished(void)
{
    return phase == GATE ? 0 : result == 0 ? SCPI_STALE : result;
}

static void poll_totals(void)
{
    int64_t now = ticks_now();
    if (!totals.on || now < totals_next) {
        if (totals.on)
            ticks_deadline(totals_next);
        return;
    }
    hal_write(WB_METER_COMMAND, WB_METER_COMMAND_LATCH);
    uint64_t energy = ticks_read64(WB_ENERGY_LO), charge = ticks_read64(WB_CHARGE_LO), count = ticks_read64(WB_TOTAL_COUNT_LO);
    uint32_t clipped = hal_read(WB_TOTAL_CLIPPED);
    uint64_t period = (uint64_t)capture_period_ticks();
    /* 1e-11 W ns = 1e-20 J; 500 nA ns = 5e-16 C */
    totals.energy += number_muldiv((int64_t)(energy - last_energy), period, 100000000);
    totals.charge += number_muldiv((int64_t)(charge - last_charge), period, 2000000);
    totals.ticks += (int64_t)((count - last_count) * period);
    totals.clipped += clipped - last_clipped;
    last_energy = energy;
    last_charge = charge;
    last_count = count;
    last_clipped = clipped;
    totals_next = now + TOTALS_EVERY;
    ticks_deadline(totals_next);
}

const struct totals *meter_totals(void)
{
    totals_next = 0;
    poll_totals();
    return &totals;
}

static void clear_accumulators(void)
{
    hal_write(WB_METER_COMMAND, WB_METER_COMMAND_CLEAR);
    last_energy = last_charge = last_count = 0;
    last_clipped = 0;
}

void meter_totals_clear(void)
{
    clear_accumulators();
    totals.energy = totals.charge = totals.ticks = totals.clipped = 0;
}

void meter_totals_switch(bool on)
{
    meter_totals();
    if (on && !totals.on) /* conversions made while it was off do not count */
        clear_accumulators();
    totals.on = on;
    meter_convert();
}

void meter_poll(void)
{
    poll_totals();
    if (phase == WAITING && (hal_read(WB_TRIGGER_STATE) & WB_TRIGGER_STATE_FIRED)) {
        int64_t start = (int64_t)ticks_read64(WB_TRIGGER_TICK_LO) + settings[SETTING_TRIGGER_DELAY];
        /* The hardware starts the gate; one period later it is surely running, or over. */
        int64_t sure = start + 2 * capture_period_ticks();
        if (ticks_now() >= sure) {
            phase = GATE;
            deadline = ticks_now() + 2 * gate_conversions * capture_period_ticks() + 100 * TICKS_MS;
            meter_convert();
        } else {
            ticks_deadline(sure);
        }
    }
    if (phase != GATE)
        return;
    if (!(hal_read(WB_METER_STATE) & WB_METER_STATE_BUSY)) {
        collect();
        if (--gates_left) {
            gate();
            ticks_deadline(deadline);
            return;
        }
        phase = IDLE;
        finish();
        meter_convert();
    } else if (ticks_now() >= deadline) {
        meter_abort();
        result = SCPI_TIME_OUT;
    } else {
        ticks_deadline(deadline);
    }
}

void meter_apply_range(void)
{
    bool fine = hal_read(WB_BUILD) & WB_BUILD_FINE;
    uint32_t range = !fine || settings[SETTING_RANGE_AUTO] ? 0 : settings[SETTING_RANGE] <= FINE_FULL_SCALE ? 2 : 1;
    if (hal_read(WB_RANGE) == range)
        return;
    hal_write(WB_RANGE, range);
    hal_write(WB_COMMAND, WB_COMMAND_RAIL_APPLY);
}

bool meter_fine_alone(void)
{
    return hal_read(WB_RANGE) == 2;
}

void meter_reset(void)
{
    meter_abort();
    meter_totals_switch(false);
    meter_totals_clear();
    reading = (struct reading){0};
    result = SCPI_STALE;
}
