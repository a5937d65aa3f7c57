/* The capture: start and stop, rail sampling, markers, facts of a late attach for the tracker. */
#ifndef CAPTURE_H
#define CAPTURE_H

#include <stdint.h>

/* Writes the settings to the registers. apply.c then updates protection and the meter, which count conversions. */
void capture_apply(void);
void capture_stop(void);
/* Stops, and forgets the facts given by NVME: commands. */
void capture_reset(void);
/* Passes the next fact to the tracker when it is ready for one. */
void capture_poll(void);
/* Ticks between conversions, as set now. */
int64_t capture_period_ticks(void);

#endif
