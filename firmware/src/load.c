#include "load.h"

#include "busy.h"
#include "hal.h"
#include "handlers.h"
#include "scpi/error.h"
#include "scpi/output.h"

void load_off(void)
{
    hal_write(WB_LOAD_PULSES, 0);
}

/* The load is supplied from the drive's rail, and its edges are useful only in a capture. Never load a drive at work: PERST# must be
 * low. Nor may anything else be measuring or triggering. */
static bool may_pulse(void)
{
    uint32_t supply = WB_POWER_STATE_ON | WB_POWER_STATE_GOOD;
    return (hal_read(WB_POWER_STATE) & (supply | WB_POWER_STATE_PERST_N)) == supply && busy(BUSY_CAPTURE) &&
           !busy(BUSY_SEQUENCE | BUSY_GATE | BUSY_TRIGGER | BUSY_LOAD);
}

enum progress load_pulse(struct call *call)
{
    bool fine = call_choice(call, "COARse|FINE");
    uint32_t pulses = (uint32_t)call_unsigned(call, 1, 2047);
    if (call->failed)
        return DONE;
    if (fine && !(hal_read(WB_BUILD) & WB_BUILD_FINE)) {
        call_fail(call, SCPI_HARDWARE_MISSING);
    } else if (!may_pulse()) {
        call_fail(call, SCPI_SETTINGS_CONFLICT);
    } else {
        hal_write(WB_LOAD_CONTROL, fine ? WB_LOAD_CONTROL_FINE : WB_LOAD_CONTROL_COARSE);
        hal_write(WB_LOAD_PULSES, pulses);
    }
    return DONE;
}

enum progress load_left(struct call *call)
{
    (void)call;
    put_unsigned(hal_read(WB_LOAD_PULSES));
    return DONE;
}
