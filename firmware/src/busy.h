/* Who is at work: the one place to ask before something begins, and what *OPC waits for.
 *
 * What the firmware carries out says so here; what the hardware carries out is asked of the hardware. So no activity has to know the
 * others to keep out of their way. */
#ifndef BUSY_H
#define BUSY_H

#include <stdbool.h>

enum activity {
    BUSY_GATE = 1,     /* the meter measures */
    BUSY_SEQUENCE = 2, /* the drive's power or PERST# is being sequenced */
    BUSY_FACTS = 4,    /* facts of a late attach wait for the tracker, while a capture runs */
    BUSY_CAPTURE = 8,
    BUSY_TRIGGER = 16, /* armed */
    BUSY_LOAD = 32,    /* pulses of the test load are left */
};
#define BUSY_OPERATIONS (BUSY_GATE | BUSY_SEQUENCE | BUSY_FACTS)

/* Of GATE, SEQUENCE and FACTS: it begins, or ends. */
void busy_with(enum activity activity, bool at_work);
/* Whether one of `activities` is at work. */
bool busy(unsigned activities);

#endif
