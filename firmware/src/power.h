/* The drive's power, PERST# and CLKREQ#: protection levels, sequences, trips. */
#ifndef POWER_H
#define POWER_H

/* Settings to the registers. */
void power_apply(void);
/* Takes up what the hardware holds; nothing is switched. */
void power_init(void);
void power_poll(void);

#endif
