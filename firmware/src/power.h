/* The drive's power, PERST# and CLKREQ#: protection levels, sequences, trips. */
#ifndef POWER_H
#define POWER_H

/* Writes the settings to the registers. */
void power_apply(void);
/* Adopts the state of the hardware; switches nothing. */
void power_init(void);
void power_poll(void);

#endif
