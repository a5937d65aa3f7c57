#include "number.h"

#include "codes.h"

int64_t number_power_of_ten(int exponent)
{
    int64_t value = 1;
    while (exponent-- > 0)
        value *= 10;
    return value;
}

int64_t number_muldiv(int64_t a, uint64_t b, uint64_t c)
{
    uint64_t x = a < 0 ? -(uint64_t)a : (uint64_t)a;
    /* x * b as high : low */
    uint64_t xl = (uint32_t)x, xh = x >> 32, bl = (uint32_t)b, bh = b >> 32;
    uint64_t low = xl * bl, middle = xh * bl + (low >> 32), middle2 = xl * bh + (uint32_t)middle;
    uint64_t high = xh * bh + (middle >> 32) + (middle2 >> 32);
    low = middle2 << 32 | (uint32_t)low;
    /* add half of c to round */
    low += c / 2;
    high += low < c / 2;
    if (high >= c)
        return a < 0 ? -INT64_MAX : INT64_MAX;
    uint64_t quotient = 0;
    if (high == 0) {
        quotient = low / c;
    } else {
        for (int k = 63; k >= 0; k--) {
            uint64_t carry = high >> 63;
            high = high << 1 | (low >> k & 1);
            if (carry || high >= c) {
                high -= c;
                quotient |= UINT64_C(1) << k;
            }
        }
    }
    if (quotient > INT64_MAX)
        quotient = INT64_MAX;
    return a < 0 ? -(int64_t)quotient : (int64_t)quotient;
}

static bool is(const char *text, size_t length, const char *wanted)
{
    size_t n = 0;
    for (; n < length && wanted[n]; n++)
        if (scpi_upper(text[n]) != wanted[n])
            return false;
    return n == length && !wanted[n];
}

static const char *const unit_names[] = {"", "V", "A", "W", "J", "S"};

/* Power of ten of a multiplier (SCPI-99 volume 1, 7.1); 99 for none such. M is milli, MA mega. */
static int multiplier(const char *text, size_t length)
{
    static const struct {
        char name[3];
        int8_t exponent;
    } names[] = {{"", 0},   {"T", 12},  {"G", 9},   {"MA", 6},  {"K", 3},    {"M", -3},
                 {"U", -6}, {"N", -9},  {"P", -12}, {"F", -15}, {"A", -18}};
    for (unsigned k = 0; k < sizeof names / sizeof *names; k++)
        if (is(text, length, names[k].name))
            return names[k].exponent;
    return 99;
}

static int suffix_exponent(struct slice suffix, enum quantity quantity, int *exponent)
{
    *exponent = 0;
    if (!suffix.length)
        return 0;
    if (quantity == PLAIN)
        return SCPI_SUFFIX_NOT_ALLOWED;
    if (!is(suffix.text + suffix.length - 1, 1, unit_names[quantity]))
        return SCPI_INVALID_SUFFIX;
    *exponent = multiplier(suffix.text, suffix.length - 1);
    return *exponent == 99 ? SCPI_INVALID_SUFFIX : 0;
}

int number_scaled(const struct parameter *p, enum quantity quantity, int scale, int64_t *value)
{
    if (p->kind != PARAMETER_DECIMAL && p->kind != PARAMETER_INTEGER)
        return SCPI_DATA_TYPE;
    int exponent = 0;
    uint64_t size = p->number;
    if (p->kind == PARAMETER_DECIMAL) {
        int error = suffix_exponent(p->suffix, quantity, &exponent);
        if (error)
            return error;
        exponent += p->exponent;
    }
    exponent += scale;
    for (; exponent > 0 && size; exponent--) {
        if (size > INT64_MAX / 10)
            return SCPI_OUT_OF_RANGE;
        size *= 10;
    }
    for (; exponent < 0 && size; exponent++)
        size = size / 10 + (exponent == -1 && size % 10 >= 5);
    if (size > INT64_MAX)
        return SCPI_OUT_OF_RANGE;
    *value = p->kind == PARAMETER_DECIMAL && p->negative ? -(int64_t)size : (int64_t)size;
    return 0;
}

int number_unsigned(const struct parameter *p, uint64_t *value)
{
    if (p->kind == PARAMETER_INTEGER) {
        *value = p->number;
        return 0;
    }
    int64_t whole = 0, tenths = 0;
    int error = number_scaled(p, PLAIN, 0, &whole);
    if (error)
        return error;
    if (whole < 0)
        return SCPI_OUT_OF_RANGE;
    /* Reject a fraction; numbers too large to be scaled by ten have none. */
    if (!number_scaled(p, PLAIN, 1, &tenths) && tenths != whole * 10)
        return SCPI_OUT_OF_RANGE;
    *value = (uint64_t)whole;
    return 0;
}
