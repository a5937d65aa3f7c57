/* The capture: start and stop, rail sampling, markers, what a late attach tells the tracker. */
#ifndef CAPTURE_H
#define CAPTURE_H

#include <stdint.h>

/* Settings to the registers; protection and the meter, which count conversions, are for apply.c to tell. */
void capture_apply(void);
void capture_stop(void);
/* Stops, and forgets what NVME: was told. */
void capture_reset(void);
/* Tells the tracker the next fact, when it is ready for one. */
void capture_poll(void);
/* Ticks between conversions in use. */
int64_t capture_period_ticks(void);

#endif
