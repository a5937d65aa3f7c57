/* The modelled board: voltage and current at the connector, three channels with their errors, and the meter's gates. */
#ifndef ANALOG_H
#define ANALOG_H

#include <stdbool.h>
#include <stdint.h>

struct conversion {
    int64_t code[3], v, i;
    uint32_t state; /* bits of METER_STATE */
};

/* 3.3 V and 0.5 A at the connector; `seed` draws gain and offset errors of the channels, 0 means none. */
void analog_power_on(uint32_t seed);
void analog_set(double volts, double amperes);
void analog_set_fine(bool there);
double analog_amperes(void);
/* With the settings in `words`, the registers. */
struct conversion analog_conversion(const uint32_t *words, bool noisy);
/* A gate of METER_COUNT conversions: its sums, ends and state into the registers. */
void analog_gate(uint32_t *words);

#endif
