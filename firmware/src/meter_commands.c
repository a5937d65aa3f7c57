/* MEASure, CONFigure, READ, FETCh, SENSe. */
#include "meter_commands.h"

#include "capture.h"
#include "hal.h"
#include "handlers.h"
#include "meter.h"
#include "scpi/error.h"
#include "scpi/output.h"
#include "scpi/status.h"
#include "settings.h"

/* A command's argument holds the function and which of its figures is asked for. */
static unsigned function_of(const struct call *call)
{
    unsigned function = call->argument & 15;
    return function == FUNCTION_CONFIGURED ? (unsigned)settings[SETTING_FUNCTION] : function;
}

static void put_figure(unsigned function, unsigned figure)
{
    const struct reading *r = meter_reading();
    bool v = meter_overload_voltage(r), i = meter_overload_current(r);
    bool overload = function == FUNCTION_VOLTAGE ? v : function == FUNCTION_CURRENT || function == FUNCTION_CHARGE ? i : v || i;
    static const int8_t exponent[3] = {-9, -12, -12};
    if (overload && figure != FIGURE_LEAST)
        put_overload();
    else if (function == FUNCTION_ENERGY) /* pW x ns = 1e-21 J */
        put_real(number_muldiv(r->mean[2], (uint64_t)r->ticks, 1000000000), -12);
    else if (function == FUNCTION_CHARGE)
        put_real(number_muldiv(r->mean[1], (uint64_t)r->ticks, 1000000000), -12);
    else
        put_real((figure == FIGURE_LEAST ? r->least : figure == FIGURE_MOST ? r->most : r->mean)[function], exponent[function]);
}

/* Waits for the gate under way, then answers the figure or queues the error. */
static enum progress answer(struct call *call)
{
    int finished = meter_finished();
    if (finished == 0)
        return PENDING;
    if (finished < 0)
        call_fail(call, finished);
    else
        put_figure(function_of(call), call->argument >> 4);
    return DONE;
}

/* [<range>[,<resolution>]]: only current has more than one range. The resolution follows from the aperture, so it is parsed and
 * ignored. */
static void configure(struct call *call)
{
    unsigned function = function_of(call);
    int64_t range = -1;
    if (call_has_more(call)) {
        static const int64_t largest[] = {20000000, 4000000, 80000000, 0, 0};
        enum quantity quantity = function == FUNCTION_VOLTAGE ? VOLT : function == FUNCTION_CURRENT ? AMPERE : WATT;
        range = call_scaled(call, quantity, 6, 0, largest[function], largest[function]);
        if (call->unit->parameters[0].kind == PARAMETER_WORD && scpi_is(call->unit->parameters[0].text, "DEFault", 7))
            range = -1;
    }
    if (call_has_more(call))
        call_scaled(call, function == FUNCTION_VOLTAGE ? VOLT : function == FUNCTION_CURRENT ? AMPERE : WATT, 12, 0, INT64_MAX, 0);
    if (call->failed)
        return;
    settings[SETTING_FUNCTION] = function;
    if (function == FUNCTION_CURRENT) {
        settings[SETTING_RANGE_AUTO] = range < 0;
        if (range >= 0)
            settings[SETTING_RANGE] = range;
        meter_apply_range();
    }
}

enum progress meter_measure(struct call *call)
{
    if (call->step == 0) {
        call->step = 1;
        configure(call);
        if (call->failed)
            return DONE;
        meter_start_configured();
        return PENDING;
    }
    return answer(call);
}

enum progress meter_read(struct call *call)
{
    if (call->step == 0) {
        call->step = 1;
        meter_start_configured();
        return PENDING;
    }
    return answer(call);
}

enum progress meter_fetch(struct call *call)
{
    return answer(call);
}

enum progress meter_begin(struct call *call)
{
    (void)call;
    meter_start_configured();
    return DONE;
}

enum progress meter_configure(struct call *call)
{
    configure(call);
    return DONE;
}

