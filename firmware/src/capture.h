/* The capture: start and stop, rail sampling, markers, what a late attach tells the tracker. */
#ifndef CAPTURE_H
#define CAPTURE_H

#include "scpi/engine.h"

/* Handlers. */
enum progress capture_initiate(struct call *call);
enum progress capture_mark(struct call *call);
enum progress capture_set_run(struct call *call);
enum progress capture_run(struct call *call);
enum progress capture_status(struct call *call);
enum progress capture_set_sweep(struct call *call);
enum progress nvme_bar0(struct call *call);
enum progress nvme_stride(struct call *call);
enum progress nvme_page(struct call *call);
enum progress nvme_queue(struct call *call);
enum progress nvme_attach(struct call *call);
enum progress nvme_reset(struct call *call);

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
