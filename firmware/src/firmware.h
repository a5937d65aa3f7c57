/* The firmware as a step function, called in a loop. */
#ifndef FIRMWARE_H
#define FIRMWARE_H

#include <stdbool.h>

void firmware_init(void);
/* Does the next step. Returns false if there was nothing: the alarm is set and the core may sleep until an interrupt is pending. */
bool firmware_step(void);

#endif
