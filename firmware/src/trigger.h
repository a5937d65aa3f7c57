/* The trigger: settings to registers when it is armed. */
#ifndef TRIGGER_H
#define TRIGGER_H

#include "scpi/engine.h"

enum progress trigger_arm(struct call *call);
enum progress trigger_disarm(struct call *call);
enum progress trigger_force(struct call *call);
enum progress trigger_state(struct call *call);
enum progress trigger_tick(struct call *call);
/* LEVel and HYSTeresis are of the source's quantity; the argument is 1 for HYSTeresis. */
enum progress trigger_set_level(struct call *call);
enum progress trigger_get_level(struct call *call);
/* Two numbers: opcode and mask, first and last LBA. The argument is the first setting, the second follows it. */
enum progress trigger_set_pair(struct call *call);
enum progress trigger_get_pair(struct call *call);
void trigger_reset(void);
void trigger_poll(void);

#endif
