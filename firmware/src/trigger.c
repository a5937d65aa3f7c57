#include "trigger.h"

#include "busy.h"
#include "hal.h"
#include "handlers.h"
#include "meter.h"
#include "scpi/error.h"
#include "scpi/output.h"
#include "scpi/status.h"
#include "settings.h"
#include "ticks.h"

#define RAIL 33 /* 100 mV */

enum { ACTION_MARK, ACTION_METER, ACTION_START, ACTION_STOP };

/* Converts a source's level or hysteresis from micro-units to the units of TRIGGER_LEVEL. */
static int32_t level_units(unsigned source, int64_t micro)
{
    static const uint32_t pico[3] = {1000 * WB_VOLTAGE_LSB_NV, WB_CURRENT_LSB_PA, WB_POWER_LSB_PW};
    return (int32_t)number_muldiv(micro, 1000000, pico[source - SOURCE_VOLTAGE]);
}

static bool has_level(unsigned source)
{
    return source >= SOURCE_VOLTAGE && source <= SOURCE_POWER;
}

static void write_level(unsigned source)
{
    int64_t level = settings[SETTING_TRIGGER_VOLTAGE + (source - SOURCE_VOLTAGE)];
    int64_t hysteresis = settings[SETTING_TRIGGER_V_HYSTERESIS + (source - SOURCE_VOLTAGE)];
    hal_write(WB_TRIGGER_LEVEL, (uint32_t)level_units(source, level));
    hal_write(WB_TRIGGER_HYSTERESIS, (uint32_t)level_units(source, hysteresis));
}

static void write_command_conditions(void)
{
    uint64_t first = (uint64_t)settings[SETTING_TRIGGER_LBA_FIRST], last = (uint64_t)settings[SETTING_TRIGGER_LBA_LAST];
    /* Without BY_OPCODE the mask is 0, but the kind of queue still counts. */
    uint32_t mask = settings[SETTING_TRIGGER_BY_OPCODE] ? (uint32_t)settings[SETTING_TRIGGER_OPCODE_MASK] : 0;
    uint32_t queues = settings[SETTING_TRIGGER_QUEUES] == 1   ? WB_TRIGGER_OPCODE_ADMIN
                      : settings[SETTING_TRIGGER_QUEUES] == 2 ? WB_TRIGGER_OPCODE_IO
                                                              : WB_TRIGGER_OPCODE_ADMIN | WB_TRIGGER_OPCODE_IO;
    hal_write(WB_TRIGGER_OPCODE, (uint32_t)settings[SETTING_TRIGGER_OPCODE] | mask << WB_TRIGGER_OPCODE_MASK_SHIFT | queues);
    hal_write(WB_TRIGGER_LBA_FIRST_LO, (uint32_t)first);
    hal_write(WB_TRIGGER_LBA_FIRST_HI, (uint32_t)(first >> 32));
    hal_write(WB_TRIGGER_LBA_LAST_LO, (uint32_t)last);
    hal_write(WB_TRIGGER_LBA_LAST_HI, (uint32_t)(last >> 32));
    hal_write(WB_TRIGGER_LATENCY, (uint32_t)settings[SETTING_TRIGGER_LATENCY]);
}

static uint32_t control(unsigned source)
{
    uint32_t word = source << WB_TRIGGER_CONTROL_SOURCE_SHIFT;
    word |= settings[SETTING_TRIGGER_SLOPE] ? WB_TRIGGER_CONTROL_FALLING : 0;
    word |= settings[SETTING_TRIGGER_BY_OPCODE] || settings[SETTING_TRIGGER_QUEUES] ? WB_TRIGGER_CONTROL_OPCODE : 0;
    word |= settings[SETTING_TRIGGER_BY_LBA] ? WB_TRIGGER_CONTROL_LBA : 0;
    word |= settings[SETTING_TRIGGER_BY_LATENCY] ? WB_TRIGGER_CONTROL_LATENCY : 0;
    word |= settings[SETTING_TRIGGER_BY_ERROR] ? WB_TRIGGER_CONTROL_ERROR : 0;
    return word;
}

/* Whether the level, or the other side where the trigger waits for it, is off the scale of the fine path alone: it would never fire. */
static bool out_of_reach(void)
{
    uint32_t word = hal_read(WB_TRIGGER_CONTROL), source = word & WB_TRIGGER_CONTROL_SOURCE;
    if ((source != SOURCE_CURRENT && source != SOURCE_POWER) || !meter_fine_alone())
        return false;
    int32_t level = (int32_t)hal_read(WB_TRIGGER_LEVEL), hysteresis = (int32_t)hal_read(WB_TRIGGER_HYSTERESIS);
    int32_t other = word & WB_TRIGGER_CONTROL_FALLING ? level + hysteresis : level - hysteresis;
    int32_t most = level_units(source, source == SOURCE_CURRENT ? FINE_FULL_SCALE : FINE_FULL_SCALE * RAIL / 10);
    return level > most || other > most || level < -most || other < -most;
}

