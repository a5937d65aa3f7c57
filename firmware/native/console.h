/* The firmware on the model, as something to type at. */
#ifndef CONSOLE_H
#define CONSOLE_H

#include <stdint.h>

/* Power-on, both of them. */
void console_start(uint32_t seed);
/* Runs until all input was taken, all that can be answered is, and no command waits; at most `ticks`. 0: that was reached. */
int console_settle(int64_t ticks);
/* Runs for so long. */
void console_advance(int64_t ticks);

#endif
