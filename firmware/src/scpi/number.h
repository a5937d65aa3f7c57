/* Arithmetic without floating point: exact decimals as scaled integers, and a * b / c with a 128-bit product. */
#ifndef SCPI_NUMBER_H
#define SCPI_NUMBER_H

#include "lexer.h"

/* Quantities of a number. */
enum quantity { PLAIN, VOLT, AMPERE, WATT, JOULE, SECOND };

/* The parameter in units of 10^-scale of the quantity, rounded half away from zero.
 * 0, or a SCPI error number. MIN, MAX, DEF are not for this one. */
int number_scaled(const struct parameter *p, enum quantity quantity, int scale, int64_t *value);
/* The parameter as an integer without a suffix; #H may use all 64 bits. */
int number_unsigned(const struct parameter *p, uint64_t *value);
/* a * b / c, rounded half away from zero; clipped to INT64_MAX, -INT64_MAX. c > 0. */
int64_t number_muldiv(int64_t a, uint64_t b, uint64_t c);
int64_t number_power_of_ten(int exponent);

#endif
