#include "settings.h"

#include "hal.h"
#include "scpi/error.h"
#include "scpi/output.h"

enum kind { KIND_NUMBER, KIND_BOOLEAN, KIND_CHOICE };

static const struct {
    int64_t low, high, standard;
    const char *choices;
    uint8_t kind, quantity, scale;
} table[SETTINGS] = {
#define NUMBER(name, quantity, scale, low, high, standard, apply) {low, high, standard, 0, KIND_NUMBER, quantity, scale},
#define BOOLEAN(name, standard, apply) {0, 1, standard, 0, KIND_BOOLEAN, PLAIN, 0},
#define CHOICE(name, standard, apply, choices) {0, 15, standard, choices, KIND_CHOICE, PLAIN, 0},
#include "settings.def"
#undef NUMBER
#undef BOOLEAN
#undef CHOICE
};

int64_t settings[SETTINGS];

void settings_reset(void)
{
    for (unsigned k = 0; k < SETTINGS; k++)
        if (k != SETTING_LANGUAGE)
            settings[k] = table[k].standard;
    settings_apply();
}

void settings_load(const int64_t values[SETTINGS])
{
    for (unsigned k = 0; k < SETTINGS; k++)
        settings[k] = values[k] < table[k].low ? table[k].low : values[k] > table[k].high ? table[k].high : values[k];
    settings_apply();
}

int64_t setting_take(struct call *call, enum setting k)
{
    if (table[k].kind == KIND_BOOLEAN)
        return call_boolean(call);
    if (table[k].kind == KIND_CHOICE)
        return call_choice(call, table[k].choices);
    return call_scaled(call, table[k].quantity, table[k].scale, table[k].low, table[k].high, table[k].standard);
}

enum progress setting_set(struct call *call)
{
    int64_t value = setting_take(call, call->argument);
    if (!call->failed) {
        settings[call->argument] = value;
        setting_apply(call->argument);
    }
    return DONE;
}

static void put_value(enum setting k, int64_t value)
{
    if (table[k].kind == KIND_CHOICE)
        put_choice(table[k].choices, (unsigned)value);
    else if (table[k].scale)
        put_real(value, -table[k].scale);
    else
        put_integer(value);
}

void setting_put(enum setting k)
{
    put_value(k, settings[k]);
}

enum progress setting_get(struct call *call)
{
    enum setting k = call->argument;
    if (!call_has_more(call)) {
        setting_put(k);
        return DONE;
    }
    if (table[k].kind != KIND_NUMBER) {
        call_fail(call, SCPI_PARAMETER_NOT_ALLOWED);
        return DONE;
    }
    unsigned which = call_choice(call, "MINimum|MAXimum|DEFault");
    if (!call->failed)
        put_value(k, which == 0 ? table[k].low : which == 1 ? table[k].high : table[k].standard);
    return DONE;
}
