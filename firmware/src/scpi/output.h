/* Output to the controller: a ring buffer that the console drains, and functions that write to it. */
#ifndef SCPI_OUTPUT_H
#define SCPI_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OUTPUT_SIZE 1024
/* Free space guaranteed to a command; it writes no more than this in one call. */
#define OUTPUT_NEEDED 400

size_t output_room(void);
bool output_empty(void);
/* Takes the oldest byte, -1 when there is none. */
int output_take(void);
/* Discards output that was not taken. */
void output_clear(void);

/* A response message: `;` between the answers of its units, a newline behind the last, nothing when no unit answered. */
void output_begin_message(void);
void output_begin_unit(void);
void output_end_message(void);
/* Whether an answer has not been sent completely. */
bool output_message(void);
/* Whether the unit has written something. */
bool output_unit_wrote(void);

void put_char(char c);
void put_text(const char *text);
void put_integer(int64_t value);
void put_unsigned(uint64_t value);
void put_hex(uint32_t value);
/* For a figure off scale: infinity as SCPI-99 writes it. */
void put_overload(void);
/* NR3 with the digits that the value has, at most 10: value * 10^exponent. */
void put_real(int64_t value, int exponent);

#endif
