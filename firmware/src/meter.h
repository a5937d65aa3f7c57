/* The meter: gates of conversions in hardware, their sums as means in SI units; energy and charge since they were cleared. */
#ifndef METER_H
#define METER_H

#include "scpi/engine.h"

/* What a gate, or an average of several, gave. 64-bit integers throughout. */
struct reading {
    bool valid;
    uint32_t state;                   /* METER_STATE of all its gates together */
    int64_t conversions, ticks;       /* how many, and how long */
    int64_t clipped;
    int64_t mean[3], least[3], most[3]; /* voltage in nV, current in pA, power in pW */
    int64_t codes[3];                 /* mean ADC codes in 1/256: voltage, current, fine current */
};

bool meter_triggered(void); /* its gate is the trigger's, which has fired, and has not been seen yet */
void meter_abort(void);
/* `gates` gates of `conversions` each. */
void meter_start(int64_t conversions, unsigned gates);
/* As APERture and AVERage ask. */
void meter_start_configured(void);
/* Ready for a gate that the trigger starts. */
void meter_await_trigger(void);
const struct reading *meter_reading(void);
/* Whether a voltage, a current was beyond its scale. The voltage's lower end is 0 V, where a drive that is off belongs. */
bool meter_overload_voltage(const struct reading *r);
bool meter_overload_current(const struct reading *r);
/* 0: under way. 1: there is a reading. Negative: SCPI error number. */
int meter_finished(void);
void meter_poll(void);
void meter_apply_range(void);
/* Lets the ADCs convert while anything needs it: a gate, the totals, protection. A capture sees to itself. */
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
