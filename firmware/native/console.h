/* The firmware on the model, with a console to type at. */
#ifndef CONSOLE_H
#define CONSOLE_H

#include <stdint.h>

/* Power-on, both of them. */
void console_start(uint32_t seed);
/* Runs until all input is taken, all answers are out and no command waits, for at most `ticks`. Returns 0 if that time ran out. */
int console_settle(int64_t ticks);
/* Runs for so long. */
void console_advance(int64_t ticks);

#endif
