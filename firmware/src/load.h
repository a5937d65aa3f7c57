/* The test load: pulses of a known current, with edges marked in the stream. */
#ifndef LOAD_H
#define LOAD_H

void load_off(void);

#endif
