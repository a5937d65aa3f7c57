#include "calibrate.h"

#include "capture.h"
#include "hal.h"
#include "handlers.h"
#include "i2c.h"
#include "meter.h"
#include "scpi/error.h"
#include "scpi/output.h"
#include "scpi/status.h"
#include "store.h"
#include "ticks.h"

#define CONVERSIONS 16384 /* at least, or one second if that is more; leaves 0.6 uA of front-end noise */
#define SETTLED_AFTER (2 * TICKS_MS)
#define CODE_LIMIT (131000 * 256) /* beyond this, noise may clip a signed path */
#define LONGEST_DELAY 100000000   /* ps */
#define FULL (UINT64_C(1) << 32)  /* 2^24 of GAIN x 256 of codes */

static const struct {
    uint8_t offset, gain, scale;
    enum quantity quantity;
    uint32_t unit; /* of the register, in 10^-scale */
    uint32_t gain_reset;
} channels[CHANNELS] = {
    {WB_V_OFFSET, WB_V_GAIN, 9, VOLT, WB_VOLTAGE_LSB_NV, WB_V_GAIN_RESET},
    {WB_I_OFFSET, WB_I_GAIN, 12, AMPERE, WB_CURRENT_LSB_PA, WB_I_GAIN_RESET},
    {WB_F_OFFSET, WB_F_GAIN, 12, AMPERE, WB_CURRENT_LSB_PA, WB_F_GAIN_RESET},
};

static struct calibration in_use;
/* A channel counts as calibrated when its offset and its gain came from a measurement or from the EEPROM. */
static bool has_offset[CHANNELS], has_gain[CHANNELS], stored;
static struct {
    bool there;
    int64_t value, codes;
} first_point[CHANNELS];

static bool board_has(unsigned channel)
{
    return channel != CHANNEL_FINE || hal_read(WB_BUILD) & WB_BUILD_FINE;
}

static bool calibrated(void)
{
    for (unsigned k = 0; k < CHANNELS; k++)
        if (board_has(k) && !(has_offset[k] && has_gain[k]))
            return false;
    return true;
}

/* Writes only known values: RAIL blocks stay flagged UNCALIBRATED until all the main registers have been written. */
static void apply(void)
{
    for (unsigned k = 0; k < CHANNELS; k++) {
        if (has_offset[k])
            hal_write(channels[k].offset, (uint32_t)in_use.channel[k].offset);
        if (has_gain[k])
            hal_write(channels[k].gain, in_use.channel[k].gain);
    }
    hal_write(WB_COMMAND, WB_COMMAND_RAIL_APPLY);
    status_condition(&status_questionable, QUES_CALIBRATION, calibrated() ? 0 : QUES_CALIBRATION);
}

/* Takes the EEPROM's calibration into use; if there is none, everything stays as it is. */
static enum stored load(void)
{
    struct calibration found;
    enum stored result = store_load(RECORD_CALIBRATION, 0, &found, sizeof found);
    if (result == STORE_DOUBTFUL)
        scpi_error_text(SCPI_MEMORY_ERROR, "calibration: a copy lost");
    if (result < STORE_DOUBTFUL)
        return result;
    in_use = found;
    stored = true;
    for (unsigned k = 0; k < CHANNELS; k++) {
        has_offset[k] = has_gain[k] = true;
        first_point[k].there = false;
    }
    return result;
}

void calibrate_init(void)
{
    in_use = (struct calibration){0};
    stored = false;
    for (unsigned k = 0; k < CHANNELS; k++) {
        in_use.channel[k].gain = channels[k].gain_reset;
        has_offset[k] = has_gain[k] = first_point[k].there = false;
    }
    if (load() == STORE_LOST)
        scpi_error_text(SCPI_CALIBRATION_LOST, "not calibrated");
    apply();
}

/* Measures one gate: step 0 starts it, later steps wait. True once there is a reading. */
static bool measure(struct call *call, uint16_t step)
{
    if (call->step == step) {
        status_condition(&status_operation, OPER_CALIBRATING, OPER_CALIBRATING);
        int64_t second = TICKS_S / capture_period_ticks();
        meter_start((second > CONVERSIONS ? second : CONVERSIONS) / 2, 2); /* two gates, as one would overflow the counter */
        call->step++;
        return false;
    }
    int finished = meter_finished();
    if (finished == 0)
        return false;
    status_condition(&status_operation, OPER_CALIBRATING, 0);
    if (finished < 0)
        call_fail(call, finished);
    return finished > 0;
}

static bool clipped(unsigned channel)
{
    const struct reading *r = meter_reading();
    if (channel == CHANNEL_VOLTAGE)
        return r->state & WB_METER_STATE_OVERLOAD_V;
    return r->codes[channel] > CODE_LIMIT || r->codes[channel] < -CODE_LIMIT;
}

static bool take_zero(unsigned channel)
{
    if (clipped(channel))
        return false;
    in_use.channel[channel].offset = (int32_t)meter_reading()->codes[channel];
    has_offset[channel] = true;
    return true;
}

/* Shorts the inputs, measures a gate, opens them again. Both current paths are done at once. */
enum progress calibrate_zero(struct call *call)
{
    bool voltage = call->argument == CHANNEL_VOLTAGE;
    if (call->step == 0) {
        hal_write(WB_AFE, voltage ? WB_AFE_ZERO_V : WB_AFE_ZERO_I);
        call->memory = ticks_now() + SETTLED_AFTER;
        call->step = 1;
    }
    if (call->step == 1 && ticks_now() < call->memory) {
        ticks_deadline(call->memory);
        return PENDING;
    }
    bool done = measure(call, 1);
    if (!done && !call->failed)
        return PENDING;
    hal_write(WB_AFE, 0);
    if (call->failed)
        return DONE;
    bool good = take_zero(call->argument);
    if (!voltage && board_has(CHANNEL_FINE))
        good &= take_zero(CHANNEL_FINE);
    if (!good)
        call_fail(call, SCPI_CALIBRATION_FAILED);
    apply();
    return DONE;
}

