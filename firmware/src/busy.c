#include "busy.h"

#include "hal.h"

static unsigned ours; /* activities of the firmware that are under way */

void busy_with(enum activity activity, bool at_work)
{
    ours = at_work ? ours | activity : ours & ~activity;
}

bool busy(unsigned activities)
{
    unsigned now = ours & activities;
    if (now & (BUSY_GATE | BUSY_SEQUENCE))
        return true;
    if ((now & BUSY_FACTS || activities & BUSY_CAPTURE) && hal_read(WB_CONTROL) & WB_CONTROL_RUN)
        return true;
    if (activities & BUSY_TRIGGER && hal_read(WB_TRIGGER_STATE) & WB_TRIGGER_STATE_ARMED)
        return true;
    return activities & BUSY_LOAD && hal_read(WB_LOAD_PULSES);
}
