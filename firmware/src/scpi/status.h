/* The status model of IEEE 488.2 and SCPI-99: event status register, status byte, OPERation and QUEStionable groups. */
#ifndef SCPI_STATUS_H
#define SCPI_STATUS_H

#include <stdbool.h>
#include <stdint.h>

enum { ESR_COMPLETE = 1, ESR_QUERY = 4, ESR_DEVICE = 8, ESR_EXECUTION = 16, ESR_COMMAND = 32, ESR_POWER_ON = 128 };

enum { STB_ERRORS = 4, STB_QUESTIONABLE = 8, STB_MESSAGE = 16, STB_EVENT = 32, STB_SUMMARY = 64, STB_OPERATION = 128 };

/* Condition bits, SCPI-99 volume 1, 20.1. */
enum {
    QUES_VOLTAGE = 1 << 0,     /* a voltage conversion of the last measurement was off scale */
    QUES_CURRENT = 1 << 1,     /* the same of the current, or the protection has tripped */
    QUES_POWER = 1 << 3,       /* either of the two: the power is doubtful */
    QUES_TEMPERATURE = 1 << 4, /* the temperature sensor does not answer */
    QUES_CALIBRATION = 1 << 8, /* no calibration in use */
};
enum {
    OPER_CALIBRATING = 1 << 0,
    OPER_SEQUENCING = 1 << 1, /* "settling": power or PERST# is being sequenced */
    OPER_MEASURING = 1 << 4,
    OPER_ARMED = 1 << 5,   /* "waiting for trigger" */
    OPER_CAPTURE = 1 << 8, /* "instrument defined 1": the stream runs */
    OPER_POWERED = 1 << 9, /* "instrument defined 2": the drive has power */
};

struct status_group {
    uint16_t condition, event, enable, positive, negative;
};
extern struct status_group status_operation, status_questionable;

void status_power_on(void);
/* Sets bits of the event status register. */
void status_event(uint8_t bits);
/* Sets the condition bits in `mask` to `bits`; the transition filters turn the changes into events. */
void status_condition(struct status_group *group, uint16_t mask, uint16_t bits);
void status_clear(void);
void status_preset(void);
uint8_t status_take_esr(void);
/* `message`: an answer waits; `errors`: the error queue holds some. */
uint8_t status_byte(bool message, bool errors);

extern uint8_t status_ese, status_sre;

#endif