enum progress trigger_arm(struct call *call)
{
    static const uint32_t actions[] = {WB_TRIGGER_ACTION_MARKER, WB_TRIGGER_ACTION_METER, WB_TRIGGER_ACTION_RUN,
                                       WB_TRIGGER_ACTION_STOP};
    unsigned source = (unsigned)settings[SETTING_TRIGGER_SOURCE], action = (unsigned)settings[SETTING_TRIGGER_ACTION];
    if (hal_read(WB_TRIGGER_STATE) & WB_TRIGGER_STATE_ARMED) {
        call_fail(call, SCPI_INIT_IGNORED);
        return DONE;
    }
    if (source == SOURCE_COMMAND && settings[SETTING_TRIGGER_LBA_FIRST] > settings[SETTING_TRIGGER_LBA_LAST]) {
        call_fail(call, SCPI_SETTINGS_CONFLICT);
        return DONE;
    }
    if (has_level(source))
        write_level(source);
    write_command_conditions();
    hal_write(WB_TRIGGER_MATCH,
              (uint32_t)settings[source == SOURCE_LINK ? SETTING_TRIGGER_LINK : SETTING_TRIGGER_STATES]);
    hal_write(WB_TRIGGER_DELAY, (uint32_t)settings[SETTING_TRIGGER_DELAY]);
    hal_write(WB_TRIGGER_ACTION, actions[action]);
    hal_write(WB_TRIGGER_CONTROL, control(source));
    if (out_of_reach()) {
        call_fail(call, SCPI_SETTINGS_CONFLICT);
        return DONE;
    }
    if (action == ACTION_METER)
        meter_await_trigger();
    hal_write(WB_TRIGGER_COMMAND, WB_TRIGGER_COMMAND_ARM);
    hal_write(WB_IRQ_ENABLE, hal_read(WB_IRQ_ENABLE) | WB_IRQ_ENABLE_TRIGGER);
    return DONE;
}

void trigger_reset(void)
{
    hal_write(WB_TRIGGER_COMMAND, WB_TRIGGER_COMMAND_DISARM);
}

static void disarm(void)
{
    trigger_reset();
    if (!busy(BUSY_GATE))
        meter_abort();
}

enum progress trigger_disarm(struct call *call)
{
    (void)call;
    disarm();
    return DONE;
}

enum progress trigger_force(struct call *call)
{
    if (hal_read(WB_TRIGGER_STATE) & WB_TRIGGER_STATE_ARMED)
        hal_write(WB_TRIGGER_COMMAND, WB_TRIGGER_COMMAND_FORCE);
    else
        call_fail(call, SCPI_TRIGGER_IGNORED);
    return DONE;
}

enum progress trigger_state(struct call *call)
{
    (void)call;
    uint32_t state = hal_read(WB_TRIGGER_STATE);
    put_text(state & WB_TRIGGER_STATE_FIRED ? "FIR" : state & WB_TRIGGER_STATE_ARMED ? "ARM" : "IDLE");
    return DONE;
}

enum progress trigger_tick(struct call *call)
{
    if (hal_read(WB_TRIGGER_STATE) & WB_TRIGGER_STATE_FIRED)
        put_unsigned(ticks_read64(WB_TRIGGER_TICK_LO));
    else
        call_fail(call, SCPI_STALE);
    return DONE;
}

static int level_setting(struct call *call)
{
    unsigned source = (unsigned)settings[SETTING_TRIGGER_SOURCE];
    if (!has_level(source)) {
        call_fail(call, SCPI_SETTINGS_CONFLICT);
        return -1;
    }
    return (int)((call->argument ? SETTING_TRIGGER_V_HYSTERESIS : SETTING_TRIGGER_VOLTAGE) + (source - SOURCE_VOLTAGE));
}

/* LEVel and HYSTeresis are in the quantity of the selected source; the argument is 1 for HYSTeresis. */
enum progress trigger_set_level(struct call *call)
{
    int k = level_setting(call);
    if (k < 0)
        return DONE;
    int64_t value = setting_take(call, (enum setting)k);
    if (!call->failed)
        settings[k] = value;
    return DONE;
}

enum progress trigger_get_level(struct call *call)
{
    int k = level_setting(call);
    if (k >= 0)
        setting_put((enum setting)k);
    return DONE;
}

/* Two numbers: opcode and mask, first and last LBA. The argument is the first setting, the second follows it. */
enum progress trigger_set_pair(struct call *call)
{
    enum setting k = call->argument;
    int64_t first = setting_take(call, k);
    int64_t second = call_has_more(call) ? setting_take(call, k + 1) : k == SETTING_TRIGGER_OPCODE ? 255 : first;
    if (call->failed)
        return DONE;
    settings[k] = first;
    settings[k + 1] = second;
    settings[k + 2] = 1; /* setting a condition enables it */
    return DONE;
}

enum progress trigger_get_pair(struct call *call)
{
    setting_put(call->argument);
    put_char(',');
    setting_put(call->argument + 1);
    return DONE;
}

void trigger_poll(void)
{
    uint32_t state = hal_read(WB_TRIGGER_STATE);
    if (state & WB_TRIGGER_STATE_ARMED && out_of_reach()) { /* the range has changed since it was armed */
        disarm();
        scpi_error_text(SCPI_SETTINGS_CONFLICT, "level beyond range");
        state = 0;
    }
    if (state & WB_TRIGGER_STATE_FIRED) /* level-sensitive: it would end every sleep from now on */
        hal_write(WB_IRQ_ENABLE, hal_read(WB_IRQ_ENABLE) & ~WB_IRQ_ENABLE_TRIGGER);
    status_condition(&status_operation, OPER_ARMED, state & WB_TRIGGER_STATE_ARMED ? OPER_ARMED : 0);
}
