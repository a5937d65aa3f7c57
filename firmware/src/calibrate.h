/* Calibration: measured against known inputs, put into the registers, kept in the EEPROM. */
#ifndef CALIBRATE_H
#define CALIBRATE_H

#include "scpi/engine.h"

/* Takes the stored calibration into use. */
void calibrate_init(void);

/* The argument is the channel. */
enum progress calibrate_zero(struct call *call);
enum progress calibrate_point(struct call *call);
enum progress calibrate_set_data(struct call *call);
enum progress calibrate_get_data(struct call *call);
/* The argument is 0 for the coarse path, 1 for the fine one. */
enum progress calibrate_set_delay(struct call *call);
enum progress calibrate_get_delay(struct call *call);

enum progress calibrate_all(struct call *call);
enum progress calibrate_store(struct call *call);
enum progress calibrate_load(struct call *call);
enum progress calibrate_state(struct call *call);
enum progress calibrate_count(struct call *call);
enum progress calibrate_temperature(struct call *call);

#endif
