/* The drive's power, PERST# and CLKREQ#: protection levels, sequences, trips. */
#ifndef POWER_H
#define POWER_H

#include "scpi/engine.h"

/* Settings to the registers. */
void power_apply(void);
/* Takes up what the hardware holds; nothing is switched. */
void power_init(void);
void power_poll(void);

enum progress power_output(struct call *call);
enum progress power_output_query(struct call *call);
enum progress power_cycle(struct call *call);
enum progress power_hotplug(struct call *call);
enum progress power_perst(struct call *call);
enum progress power_perst_query(struct call *call);
enum progress power_clkreq(struct call *call);
enum progress power_clkreq_query(struct call *call);
enum progress power_good_query(struct call *call);
enum progress power_link_query(struct call *call);
enum progress power_tripped(struct call *call);
enum progress power_trip_details(struct call *call);
enum progress power_trip_clear(struct call *call);

#endif
