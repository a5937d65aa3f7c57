/* Calibration: measured against known inputs, applied to the registers, stored in the EEPROM. */
#ifndef CALIBRATE_H
#define CALIBRATE_H

/* Applies the stored calibration. */
void calibrate_init(void);

#endif
