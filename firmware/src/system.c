#include "system.h"

#include <string.h>

#include "busy.h"
#include "capture.h"
#include "hal.h"
#include "handlers.h"
#include "i2c.h"
#include "load.h"
#include "meter.h"
#include "scpi/error.h"
#include "scpi/output.h"
#include "scpi/status.h"
#include "settings.h"
#include "store.h"
#include "trigger.h"

static struct identity identity;
static bool complete_asked;

void system_load_identity(void)
{
    enum stored stored = store_load(RECORD_IDENTITY, 0, &identity, sizeof identity);
    if (stored < STORE_DOUBTFUL)
        identity = (struct identity){"rig", "0"};
    if (stored == STORE_LOST || stored == STORE_DOUBTFUL)
        scpi_error_text(SCPI_MEMORY_ERROR, stored == STORE_LOST ? "identity lost" : "identity: a copy is lost");
    identity.model[sizeof identity.model - 1] = identity.serial[sizeof identity.serial - 1] = 0;
}

static enum stored recall(unsigned slot)
{
    int64_t values[SETTINGS];
    enum stored stored = store_load(RECORD_STATE, slot, values, sizeof values);
    if (stored >= STORE_DOUBTFUL)
        settings_load(values);
    if (stored == STORE_DOUBTFUL)
        scpi_error_text(SCPI_MEMORY_ERROR, "settings: a copy is lost");
    return stored;
}

void system_init(void)
{
    uint32_t cause = hal_read(WB_RESET_CAUSE);
    complete_asked = false;
    system_load_identity();
    settings[SETTING_LANGUAGE] = 0;
    enum stored stored = recall(0);
    if (stored < STORE_DOUBTFUL)
        settings_reset();
    if (stored == STORE_LOST)
        scpi_error_text(SCPI_MEMORY_LOST, "defaults are in use");
    hal_write(WB_RESET_CAUSE, cause);
    if (cause & WB_RESET_CAUSE_WATCHDOG)
        scpi_error_text(SCPI_SYSTEM_ERROR, "restarted by the watchdog");
    else if (cause & WB_RESET_CAUSE_RESTART && hal_read(WB_CRASH_CAUSE))
        scpi_error_text(SCPI_SYSTEM_ERROR, "restarted after a crash");
}

void system_poll(void)
{
    if (complete_asked && !busy(BUSY_OPERATIONS)) {
        complete_asked = false;
        status_event(ESR_COMPLETE);
    }
}

enum progress system_idn(struct call *call)
{
    (void)call;
    put_text(settings[SETTING_LANGUAGE] ? "Agilent Technologies,34405A," : "Wattbell,");
    if (!settings[SETTING_LANGUAGE]) {
        put_text(identity.model);
        put_char(',');
    }
    put_text(identity.serial);
    put_char(',');
    uint32_t version = hal_read(WB_VERSION);
    put_unsigned(version >> 16);
    put_char('.');
    put_unsigned(version >> 8 & 0xFF);
    put_char('.');
    put_unsigned(version & 0xFF);
    return DONE;
}

enum progress system_rst(struct call *call)
{
    (void)call;
    complete_asked = false;
    capture_reset();
    load_off();
    trigger_reset();
    meter_reset();
    settings_reset();
    return DONE;
}

/* ABORt ends only the measurement, as in a 34405A, and leaves the capture running: sigrok sends it when it stops. */
enum progress system_abort(struct call *call)
{
    (void)call;
    if (settings[SETTING_LANGUAGE] == 0)
        capture_stop();
    load_off();
    meter_abort();
    return DONE;
}

enum progress system_cls(struct call *call)
{
    (void)call;
    complete_asked = false;
    status_clear();
    scpi_error_clear();
    return DONE;
}

/* The argument: 0 *ESE, 1 *SRE. */
enum progress system_set_mask(struct call *call)
{
    uint8_t mask = (uint8_t)call_unsigned(call, 0, 255);
    if (!call->failed)
        *(call->argument ? &status_sre : &status_ese) = call->argument ? mask & (uint8_t)~STB_SUMMARY : mask;
    return DONE;
}

enum progress system_get_mask(struct call *call)
{
    put_unsigned(call->argument ? status_sre : status_ese);
    return DONE;
}

enum progress system_esr(struct call *call)
{
    (void)call;
    put_unsigned(status_take_esr());
    return DONE;
}

enum progress system_stb(struct call *call)
{
    (void)call;
    put_unsigned(status_byte(output_message(), scpi_error_count() != 0));
    return DONE;
}

enum progress system_opc(struct call *call)
{
    (void)call;
    complete_asked = true;
    return DONE;
}

enum progress system_opc_query(struct call *call)
{
    (void)call;
    if (busy(BUSY_OPERATIONS))
        return PENDING;
    put_char('1');
    return DONE;
}

enum progress system_wai(struct call *call)
{
    (void)call;
    return busy(BUSY_OPERATIONS) ? PENDING : DONE;
}

