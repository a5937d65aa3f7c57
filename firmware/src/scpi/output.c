#include "output.h"

static char ring[OUTPUT_SIZE];
static size_t head, used;
static bool message_wrote, unit_wrote;

size_t output_room(void)
{
    return OUTPUT_SIZE - used;
}

bool output_empty(void)
{
    return used == 0;
}

int output_take(void)
{
    if (!used)
        return -1;
    unsigned char c = (unsigned char)ring[head];
    head = (head + 1) % OUTPUT_SIZE;
    used--;
    return c;
}

void output_clear(void)
{
    used = 0;
    message_wrote = unit_wrote = false;
}

static void push(char c)
{
    if (used < OUTPUT_SIZE) /* always: see OUTPUT_NEEDED */
        ring[(head + used++) % OUTPUT_SIZE] = c;
}

void output_begin_message(void)
{
    message_wrote = unit_wrote = false;
}

void output_begin_unit(void)
{
    message_wrote |= unit_wrote;
    unit_wrote = false;
}

void output_end_message(void)
{
    output_begin_unit();
    if (message_wrote)
        push('\n');
    message_wrote = false;
}

bool output_message(void)
{
    return used || message_wrote;
}

bool output_unit_wrote(void)
{
    return unit_wrote;
}

void put_char(char c)
{
    if (!unit_wrote && message_wrote)
        push(';');
    unit_wrote = true;
    push(c);
}

void put_text(const char *text)
{
    while (*text)
        put_char(*text++);
}

void put_unsigned(uint64_t value)
{
    char digits[20];
    int n = 0;
    do
        digits[n++] = (char)('0' + value % 10);
    while (value /= 10);
    while (n)
        put_char(digits[--n]);
}

void put_integer(int64_t value)
{
    if (value < 0)
        put_char('-');
    put_unsigned(value < 0 ? -(uint64_t)value : (uint64_t)value);
}

void put_hex(uint32_t value)
{
    put_text("#H");
    for (int shift = 28; shift >= 0; shift -= 4)
        put_char("0123456789ABCDEF"[value >> shift & 15]);
}

void put_overload(void)
{
    put_text("+9.90000000E+37");
}

void put_real(int64_t value, int exponent)
{
    uint64_t size = value < 0 ? -(uint64_t)value : (uint64_t)value;
    char digits[20];
    int n = 0;
    while (size >= UINT64_C(10000000000)) { /* to ten digits, rounded half up */
        size = size / 10 + (size < UINT64_C(100000000000) && size % 10 >= 5);
        exponent++;
    }
    do
        digits[n++] = (char)('0' + size % 10);
    while (size /= 10);
    exponent += n - 1;
    if (value == 0)
        exponent = 0;
    put_char(value < 0 ? '-' : '+');
    put_char(digits[--n]);
    put_char('.');
    put_char(n ? digits[--n] : '0');
    while (n)
        put_char(digits[--n]);
    put_char('E');
    put_char(exponent < 0 ? '-' : '+');
    if (exponent < 0)
        exponent = -exponent;
    put_char((char)('0' + exponent / 10 % 10));
    put_char((char)('0' + exponent % 10));
}
