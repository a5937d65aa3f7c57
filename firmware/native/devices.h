/* Devices on the model's I2C bus: an EEPROM of 8 KiB at 50h, a temperature sensor at 48h. */
#ifndef DEVICES_H
#define DEVICES_H

#include <stdint.h>

/* Both respond; the EEPROM keeps its contents. */
void devices_power_on(void);
/* A byte, as I2C_COMMAND has it; what I2C_STATE is while it is under way. */
uint32_t devices_transfer(uint32_t command, int64_t now);

#endif
