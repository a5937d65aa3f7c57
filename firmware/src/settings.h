/* The settings of settings.def: one array of 64-bit integers, with limits and defaults. */
#ifndef SETTINGS_H
#define SETTINGS_H

#include "scpi/engine.h"

#define FUNCTIONS "VOLTage|CURRent|POWer|ENERgy|CHARge"
enum function { FUNCTION_VOLTAGE, FUNCTION_CURRENT, FUNCTION_POWER, FUNCTION_ENERGY, FUNCTION_CHARGE };

#define TRIGGER_SOURCES "IMMediate|BUS|VOLTage|CURRent|POWer|CLKReq|PERSt|LINK|COMMand|PSTate"
enum { SOURCE_IMMEDIATE, SOURCE_BUS, SOURCE_VOLTAGE, SOURCE_CURRENT, SOURCE_POWER, SOURCE_CLKREQ, SOURCE_PERST, SOURCE_LINK,
       SOURCE_COMMAND, SOURCE_STATE };

#define NUMBER(name, quantity, scale, low, high, standard, apply) SETTING_##name,
#define BOOLEAN(name, standard, apply) SETTING_##name,
#define CHOICE(name, standard, apply, choices) SETTING_##name,
enum setting {
#include "settings.def"
    SETTINGS
};
#undef NUMBER
#undef BOOLEAN
#undef CHOICE

extern int64_t settings[SETTINGS];

/* All to their defaults, and to the hardware; LANGUAGE stays. */
void settings_reset(void);
/* All from `values`, each clipped to its limits, and to the hardware. */
void settings_load(const int64_t values[SETTINGS]);

/* Handlers: the argument is the setting. A query of a number takes MIN, MAX or DEF. */
enum progress setting_set(struct call *call);
enum progress setting_get(struct call *call);
/* Writes a setting's value. */
void setting_put(enum setting k);
/* A parameter of this setting's kind and limits. */
int64_t setting_take(struct call *call, enum setting k);
/* One setting, or all, to the hardware: apply.c. */
void setting_apply(enum setting k);
void settings_apply(void);

#endif
