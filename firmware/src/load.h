/* The test load: pulses of a known current, whose edges are marked in the stream. */
#ifndef LOAD_H
#define LOAD_H

#include "scpi/engine.h"

void load_off(void);
enum progress load_pulse(struct call *call);
enum progress load_left(struct call *call);

#endif
