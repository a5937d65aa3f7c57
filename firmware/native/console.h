/* The firmware on the model, with a console to type at. */
#ifndef CONSOLE_H
#define CONSOLE_H

#include <stdbool.h>
#include <stdint.h>

/* Each returns 0; or 2 if the core stopped meanwhile, as console_stop_at() asked. It does nothing then until a start or restart. */

/* Power-on, both of them. */
int console_start(uint32_t seed);
/* Restart of the core alone, for `cause` (bits of RESET_CAUSE). */
int console_restart(uint32_t cause);
/* Runs until all input is taken, all answers are out and no command waits, for at most `ticks`. Returns 1 if that time ran out. */
int console_settle(int64_t ticks);
/* Runs for so long. */
int console_advance(int64_t ticks);
/* model_stop_at() for this core. */
void console_stop_at(unsigned count, bool on_i2c);

#endif