/* *CAL?: zeroes the current channels; answers 0 or the error number, which is queued too. */
enum progress calibrate_all(struct call *call)
{
    if (calibrate_zero(call) == PENDING && !call->failed)
        return PENDING;
    put_integer(call->failed ? SCPI_CALIBRATION_FAILED : 0);
    return DONE;
}

/* Gain and offset of the line through two points; false if no plausible line does. */
static bool fit(unsigned channel, int64_t value, int64_t codes)
{
    struct line_fit *line = &in_use.channel[channel];
    int64_t rise = value - first_point[channel].value, run = codes - first_point[channel].codes;
    if (run < 0) {
        rise = -rise;
        run = -run;
    }
    if (run < 256 * 1000 || rise <= 0) /* the points must be at least a thousand codes apart */
        return false;
    int64_t gain = number_muldiv(rise, FULL, (uint64_t)run * channels[channel].unit);
    if (gain <= 0 || gain > UINT32_MAX)
        return false;
    int64_t offset = codes - number_muldiv(value, FULL, (uint64_t)gain * channels[channel].unit);
    if (offset >= 1 << 27 || offset < -(1 << 27))
        return false;
    line->gain = (uint32_t)gain;
    line->offset = (int32_t)offset;
    has_gain[channel] = has_offset[channel] = true;
    return true;
}

/* POINt <1|2>,<known value>: the value now at the input. The second point fits the line. */
enum progress calibrate_point(struct call *call)
{
    unsigned channel = call->argument;
    call->taken = 0; /* the parameters are parsed again at each step */
    unsigned point = (unsigned)call_unsigned(call, 1, 2);
    int64_t limit = 25 * number_power_of_ten(channels[channel].scale);
    int64_t value = call_scaled(call, channels[channel].quantity, channels[channel].scale, -limit, limit, 0);
    if (!call->failed && !board_has(channel))
        call_fail(call, SCPI_HARDWARE_MISSING);
    if (!call->failed && point == 2 && !first_point[channel].there)
        call_fail(call, SCPI_SETTINGS_CONFLICT);
    if (call->failed)
        return DONE;
    if (!measure(call, 0))
        return PENDING;
    int64_t codes = meter_reading()->codes[channel];
    if (clipped(channel) || (point == 2 && !fit(channel, value, codes))) {
        call_fail(call, SCPI_CALIBRATION_FAILED);
        return DONE;
    }
    first_point[channel].there = point == 1;
    first_point[channel].value = value;
    first_point[channel].codes = codes;
    if (point == 2)
        apply();
    return DONE;
}

enum progress calibrate_set_data(struct call *call)
{
    struct line_fit *line = &in_use.channel[call->argument];
    int64_t offset = call_scaled(call, PLAIN, 0, -(1 << 27), (1 << 27) - 1, 0);
    uint64_t gain = call_unsigned(call, 1, UINT32_MAX);
    if (call->failed)
        return DONE;
    line->offset = (int32_t)offset;
    line->gain = (uint32_t)gain;
    has_offset[call->argument] = has_gain[call->argument] = true;
    apply();
    return DONE;
}

enum progress calibrate_get_data(struct call *call)
{
    put_integer(in_use.channel[call->argument].offset);
    put_char(',');
    put_unsigned(in_use.channel[call->argument].gain);
    return DONE;
}

enum progress calibrate_set_delay(struct call *call)
{
    int64_t delay = call_scaled(call, SECOND, 12, 0, LONGEST_DELAY, 0);
    int64_t u = call_scaled(call, SECOND, 12, 1, LONGEST_DELAY, LONGEST_DELAY);
    if (!call->failed && call->argument && !board_has(CHANNEL_FINE))
        call_fail(call, SCPI_HARDWARE_MISSING);
    if (!call->failed)
        in_use.delay[call->argument] = (struct path_delay){(uint32_t)delay, (uint32_t)u};
    return DONE;
}

enum progress calibrate_get_delay(struct call *call)
{
    struct path_delay found = in_use.delay[call->argument];
    put_real(found.delay, -12);
    put_char(',');
    put_real(found.u, -12);
    return DONE;
}

enum progress calibrate_store(struct call *call)
{
    int sixteenths = INT16_MIN;
    if (!calibrated()) {
        call_fail(call, SCPI_SETTINGS_CONFLICT);
        return DONE;
    }
    temperature_read(&sixteenths);
    struct calibration next = in_use;
    next.temperature = sixteenths;
    next.count++;
    if (store_save(RECORD_CALIBRATION, 0, &next, sizeof next)) {
        in_use = next;
        stored = true;
    } else {
        call_fail(call, SCPI_STORAGE_FAULT);
    }
    return DONE;
}

enum progress calibrate_load(struct call *call)
{
    if (load() >= STORE_DOUBTFUL)
        apply();
    else
        call_fail(call, SCPI_MEMORY_LOST);
    return DONE;
}

enum progress calibrate_state(struct call *call)
{
    (void)call;
    put_integer(calibrated());
    return DONE;
}

enum progress calibrate_count(struct call *call)
{
    (void)call;
    put_unsigned(in_use.count);
    return DONE;
}

enum progress calibrate_temperature(struct call *call)
{
    if (stored && in_use.temperature != INT16_MIN)
        put_real((int64_t)in_use.temperature * 625, -4);
    else
        call_fail(call, SCPI_STALE);
    return DONE;
}
