/* IEEE 488.2 common commands, ABORt, SYSTem, STATus. */
#ifndef SYSTEM_H
#define SYSTEM_H

#include "scpi/engine.h"

/* Identity and power-on settings from the EEPROM; why it started goes into the error queue. */
void system_init(void);
void system_load_identity(void);
void system_poll(void);

enum progress system_idn(struct call *call);
enum progress system_rst(struct call *call);
enum progress system_abort(struct call *call);
enum progress system_cls(struct call *call);
enum progress system_set_mask(struct call *call); /* argument: 0 *ESE, 1 *SRE */
enum progress system_get_mask(struct call *call);
enum progress system_esr(struct call *call);
enum progress system_stb(struct call *call);
enum progress system_opc(struct call *call);
enum progress system_opc_query(struct call *call);
enum progress system_wai(struct call *call);
enum progress system_opt(struct call *call);
enum progress system_sav(struct call *call);
enum progress system_rcl(struct call *call);
enum progress system_error(struct call *call);
enum progress system_error_all(struct call *call);
enum progress system_error_count(struct call *call);
enum progress system_version(struct call *call);
enum progress system_set_date(struct call *call);
enum progress system_get_date(struct call *call);
enum progress system_set_time(struct call *call);
enum progress system_get_time(struct call *call);
enum progress system_tick(struct call *call);
enum progress system_temperature(struct call *call);
enum progress system_restart(struct call *call);
enum progress system_crash(struct call *call);
enum progress system_help(struct call *call);
enum progress system_set_language(struct call *call);
enum progress system_get_language(struct call *call);
enum progress status_preset_command(struct call *call);
/* argument: group (0 OPERation, 1 QUEStionable) << 4 | register (0 event, 1 condition, 2 enable, 3 PTRansition, 4 NTRansition) */
enum progress status_get(struct call *call);
enum progress status_set(struct call *call);

#endif
