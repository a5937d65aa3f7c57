/* Everything the firmware sees of the hardware: registers (word addresses in registers.h) and sleep.
 *
 * On the rig this is the soft core's bus (target/hal.c); natively it is a model of the registers (native/model.c). */
#ifndef HAL_H
#define HAL_H

#include <stdint.h>

#include "registers.h"

/* Reads the register at a word address, 00h..FFh. */
uint32_t hal_read(unsigned address);
/* Writes it. */
void hal_write(unsigned address, uint32_t value);
/* Sleeps until IRQ_PENDING & IRQ_ENABLE is not 0. */
void hal_wait(void);

#endif
