#include "lexer.h"

#include "codes.h"

char scpi_upper(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

bool scpi_letter(char c)
{
    c = scpi_upper(c);
    return c >= 'A' && c <= 'Z';
}

bool scpi_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static bool at(const struct slice *s, char c)
{
    return s->length && *s->text == c;
}

static void skip(struct slice *s, size_t n)
{
    s->text += n;
    s->length -= n;
}

static void skip_blanks(struct slice *s)
{
    while (s->length && blank(*s->text))
        skip(s, 1);
}

static bool in_word(char c)
{
    return scpi_letter(c) || scpi_digit(c) || c == '_';
}

static struct slice take_word(struct slice *s)
{
    struct slice word = {s->text, 0};
    while (s->length && in_word(*s->text)) {
        word.length++;
        skip(s, 1);
    }
    return word;
}

static int header(struct slice *s, struct unit *unit)
{
    const char *begin = s->text;
    bool common = at(s, '*');
    if (common || at(s, ':'))
        skip(s, 1);
    for (;;) {
        struct slice word = take_word(s);
        if (!word.length || !scpi_letter(*word.text))
            return s->length && !word.length && !blank(*s->text) && *s->text != ':' && *s->text != ';' && *s->text != '?'
                       ? SCPI_INVALID_CHARACTER
                       : SCPI_SYNTAX_ERROR;
        if (word.length > SCPI_MNEMONIC)
            return SCPI_MNEMONIC_TOO_LONG;
        if (common || !at(s, ':'))
            break;
        skip(s, 1);
    }
    unit->header = (struct slice){begin, (size_t)(s->text - begin)};
    unit->query = at(s, '?');
    if (unit->query)
        skip(s, 1);
    if (s->length && !blank(*s->text) && *s->text != ';')
        return SCPI_HEADER_SEPARATOR;
    return 1;
}

/* <digits>[.<digits>][E<sign><digits>][suffix]; 19 digits are kept, further ones only shift the point. */
static int decimal(struct slice *s, struct parameter *p)
{
    bool any = false, point = false;
    int exponent = 0, digits = 0;
    p->kind = PARAMETER_DECIMAL;
    p->negative = at(s, '-');
    if (at(s, '-') || at(s, '+'))
        skip(s, 1);
    for (; s->length && (scpi_digit(*s->text) || (*s->text == '.' && !point)); skip(s, 1)) {
        if (*s->text == '.') {
            point = true;
            continue;
        }
        any = true;
        if (++digits > 255)
            return SCPI_TOO_MANY_DIGITS;
        if (p->number < UINT64_C(1000000000000000000)) {
            p->number = p->number * 10 + (uint64_t)(*s->text - '0');
            exponent -= point;
        } else {
            exponent += !point;
        }
    }
    if (!any)
        return SCPI_INVALID_NUMBER;
    struct slice after = *s;
    skip_blanks(&after);
    if (after.length && scpi_upper(*after.text) == 'E') {
        struct slice e = after;
        skip(&e, 1);
        skip_blanks(&e);
        bool minus = at(&e, '-');
        if (at(&e, '-') || at(&e, '+'))
            skip(&e, 1);
        /* "E" without digits is no exponent but a suffix: 5 EV, say */
        if (e.length && scpi_digit(*e.text)) {
            int value = 0;
            for (; e.length && scpi_digit(*e.text); skip(&e, 1))
                if ((value = value * 10 + (*e.text - '0')) > 32000)
                    return SCPI_EXPONENT_TOO_LARGE;
            exponent += minus ? -value : value;
            *s = e;
            after = e;
            skip_blanks(&after);
        }
    }
    p->exponent = (int16_t)exponent;
    p->suffix = (struct slice){after.text, 0};
    while (after.length && (scpi_letter(*after.text) || (p->suffix.length && in_word(*after.text)) || *after.text == '/' || *after.text == '%')) {
        p->suffix.length++;
        skip(&after, 1);
    }
    if (p->suffix.length > SCPI_MNEMONIC)
        return SCPI_SUFFIX_TOO_LONG;
    *s = after;
    return 1;
}

static int digit_value(char c)
{
    c = scpi_upper(c);
    return scpi_digit(c) ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : 99;
}

static int not_decimal(struct slice *s, struct parameter *p)
{
    skip(s, 1);
    char base = s->length ? scpi_upper(*s->text) : 0;
    unsigned shift = base == 'H' ? 4 : base == 'Q' ? 3 : base == 'B' ? 1 : 0;
    if (!shift)
        return scpi_digit(base) ? SCPI_BLOCK_NOT_ALLOWED : SCPI_INVALID_NUMBER;
    skip(s, 1);
    p->kind = PARAMETER_INTEGER;
    bool any = false;
    for (; s->length && digit_value(*s->text) < 1 << shift; skip(s, 1)) {
        if (p->number >> (64 - shift))
            return SCPI_OUT_OF_RANGE;
        p->number = p->number << shift | (unsigned)digit_value(*s->text);
        any = true;
    }
    return any && !(s->length && in_word(*s->text)) ? 1 : SCPI_INVALID_NUMBER;
}

static int string(struct slice *s, struct parameter *p)
{
    char quote = *s->text;
    skip(s, 1);
    p->kind = PARAMETER_STRING;
    p->text.text = s->text;
    /* a doubled quote means one; it is left doubled, as no command needs quotes in strings */
    while (s->length && !(*s->text == quote && !(s->length > 1 && s->text[1] == quote)))
        skip(s, *s->text == quote ? 2 : 1);
    if (!s->length)
        return SCPI_INVALID_STRING;
    p->text.length = (size_t)(s->text - p->text.text);
    skip(s, 1);
    return 1;
}

static int expression(struct slice *s, struct parameter *p)
{
    p->kind = PARAMETER_EXPRESSION;
    while (s->length && *s->text != ')' && *s->text != ';')
        skip(s, 1);
    if (!at(s, ')'))
        return SCPI_INVALID_EXPRESSION;
    skip(s, 1);
    return 1;
}

static int parameter(struct slice *s, struct parameter *p)
{
    const char *begin = s->text;
    char c = *s->text;
    int result = 1;
    *p = (struct parameter){.kind = PARAMETER_WORD};
    if (scpi_letter(c)) {
        p->text = take_word(s);
        return p->text.length > 2 * SCPI_MNEMONIC ? SCPI_WORD_TOO_LONG : 1;
    }
    if (c == '"' || c == '\'')
        return string(s, p);
    if (c == '#')
        result = not_decimal(s, p);
    else if (c == '(')
        result = expression(s, p);
    else if (scpi_digit(c) || c == '+' || c == '-' || c == '.')
        result = decimal(s, p);
    else
        result = c == ',' || c == ';' ? SCPI_SYNTAX_ERROR : SCPI_INVALID_CHARACTER;
    p->text = (struct slice){begin, (size_t)(s->text - begin)};
    return result;
}

static int parameters(struct slice *s, struct unit *unit)
{
    unit->count = 0;
    skip_blanks(s);
    while (s->length && *s->text != ';') {
        if (unit->count == SCPI_PARAMETERS)
            return SCPI_PARAMETER_NOT_ALLOWED;
        int result = parameter(s, &unit->parameters[unit->count]);
        if (result < 0)
            return result;
        unit->count++;
        skip_blanks(s);
        if (!s->length || *s->text == ';')
            break;
        if (*s->text != ',')
            return SCPI_INVALID_SEPARATOR;
        skip(s, 1);
        skip_blanks(s);
        if (!s->length || *s->text == ';')
            return SCPI_SYNTAX_ERROR;
    }
    return 1;
}

int scpi_lex(struct slice *rest, struct unit *unit, struct slice *where)
{
    while (rest->length && (blank(*rest->text) || *rest->text == ';'))
        skip(rest, 1);
    if (!rest->length)
        return 0;
    *where = *rest;
    int result = header(rest, unit);
    if (result > 0)
        result = parameters(rest, unit);
    if (result < 0) {
        where->length = (size_t)(rest->text - where->text) + (rest->length ? 1 : 0);
        return result;
    }
    if (at(rest, ';'))
        skip(rest, 1);
    where->length = (size_t)(rest->text - where->text);
    return 1;
}
