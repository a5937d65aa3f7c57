/* The queue of SYSTem:ERRor?. */
#ifndef SCPI_ERROR_H
#define SCPI_ERROR_H

#include "codes.h"
#include "lexer.h"

#define SCPI_ERROR_QUEUE 32
#define SCPI_ERROR_DETAIL 25

/* Queues an error with its subject (may be empty), and sets the bit of its class in the event status register.
 * When the queue is full its newest entry becomes -350. */
void scpi_error(int number, struct slice about);
/* The same for a C string. */
void scpi_error_text(int number, const char *about);
/* Writes the oldest error as `number,"text;detail"` and takes it off the queue; `0,"No error"` when it is empty. */
void scpi_error_next(void);
unsigned scpi_error_count(void);
void scpi_error_clear(void);

#endif
