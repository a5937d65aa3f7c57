#include "diagnose.h"

#include <string.h>

#include "busy.h"
#include "hal.h"
#include "handlers.h"
#include "i2c.h"
#include "meter.h"
#include "scpi/error.h"
#include "scpi/output.h"
#include "settings.h"
#include "store.h"
#include "system.h"
#include "ticks.h"
#include "trigger.h"

#define PATTERN_COMMANDS 8
#define PATTERN_WITHIN (100 * TICKS_MS)
#define STEP_LEVEL 2000000 /* 1 A in 500 nA: between the pattern's 0.1 A and 2 A */
#define SKEW_LIMIT 50      /* ns */

/* *TST? answers the sum of the parts that failed; listed in docs/scpi.md too. */
enum {
    FAILED_REGISTERS = 1,
    FAILED_CLOCK = 2,
    FAILED_EEPROM = 4,
    FAILED_TEMPERATURE = 8,
    FAILED_PATTERN = 16, /* it did not end */
    FAILED_RECORDS = 32, /* not every command of the pattern became a record */
    FAILED_RAIL = 64,    /* the rail path did not see the step */
    FAILED_SKEW = 128,
};

static bool skew_known;
static int64_t skew;

static unsigned test_parts(void)
{
    unsigned failed = 0;
    uint8_t byte;
    int sixteenths;
    static const uint32_t patterns[] = {0x00000000, 0xFFFFFFFF, 0xA5A5A5A5, 0x12345678};
    uint32_t kept = hal_read(WB_TRIGGER_MATCH);
    if (hal_read(WB_ID) != 0x4C454257) /* "WBEL" */
        failed |= FAILED_REGISTERS;
    for (unsigned k = 0; k < 4; k++) {
        hal_write(WB_TRIGGER_MATCH, patterns[k]);
        if (hal_read(WB_TRIGGER_MATCH) != patterns[k])
            failed |= FAILED_REGISTERS;
    }
    hal_write(WB_TRIGGER_MATCH, kept);
    int64_t before = ticks_now();
    ticks_sleep(0, before + TICKS_MS);
    if (ticks_now() < before + TICKS_MS || ticks_now() > before + 2 * TICKS_MS)
        failed |= FAILED_CLOCK;
    if (!eeprom_read(0, &byte, 1))
        failed |= FAILED_EEPROM;
    if (!temperature_read(&sixteenths))
        failed |= FAILED_TEMPERATURE;
    return failed;
}

static void start_pattern(void)
{
    uint32_t clock_ticks = hal_read(WB_BUILD) & WB_BUILD_CLOCK_TICKS;
    meter_abort();
    /* Until end_pattern(): the currents to come are the pattern's, not the drive's. */
    hal_write(WB_POWER_CONTROL, hal_read(WB_POWER_CONTROL) & ~WB_POWER_CONTROL_PROTECT);
    hal_write(WB_TEST_CONTROL, WB_TEST_CONTROL_PATTERN | PATTERN_COMMANDS << WB_TEST_CONTROL_COMMANDS_SHIFT);
    /* Whatever the user has set: sample fast enough for the pattern, and merge both paths, as it saturates the fine one. */
    hal_write(WB_ADC_PERIOD, (uint32_t)TICKS_US / (clock_ticks ? clock_ticks : 1));
    hal_write(WB_RANGE, 0);
    hal_write(WB_COMMAND, WB_COMMAND_RAIL_APPLY);
    hal_write(WB_METER_CONTROL, WB_METER_CONTROL_RUN);
    hal_write(WB_TRIGGER_LEVEL, STEP_LEVEL);
    hal_write(WB_TRIGGER_HYSTERESIS, 0);
    hal_write(WB_TRIGGER_ACTION, 0);
    hal_write(WB_TRIGGER_CONTROL, 3u << WB_TRIGGER_CONTROL_SOURCE_SHIFT); /* current, upwards */
    hal_write(WB_TRIGGER_COMMAND, WB_TRIGGER_COMMAND_ARM);
}

static void end_pattern(void)
{
    hal_write(WB_TEST_CONTROL, 0);
    trigger_reset();
    meter_reset();
    setting_apply(SETTING_INTERVAL); /* and protection */
    setting_apply(SETTING_RANGE);
    hal_write(WB_COMMAND, WB_COMMAND_TRACKER_RESET); /* forgets the pattern's queues */
}

