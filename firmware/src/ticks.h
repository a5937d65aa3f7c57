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
/* Reads a 64-bit value from `address` (low word) and `address` + 1, consistently. */
uint64_t ticks_read64(unsigned address);
/* Asks for the next sleep to end by this tick; the earliest request since ticks_arm() counts. */
void ticks_deadline(int64_t tick);
/* Sets the alarm to the earliest request, and forgets them all. */
void ticks_arm(void);
/* Sleeps until one of `irqs` (bits of IRQ_PENDING) is pending or `deadline` is reached; false if it was the deadline. */
bool ticks_sleep(uint32_t irqs, int64_t deadline);

#endif
