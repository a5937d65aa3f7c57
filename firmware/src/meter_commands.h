#ifndef METER_COMMANDS_H
#define METER_COMMANDS_H

#include "scpi/engine.h"

#define FUNCTION_CONFIGURED 15
enum { FIGURE_MEAN, FIGURE_LEAST, FIGURE_MOST };
enum { TOTALS_STATE, TOTALS_ENERGY, TOTALS_CHARGE, TOTALS_TIME, TOTALS_CLIPPED };

enum progress meter_measure(struct call *call);
enum progress meter_read(struct call *call);
enum progress meter_fetch(struct call *call);
enum progress meter_begin(struct call *call);
enum progress meter_configure(struct call *call);
enum progress meter_configuration(struct call *call);
enum progress meter_set_function(struct call *call);
enum progress meter_get_function(struct call *call);
enum progress meter_set_range(struct call *call);
enum progress meter_get_range(struct call *call);
enum progress meter_set_totals(struct call *call);
enum progress meter_get_totals(struct call *call);
enum progress meter_clear_totals(struct call *call);
enum progress meter_quality(struct call *call);

#endif