void diagnose_abort(void)
{
    if (hal_read(WB_TEST_CONTROL) & WB_TEST_CONTROL_PATTERN)
        end_pattern();
}

static unsigned judge_pattern(uint32_t commands_before)
{
    unsigned failed = 0;
    if (hal_read(WB_TEST_STATE) & WB_TEST_STATE_BUSY)
        return FAILED_PATTERN;
    if (hal_read(WB_COMMANDS) - commands_before < PATTERN_COMMANDS)
        failed |= FAILED_RECORDS;
    if (!(hal_read(WB_TRIGGER_STATE) & WB_TRIGGER_STATE_FIRED))
        return failed | FAILED_RAIL;
    /* When the rail path saw the step, against when the pattern made it. */
    skew = (int64_t)(ticks_read64(WB_TRIGGER_TICK_LO) - ticks_read64(WB_TEST_STEP_TICK_LO));
    skew_known = true;
    return failed | (skew > SKEW_LIMIT || skew < -SKEW_LIMIT ? FAILED_SKEW : 0);
}

enum progress diagnose_test(struct call *call)
{
    static unsigned failed;
    static uint32_t commands_before;
    if (call->step == 0) {
        if (hal_read(WB_STATE) & WB_STATE_RUNNING || busy(BUSY_TRIGGER)) {
            call_fail(call, SCPI_SETTINGS_CONFLICT);
            return DONE;
        }
        failed = test_parts();
        commands_before = hal_read(WB_COMMANDS);
        start_pattern();
        call->memory = ticks_now() + PATTERN_WITHIN;
        call->step = 1;
    }
    if (call->step == 1) { /* a conversion of the previous period may still be running */
        if (hal_read(WB_STATE) & WB_STATE_RAIL_PENDING && ticks_now() < call->memory) {
            ticks_deadline(ticks_now() + 50 * TICKS_US);
            return PENDING;
        }
        hal_write(WB_TEST_COMMAND, WB_TEST_COMMAND_GO);
        call->step = 2;
    }
    if (hal_read(WB_TEST_STATE) & WB_TEST_STATE_BUSY && ticks_now() < call->memory) {
        ticks_deadline(ticks_now() + 50 * TICKS_US);
        return PENDING;
    }
    failed |= judge_pattern(commands_before);
    end_pattern();
    if (failed)
        scpi_error_text(SCPI_SELF_TEST_FAILED, "*TST? says what");
    put_unsigned(failed);
    return DONE;
}

enum progress diagnose_skew(struct call *call)
{
    if (skew_known)
        put_real(skew, -9);
    else
        call_fail(call, SCPI_STALE);
    return DONE;
}

/* The console is the firmware's own link, and the watchdog must keep running. */
static bool forbidden(uint64_t address, bool write)
{
    if (address == WB_CONSOLE_IN)
        return true;
    return write && address >= WB_CONSOLE_IN && address <= WB_RESTART;
}

enum progress diagnose_set_register(struct call *call)
{
    uint64_t address = call_unsigned(call, 0, 0xFF), value = call_unsigned(call, 0, UINT32_MAX);
    if (!call->failed && forbidden(address, true))
        call_fail(call, SCPI_ILLEGAL_VALUE);
    if (!call->failed)
        hal_write((unsigned)address, (uint32_t)value);
    return DONE;
}

enum progress diagnose_get_register(struct call *call)
{
    uint64_t address = call_unsigned(call, 0, 0xFF);
    if (!call->failed && forbidden(address, false))
        call_fail(call, SCPI_ILLEGAL_VALUE);
    if (!call->failed)
        put_hex(hal_read((unsigned)address));
    return DONE;
}

static void copy(char to[20], struct call *call)
{
    struct slice text = call_string(call);
    if (!call->failed && (!text.length || text.length > 19 || memchr(text.text, ',', text.length) || memchr(text.text, '"', text.length)))
        call_fail(call, SCPI_ILLEGAL_VALUE);
    if (!call->failed)
        memcpy(to, text.text, text.length);
}

enum progress diagnose_set_identity(struct call *call)
{
    struct identity identity = {0};
    copy(identity.model, call);
    copy(identity.serial, call);
    if (call->failed)
        return DONE;
    if (store_save(RECORD_IDENTITY, 0, &identity, sizeof identity))
        system_load_identity();
    else
        call_fail(call, SCPI_STORAGE_FAULT);
    return DONE;
}
