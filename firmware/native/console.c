#include "console.h"

#include "capture.h"
#include "firmware.h"
#include "hal.h"
#include "meter.h"
#include "model.h"
#include "power.h"
#include "scpi/engine.h"
#include "scpi/output.h"

void console_start(uint32_t seed)
{
    model_power_on(seed);
    firmware_init();
}

/* One step, or sleep. When the core restarts, the firmware starts anew. */
static bool step(void)
{
    model_limit(INT64_MAX); /* a step that blocks on the EEPROM may sleep as long as it needs */
    bool busy = firmware_step();
    uint32_t cause = model_take_restart();
    if (cause) {
        model_restart(cause);
        firmware_init();
        return true;
    }
    return busy;
}

int console_settle(int64_t ticks)
{
    int64_t end = model_now() + ticks;
    for (;;) {
        if (step())
            continue;
        if (!model_unread() && !scpi_waiting() && scpi_ready())
            return 0;
        if (model_now() >= end)
            return 1;
        model_limit(end);
        hal_wait();
    }
}

void console_advance(int64_t ticks)
{
    int64_t end = model_now() + ticks;
    while (model_now() < end)
        if (!step()) {
            model_limit(end);
            hal_wait();
        }
    while (step())
        ;
}
