#include "power.h"

#include "busy.h"
#include "capture.h"
#include "hal.h"
#include "handlers.h"
#include "meter.h"
#include "scpi/error.h"
#include "scpi/output.h"
#include "scpi/status.h"
#include "settings.h"
#include "ticks.h"

#define GOOD_WITHIN TICKS_S
#define OFF_AFTER_PERST (1 * TICKS_MS) /* PERST# goes low this long before power is cut, so that the drive sees an orderly end */

static enum state {
    REST,
    WAIT_GOOD,  /* switched on, rail rising */
    HOLD_PERST, /* rail good, PERST# stays low for PERST_DELAY */
    WAIT_OFF,   /* PERST# low, power about to be cut */
    STAY_OFF,   /* off part of a power cycle */
} state;
static int64_t until, off_time;
static bool cycling, trip_told;

static void control(uint32_t clear, uint32_t set)
{
    hal_write(WB_POWER_CONTROL, (hal_read(WB_POWER_CONTROL) & ~clear) | set);
}

/* A setting in microamperes, converted to units of 500 nA. */
static uint32_t level(enum setting k)
{
    return (uint32_t)(settings[k] * 2);
}

void power_apply(void)
{
    int64_t period = capture_period_ticks();
    int64_t count = period ? (settings[SETTING_OCP_DELAY] + period / 2) / period : 1;
    hal_write(WB_OCP_LEVEL, level(SETTING_OCP_LEVEL));
    hal_write(WB_OCP_COUNT, (uint32_t)(count < 1 ? 1 : count > 0xFFFFF ? 0xFFFFF : count));
    hal_write(WB_INRUSH_LEVEL, level(SETTING_INRUSH_LEVEL));
    hal_write(WB_INRUSH_TICKS, (uint32_t)settings[SETTING_INRUSH_TIME]);
    control(WB_POWER_CONTROL_PROTECT, settings[SETTING_PROTECT] ? WB_POWER_CONTROL_PROTECT : 0);
    meter_convert(); /* protection works on conversions */
}

static void go(enum state to)
{
    state = to;
    busy_with(BUSY_SEQUENCE, to != REST);
}

void power_init(void)
{
    go(REST);
    trip_told = cycling = false;
    hal_write(WB_IRQ_ENABLE, hal_read(WB_IRQ_ENABLE) | WB_IRQ_ENABLE_POWER);
}

static void switch_on(void)
{
    control(0, WB_POWER_CONTROL_PERST);
    control(0, WB_POWER_CONTROL_DRIVE_ON);
    go(WAIT_GOOD);
    until = ticks_now() + GOOD_WITHIN;
}

static void switch_off(bool surprise)
{
    if (surprise) {
        control(WB_POWER_CONTROL_DRIVE_ON, 0);
        go(REST);
    } else {
        control(0, WB_POWER_CONTROL_PERST);
        go(WAIT_OFF);
        until = ticks_now() + OFF_AFTER_PERST;
    }
}

static void tripped(void)
{
    /* The hardware has opened the switch. Drop our request as well, or clearing the trip would close it again. */
    control(WB_POWER_CONTROL_DRIVE_ON, WB_POWER_CONTROL_PERST);
    go(REST);
    cycling = false;
    trip_told = true;
    hal_write(WB_IRQ_ENABLE, hal_read(WB_IRQ_ENABLE) & ~WB_IRQ_ENABLE_POWER);
    scpi_error_text(SCPI_HARDWARE_ERROR, hal_read(WB_POWER_TRIP) & WB_POWER_TRIP_INRUSH ? "inrush, output off" : "over-current, output off");
}

void power_poll(void)
{
    uint32_t now = hal_read(WB_POWER_STATE), trip = hal_read(WB_POWER_TRIP);
    if (trip && !trip_told)
        tripped();
    bool late = state != REST && ticks_now() >= until;
    if (state == WAIT_GOOD && now & WB_POWER_STATE_GOOD) {
        go(HOLD_PERST);
        until = ticks_now() + settings[SETTING_PERST_DELAY];
    } else if (state == WAIT_GOOD && late) {
        control(WB_POWER_CONTROL_DRIVE_ON, 0);
        go(REST);
        scpi_error_text(SCPI_HARDWARE_ERROR, "rail not good within 1 s, output off");
    } else if (state == HOLD_PERST && late) {
        control(WB_POWER_CONTROL_PERST, 0);
        go(REST);
    } else if (state == WAIT_OFF && late) {
        control(WB_POWER_CONTROL_DRIVE_ON, 0);
        go(cycling ? STAY_OFF : REST);
        until = ticks_now() + off_time;
    } else if (state == STAY_OFF && late) {
        cycling = false;
        switch_on();
    }
    if (state == WAIT_GOOD) /* GOOD raises no interrupt */
        ticks_deadline(ticks_now() + TICKS_MS);
    else if (state != REST)
        ticks_deadline(until);
    status_condition(&status_operation, OPER_SEQUENCING | OPER_POWERED,
                     (uint16_t)((state != REST ? OPER_SEQUENCING : 0) | (now & WB_POWER_STATE_ON ? OPER_POWERED : 0)));
    if (trip)
        status_condition(&status_questionable, QUES_CURRENT, QUES_CURRENT);
}

