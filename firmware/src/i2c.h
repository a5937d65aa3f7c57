/* The board's I2C: EEPROM (24C64 class) and temperature sensor (TMP102 class). Blocking, every wait bounded. */
#ifndef I2C_H
#define I2C_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EEPROM_SIZE 8192

/* false: no acknowledge, or the bus is stuck. */
bool eeprom_read(unsigned address, void *bytes, size_t count);
/* Writes and verifies; false if the bytes read back differ. */
bool eeprom_write(unsigned address, const void *bytes, size_t count);
/* In 1/16 degree Celsius. */
bool temperature_read(int *sixteenths);

#endif
