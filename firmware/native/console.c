#include "console.h"

#include <setjmp.h>

#include "capture.h"
#include "firmware.h"
#include "hal.h"
#include "meter.h"
#include "model.h"
#include "power.h"
#include "scpi/engine.h"
#include "scpi/output.h"

static jmp_buf stopped;

static void stop(void)
{
    longjmp(stopped, 1);
}

void console_stop_at(unsigned count, bool on_i2c)
{
    model_stop_at(count, on_i2c, stop);
}

int console_start(uint32_t seed)
{
    model_power_on(seed);
    return console_restart(0);
}

int console_restart(uint32_t cause)
{
    if (setjmp(stopped))
        return 2;
    model_restart(cause);
    firmware_init();
    return 0;
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
    if (setjmp(stopped))
        return 2;
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

int console_advance(int64_t ticks)
{
    int64_t end = model_now() + ticks;
    if (setjmp(stopped))
        return 2;
    while (model_now() < end)
        if (!step()) {
            model_limit(end);
            hal_wait();
        }
    while (step())
        ;
    return 0;
}