/* A sequence must not begin while another is under way, nor switch on before a trip has been cleared. */
static bool may_switch(struct call *call, bool on)
{
    if (!call->failed && (state != REST || (on && hal_read(WB_POWER_TRIP))))
        call_fail(call, SCPI_SETTINGS_CONFLICT);
    return !call->failed;
}

static bool is_on(void)
{
    return (hal_read(WB_POWER_STATE) & WB_POWER_STATE_ON) != 0;
}

enum progress power_output(struct call *call)
{
    bool on = call_boolean(call);
    if (!may_switch(call, on) || on == is_on())
        return DONE;
    if (on)
        switch_on();
    else
        switch_off(false);
    return DONE;
}

enum progress power_output_query(struct call *call)
{
    (void)call;
    put_integer(is_on());
    return DONE;
}

enum progress power_cycle(struct call *call)
{
    int64_t pause = call_has_more(call) ? call_scaled(call, SECOND, 9, TICKS_MS, 100 * TICKS_S, TICKS_S) : TICKS_S;
    if (!may_switch(call, true))
        return DONE;
    off_time = pause;
    cycling = true;
    switch_off(false);
    return DONE;
}

enum progress power_hotplug(struct call *call)
{
    bool in = call_choice(call, "OUT|IN");
    if (!may_switch(call, in) || in == is_on())
        return DONE;
    if (in)
        switch_on();
    else
        switch_off(true);
    return DONE;
}

static void line(struct call *call, uint32_t bit)
{
    bool low = call_boolean(call);
    if (!may_switch(call, false))
        return;
    control(low ? 0 : bit, low ? bit : 0);
}

enum progress power_perst(struct call *call)
{
    line(call, WB_POWER_CONTROL_PERST);
    return DONE;
}

enum progress power_clkreq(struct call *call)
{
    line(call, WB_POWER_CONTROL_CLKREQ);
    return DONE;
}

/* 1: the signal is asserted (low), whoever drives it. */
enum progress power_perst_query(struct call *call)
{
    (void)call;
    put_integer(!(hal_read(WB_POWER_STATE) & WB_POWER_STATE_PERST_N));
    return DONE;
}

enum progress power_clkreq_query(struct call *call)
{
    (void)call;
    put_integer(!(hal_read(WB_POWER_STATE) & WB_POWER_STATE_CLKREQ_N));
    return DONE;
}

enum progress power_good_query(struct call *call)
{
    (void)call;
    put_integer((hal_read(WB_POWER_STATE) & WB_POWER_STATE_GOOD) != 0);
    return DONE;
}

enum progress power_link_query(struct call *call)
{
    (void)call;
    put_integer((hal_read(WB_POWER_STATE) & WB_POWER_STATE_LINK) >> WB_POWER_STATE_LINK_SHIFT);
    return DONE;
}

enum progress power_tripped(struct call *call)
{
    (void)call;
    put_integer(hal_read(WB_POWER_TRIP) != 0);
    return DONE;
}

enum progress power_trip_details(struct call *call)
{
    uint32_t trip = hal_read(WB_POWER_TRIP);
    if (!trip) {
        call_fail(call, SCPI_STALE);
        return DONE;
    }
    put_text(trip & WB_POWER_TRIP_INRUSH ? "INR," : "OVER,");
    put_unsigned(ticks_read64(WB_TRIP_TICK_LO));
    put_char(',');
    int32_t current = (int32_t)hal_read(WB_TRIP_CURRENT);
    if (current == WB_TRIP_BEYOND)
        put_overload();
    else
        put_real((int64_t)current * 5, -7);
    return DONE;
}

enum progress power_trip_clear(struct call *call)
{
    (void)call;
    uint32_t trip = hal_read(WB_POWER_TRIP);
    if (trip && !trip_told)
        tripped(); /* it has tripped since power_poll(): without this, clearing would close the switch again */
    hal_write(WB_POWER_TRIP, trip);
    trip_told = false;
    status_condition(&status_questionable, QUES_CURRENT, 0);
    hal_write(WB_IRQ_ENABLE, hal_read(WB_IRQ_ENABLE) | WB_IRQ_ENABLE_POWER);
    return DONE;
}
