/* The trigger. Its settings reach the registers when it is armed. */
#ifndef TRIGGER_H
#define TRIGGER_H

void trigger_reset(void);
void trigger_poll(void);

#endif
