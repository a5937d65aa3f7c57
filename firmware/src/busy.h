/* The arbiter of busy activities. Ask here before starting something that must not overlap with something else; *OPC waits for it too.
 *
 * Activities of the firmware report here when they begin and end; activities of the hardware are read from its registers. So no module
 * has to know the others to stay out of their way. */
#ifndef BUSY_H
#define BUSY_H

#include <stdbool.h>

enum activity {
    BUSY_GATE = 1,     /* the meter is measuring */
    BUSY_SEQUENCE = 2, /* the drive's power or PERST# is being sequenced */
    BUSY_FACTS = 4,    /* facts of a late attach wait for the tracker, while a capture runs */
    BUSY_CAPTURE = 8,
    BUSY_TRIGGER = 16, /* armed */
    BUSY_LOAD = 32,    /* the test load still has pulses to make */
};
#define BUSY_OPERATIONS (BUSY_GATE | BUSY_SEQUENCE | BUSY_FACTS)

/* Reports that an activity begins or ends; only GATE, SEQUENCE and FACTS. */
void busy_with(enum activity activity, bool at_work);
/* Whether any of `activities` is under way. */
bool busy(unsigned activities);

#endif
