/* The meter: gates of conversions summed in hardware, their means in SI units; totals of energy and charge. */
#ifndef METER_H
#define METER_H

#include "scpi/engine.h"

/* Result of a gate, or of an average of several. 64-bit integers throughout. */
struct reading {
    bool valid;
    uint32_t state;                   /* METER_STATE of all its gates together */
    int64_t conversions, ticks;       /* how many, and how long */
    int64_t clipped;
    int64_t mean[3], least[3], most[3]; /* voltage in nV, current in pA, power in pW */
    int64_t codes[3];                 /* mean ADC codes in 1/256: voltage, current, fine current */
};

bool meter_triggered(void); /* it waits for the trigger, which has fired; meter_poll() has not seen it yet */
void meter_abort(void);
/* `gates` gates of `conversions` each. */
void meter_start(int64_t conversions, unsigned gates);
/* Starts the meter as APERture and AVERage configure it. */
void meter_start_configured(void);
/* Prepares a gate that the trigger will start. */
void meter_await_trigger(void);
const struct reading *meter_reading(void);
/* Whether voltage or current was off scale. The lower end of the voltage scale does not count: a drive that is off is at 0 V. */
bool meter_overload_voltage(const struct reading *r);
bool meter_overload_current(const struct reading *r);
/* 0: under way. 1: there is a reading. Negative: SCPI error number. */
int meter_finished(void);
void meter_poll(void);
void meter_apply_range(void);
#define FINE_FULL_SCALE 100000 /* uA */
/* Whether a current above FINE_FULL_SCALE is off scale now. */
bool meter_fine_alone(void);
/* Keeps the ADCs converting while a gate, the totals or protection needs them. A capture does so by itself. */
void meter_convert(void);
void meter_reset(void);

/* Energy in pJ, charge in nC, ticks and clipped conversions since they were cleared. */
struct totals {
    bool on;
    int64_t energy, charge, ticks, clipped;
};
const struct totals *meter_totals(void);
void meter_totals_switch(bool on);
void meter_totals_clear(void);

#endif
