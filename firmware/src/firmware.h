/* The firmware as a function to call again and again. */
#ifndef FIRMWARE_H
#define FIRMWARE_H

#include <stdbool.h>

void firmware_init(void);
/* Does what there is to do now. false: nothing; the alarm is set, and the core may sleep until something is pending. */
bool firmware_step(void);

#endif
