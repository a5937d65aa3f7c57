/* Writes settings to the hardware. Kept apart from settings.c, which knows none of the modules that its settings configure. */
#include "busy.h"
#include "capture.h"
#include "hal.h"
#include "meter.h"
#include "power.h"
#include "settings.h"

static void nothing(void)
{
}

static void capture_rail(void)
{
    bool gate = busy(BUSY_GATE);
    capture_apply();
    power_apply(); /* its delay is counted in conversions */
    if (gate)
        meter_abort(); /* its conversions would be of two lengths */
}

static void (*const carriers[SETTINGS])(void) = {
#define NUMBER(name, quantity, scale, low, high, standard, apply) apply,
#define BOOLEAN(name, standard, apply) apply,
#define CHOICE(name, standard, apply, choices) apply,
#include "settings.def"
};

void setting_apply(enum setting k)
{
    carriers[k]();
}

void settings_apply(void)
{
    for (unsigned k = 0; k < SETTINGS; k++)
        if (!k || carriers[k] != carriers[k - 1])
            carriers[k]();
}