enum progress system_opt(struct call *call)
{
    (void)call;
    bool fine = hal_read(WB_BUILD) & WB_BUILD_FINE, lanes = hal_read(WB_BUILD) & WB_BUILD_LANES;
    put_text(fine && lanes ? "FINE,LANES" : fine ? "FINE" : lanes ? "LANES" : "0");
    return DONE;
}

enum progress system_sav(struct call *call)
{
    unsigned slot = (unsigned)call_unsigned(call, 0, 4);
    if (!call->failed && !store_save(RECORD_STATE, slot, settings, sizeof settings))
        call_fail(call, SCPI_STORAGE_FAULT);
    return DONE;
}

enum progress system_rcl(struct call *call)
{
    unsigned slot = (unsigned)call_unsigned(call, 0, 4);
    if (!call->failed && recall(slot) < STORE_DOUBTFUL)
        call_fail(call, SCPI_MEMORY_LOST);
    return DONE;
}

enum progress system_error(struct call *call)
{
    (void)call;
    scpi_error_next();
    return DONE;
}

/* One entry per call: the whole answer may not fit the output buffer. */
enum progress system_error_all(struct call *call)
{
    if (call->step++)
        put_char(',');
    scpi_error_next();
    return scpi_error_count() ? PENDING : DONE;
}

enum progress system_error_count(struct call *call)
{
    (void)call;
    put_unsigned(scpi_error_count());
    return DONE;
}

enum progress system_version(struct call *call)
{
    (void)call;
    put_text("1999.0");
    return DONE;
}

enum progress system_temperature(struct call *call)
{
    int sixteenths;
    bool there = temperature_read(&sixteenths);
    status_condition(&status_questionable, QUES_TEMPERATURE, there ? 0 : QUES_TEMPERATURE);
    if (there)
        put_real((int64_t)sixteenths * 625, -4);
    else
        call_fail(call, SCPI_HARDWARE_ERROR);
    return DONE;
}

enum progress system_restart(struct call *call)
{
    (void)call;
    hal_write(WB_CRASH_CAUSE, 0);
    hal_write(WB_RESTART, WB_RESTART_KEY);
    return DONE;
}

enum progress system_crash(struct call *call)
{
    (void)call;
    put_unsigned(hal_read(WB_CRASH_CAUSE));
    put_char(',');
    put_hex(hal_read(WB_CRASH_PC));
    return DONE;
}

/* All command headers, one per line, as a definite length block. */
enum progress system_help(struct call *call)
{
    unsigned end = call->step + 4u; /* within OUTPUT_NEEDED */
    if (call->step == 0) {
        char digits[7];
        size_t size = 0, n = 0;
        for (unsigned k = 0; k < scpi_command_count; k++)
            size += strlen(scpi_commands[k].pattern) + 1;
        for (; size; size /= 10)
            digits[n++] = (char)('0' + size % 10);
        put_char('#');
        put_char((char)('0' + n));
        while (n)
            put_char(digits[--n]);
    }
    for (; call->step < end && call->step < scpi_command_count; call->step++) {
        put_text(scpi_commands[call->step].pattern);
        put_char('\n');
    }
    return call->step < scpi_command_count ? PENDING : DONE;
}

enum progress system_set_language(struct call *call)
{
    struct slice name = call_string(call);
    if (call->failed)
        return DONE;
    if (scpi_is(name, "WATTBELL", 8))
        settings[SETTING_LANGUAGE] = 0;
    else if (scpi_is(name, "34405A", 6))
        settings[SETTING_LANGUAGE] = 1;
    else
        call_fail(call, SCPI_ILLEGAL_VALUE);
    return DONE;
}

enum progress system_get_language(struct call *call)
{
    (void)call;
    put_char('"');
    setting_put(SETTING_LANGUAGE);
    put_char('"');
    return DONE;
}

enum progress status_preset_command(struct call *call)
{
    (void)call;
    status_preset();
    return DONE;
}

/* The argument: group (0 OPERation, 1 QUEStionable) << 4 | register (0 event, 1 condition, 2 enable, 3 PTRansition, 4 NTRansition). */
static struct status_group *group_of(const struct call *call)
{
    return call->argument >> 4 ? &status_questionable : &status_operation;
}

enum progress status_get(struct call *call)
{
    struct status_group *group = group_of(call);
    uint16_t *registers[] = {&group->event, &group->condition, &group->enable, &group->positive, &group->negative};
    put_unsigned(*registers[call->argument & 15]);
    if ((call->argument & 15) == 0)
        group->event = 0;
    return DONE;
}

enum progress status_set(struct call *call)
{
    struct status_group *group = group_of(call);
    uint16_t *registers[] = {&group->event, &group->condition, &group->enable, &group->positive, &group->negative};
    uint16_t value = (uint16_t)call_unsigned(call, 0, 65535);
    if (!call->failed)
        *registers[call->argument & 15] = value & 0x7FFF; /* bit 15 is never used */
    return DONE;
}