enum progress meter_configuration(struct call *call)
{
    (void)call;
    unsigned function = (unsigned)settings[SETTING_FUNCTION];
    bool fine = !settings[SETTING_RANGE_AUTO] && settings[SETTING_RANGE] <= FINE_FULL_SCALE;
    static const int8_t unit_exponent[] = {-5, -7, -7, -12, -12};
    static const int8_t unit[] = {2, 5, 7, 1, 1};
    static const int64_t range_uv[] = {5000000, 4000000, 20000000, 0, 0};
    put_char('"');
    put_choice(FUNCTIONS, function);
    put_char(' ');
    put_real(function == FUNCTION_CURRENT && fine ? FINE_FULL_SCALE : range_uv[function], -6);
    put_char(',');
    put_real(unit[function], unit_exponent[function]);
    put_char('"');
    return DONE;
}

enum progress meter_set_function(struct call *call)
{
    struct slice name = call_string(call);
    static const char *const names[] = {"VOLTage", "CURRent", "POWer", "ENERgy", "CHARge"};
    static const uint8_t lengths[] = {7, 7, 5, 6, 6};
    if (name.length > 3 && name.text[name.length - 3] == ':' && scpi_is((struct slice){name.text + name.length - 2, 2}, "DC", 2))
        name.length -= 3;
    for (unsigned k = 0; k < 5 && !call->failed; k++) {
        if (scpi_is(name, names[k], lengths[k])) {
            settings[SETTING_FUNCTION] = k;
            return DONE;
        }
    }
    call_fail(call, SCPI_ILLEGAL_VALUE);
    return DONE;
}

enum progress meter_get_function(struct call *call)
{
    (void)call;
    put_char('"');
    put_choice(FUNCTIONS, (unsigned)settings[SETTING_FUNCTION]);
    put_char('"');
    return DONE;
}

enum progress meter_set_range(struct call *call)
{
    int64_t range = setting_take(call, SETTING_RANGE);
    if (!call->failed && range <= FINE_FULL_SCALE && !(hal_read(WB_BUILD) & WB_BUILD_FINE))
        call_fail(call, SCPI_HARDWARE_MISSING);
    if (call->failed)
        return DONE;
    settings[SETTING_RANGE] = range;
    settings[SETTING_RANGE_AUTO] = 0;
    meter_apply_range();
    return DONE;
}

enum progress meter_get_range(struct call *call)
{
    if (call_has_more(call))
        return setting_get(call);
    put_real(!settings[SETTING_RANGE_AUTO] && settings[SETTING_RANGE] <= FINE_FULL_SCALE ? FINE_FULL_SCALE : 4000000, -6);
    return DONE;
}

enum progress meter_set_totals(struct call *call)
{
    bool on = call_boolean(call);
    if (!call->failed)
        meter_totals_switch(on);
    return DONE;
}

enum progress meter_clear_totals(struct call *call)
{
    (void)call;
    meter_totals_clear();
    return DONE;
}

enum progress meter_get_totals(struct call *call)
{
    const struct totals *t = meter_totals();
    switch (call->argument) {
    case TOTALS_STATE:
        put_integer(t->on);
        break;
    case TOTALS_ENERGY:
        put_real(t->energy, -12);
        break;
    case TOTALS_CHARGE:
        put_real(t->charge, -9);
        break;
    case TOTALS_TIME:
        put_real(t->ticks, -9);
        break;
    default:
        put_integer(t->clipped);
    }
    return DONE;
}

enum progress meter_quality(struct call *call)
{
    int finished = meter_finished();
    if (finished == 0)
        return PENDING;
    if (finished < 0) {
        call_fail(call, finished);
        return DONE;
    }
    const struct reading *r = meter_reading();
    put_integer(r->conversions);
    put_char(',');
    put_real(r->ticks, -9);
    put_char(',');
    put_integer(r->clipped);
    put_char(',');
    put_unsigned(r->state >> 1); /* without BUSY */
    return DONE;
}
