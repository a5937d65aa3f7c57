/* Calibration: measured against known inputs, put into the registers, kept in the EEPROM. */
#ifndef CALIBRATE_H
#define CALIBRATE_H

/* Takes the stored calibration into use. */
void calibrate_init(void);

#endif
