/* Cuts a program message (IEEE 488.2, chapter 7) into units of a header and parameters. */
#ifndef SCPI_LEXER_H
#define SCPI_LEXER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SCPI_PARAMETERS 8
#define SCPI_MNEMONIC 12 /* longest, SCPI-99 volume 1, 6.2.1 */

struct slice {
    const char *text;
    size_t length;
};

enum parameter_kind {
    PARAMETER_WORD,    /* character data */
    PARAMETER_DECIMAL, /* decimal numeric, perhaps with a suffix */
    PARAMETER_INTEGER, /* #H, #Q, #B */
    PARAMETER_STRING,
    PARAMETER_EXPRESSION,
};

struct parameter {
    enum parameter_kind kind;
    struct slice text;  /* as written; of a string, the text between the quotes */
    struct slice suffix; /* of a decimal */
    uint64_t number;     /* of an integer; of a decimal its digits */
    int16_t exponent;    /* decimal: number * 10^exponent */
    bool negative;
};

struct unit {
    struct slice header; /* with a leading ':' or '*', without '?' */
    bool query;
    uint8_t count;
    struct parameter parameters[SCPI_PARAMETERS];
};

/* Parses the unit at the front of `rest` and removes it, with the ';' behind it.
 * Returns 1, or 0 when `rest` is empty, or a negative SCPI error number with `where` set to the culprit. */
int scpi_lex(struct slice *rest, struct unit *unit, struct slice *where);

char scpi_upper(char c);
bool scpi_letter(char c);
bool scpi_digit(char c);

#endif
