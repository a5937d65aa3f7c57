/* IEEE 488.2 common commands, ABORt, SYSTem, STATus. */
#ifndef SYSTEM_H
#define SYSTEM_H

/* Loads identity and power-on settings from the EEPROM; queues an error if the restart was not a normal one. */
void system_init(void);
void system_load_identity(void);
void system_poll(void);

#endif
