/* How handlers take a command's parameters. */
#include <string.h>

#include "engine.h"
#include "error.h"
#include "output.h"

static const struct slice nothing = {"", 0};

void call_fail(struct call *call, int error)
{
    if (call->failed)
        return;
    call->failed = true;
    const struct unit *unit = call->unit;
    bool about_parameter = call->taken && error != SCPI_MISSING_PARAMETER &&
                           (error > SCPI_EXECUTION_ERROR || error == SCPI_OUT_OF_RANGE || error == SCPI_ILLEGAL_VALUE);
    if (about_parameter)
        scpi_error(error, unit->parameters[call->taken - 1].text);
    else
        scpi_error(error, unit->header);
}

bool call_has_more(const struct call *call)
{
    return !call->failed && call->taken < call->unit->count;
}

const struct parameter *call_take(struct call *call)
{
    if (call->failed)
        return NULL;
    if (call->taken >= call->unit->count) {
        call_fail(call, SCPI_MISSING_PARAMETER);
        return NULL;
    }
    return &call->unit->parameters[call->taken++];
}

static bool word_is(const struct parameter *p, const char *mnemonic)
{
    return p->kind == PARAMETER_WORD && scpi_is(p->text, mnemonic, strlen(mnemonic));
}

int64_t call_scaled(struct call *call, enum quantity quantity, int scale, int64_t low, int64_t high, int64_t standard)
{
    const struct parameter *p = call_take(call);
    int64_t value = 0;
    if (!p)
        return 0;
    if (word_is(p, "MINimum"))
        return low;
    if (word_is(p, "MAXimum"))
        return high;
    if (word_is(p, "DEFault"))
        return standard;
    int error = number_scaled(p, quantity, scale, &value);
    if (!error && (value < low || value > high))
        error = SCPI_OUT_OF_RANGE;
    if (error) {
        call_fail(call, error);
        return 0;
    }
    return value;
}

uint64_t call_unsigned(struct call *call, uint64_t low, uint64_t high)
{
    const struct parameter *p = call_take(call);
    uint64_t value = 0;
    if (!p)
        return 0;
    int error = number_unsigned(p, &value);
    if (!error && (value < low || value > high))
        error = SCPI_OUT_OF_RANGE;
    if (error) {
        call_fail(call, error);
        return 0;
    }
    return value;
}

bool call_boolean(struct call *call)
{
    const struct parameter *p = call_take(call);
    int64_t value = 0;
    if (!p)
        return false;
    if (word_is(p, "ON"))
        return true;
    if (word_is(p, "OFF"))
        return false;
    int error = p->kind == PARAMETER_WORD ? SCPI_ILLEGAL_VALUE : number_scaled(p, PLAIN, 0, &value);
    if (error)
        call_fail(call, error);
    return value != 0; /* SCPI-99 volume 1, 7.3: rounded to an integer, and not 0 */
}

static const char *choice(const char *choices, unsigned k, size_t *length)
{
    while (k-- && choices) {
        choices = strchr(choices, '|');
        choices = choices ? choices + 1 : NULL;
    }
    if (!choices)
        return NULL;
    const char *end = strchr(choices, '|');
    *length = end ? (size_t)(end - choices) : strlen(choices);
    return choices;
}

unsigned call_choice(struct call *call, const char *choices)
{
    const struct parameter *p = call_take(call);
    size_t length;
    const char *text;
    if (!p)
        return 0;
    if (p->kind != PARAMETER_WORD) {
        call_fail(call, SCPI_DATA_TYPE);
        return 0;
    }
    for (unsigned k = 0; (text = choice(choices, k, &length)) != NULL; k++)
        if (scpi_is(p->text, text, length))
            return k;
    call_fail(call, SCPI_ILLEGAL_VALUE);
    return 0;
}

void put_choice(const char *choices, unsigned k)
{
    size_t length;
    const char *text = choice(choices, k, &length);
    for (size_t n = 0; text && n < length && !(text[n] >= 'a' && text[n] <= 'z'); n++)
        put_char(text[n]);
}

struct slice call_string(struct call *call)
{
    const struct parameter *p = call_take(call);
    if (!p)
        return nothing;
    if (p->kind != PARAMETER_STRING) {
        call_fail(call, SCPI_DATA_TYPE);
        return nothing;
    }
    return p->text;
}
