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

/* Resets all but LANGUAGE to their defaults and applies them. */
void settings_reset(void);
/* Takes all from `values`, each clipped to its limits, and applies them. */
void settings_load(const int64_t values[SETTINGS]);

/* Handlers; the argument is the setting. The query of a number takes MIN, MAX or DEF. */
enum progress setting_set(struct call *call);
enum progress setting_get(struct call *call);
/* Outputs a setting's value. */
void setting_put(enum setting k);
/* Parses a parameter of this setting's kind, within its limits. */
int64_t setting_take(struct call *call, enum setting k);
/* Apply one setting, or all, to the hardware; in apply.c. */
void setting_apply(enum setting k);
void settings_apply(void);

#endif
