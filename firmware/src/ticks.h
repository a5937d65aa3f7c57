/* Time: ticks of 1 ns since power-on, the instrument's own (NOW). */
#ifndef TICKS_H
#define TICKS_H

#include <stdbool.h>
#include <stdint.h>

#define TICKS_US INT64_C(1000)
#define TICKS_MS INT64_C(1000000)
#define TICKS_S INT64_C(1000000000)
#define TICKS_NEVER INT64_MAX

void ticks_init(void);
int64_t ticks_now(void);
/* A 64-bit quantity in two words at `address` (low) and `address` + 1, read so that the halves belong together. */
uint64_t ticks_read64(unsigned address);
/* The earliest of the deadlines asked for since the last ticks_arm() will end the next sleep. */
void ticks_deadline(int64_t tick);
/* Sets the alarm to that deadline, and forgets it. */
void ticks_arm(void);
/* Sleeps until one of `irqs` (bits of IRQ_PENDING) is there or `deadline` has come; false: the deadline. */
bool ticks_sleep(uint32_t irqs, int64_t deadline);

#endif
