/* IEEE 488.2 common commands, ABORt, SYSTem, STATus. */
#ifndef SYSTEM_H
#define SYSTEM_H

/* Identity and power-on settings from the EEPROM; why it started goes into the error queue. */
void system_init(void);
void system_load_identity(void);
void system_poll(void);

#endif
