#include "status.h"

struct status_group status_operation, status_questionable;
uint8_t status_ese, status_sre;
static uint8_t esr;

void status_power_on(void)
{
    status_clear();
    status_preset();
    status_operation.condition = status_questionable.condition = 0;
    status_ese = status_sre = 0;
    esr = ESR_POWER_ON;
}

void status_event(uint8_t bits)
{
    esr |= bits;
}

void status_condition(struct status_group *group, uint16_t mask, uint16_t bits)
{
    uint16_t now = (uint16_t)((group->condition & ~mask) | (bits & mask));
    uint16_t rose = now & (uint16_t)~group->condition, fell = group->condition & (uint16_t)~now;
    group->event |= (uint16_t)((rose & group->positive) | (fell & group->negative));
    group->condition = now;
}

void status_clear(void)
{
    esr = 0;
    status_operation.event = status_questionable.event = 0;
}

static void preset(struct status_group *group)
{
    group->enable = 0;
    group->positive = 0x7FFF;
    group->negative = 0;
}

void status_preset(void)
{
    preset(&status_operation);
    preset(&status_questionable);
}

uint8_t status_take_esr(void)
{
    uint8_t value = esr;
    esr = 0;
    return value;
}

uint8_t status_byte(bool message, bool errors)
{
    unsigned stb = 0;
    stb |= errors ? STB_ERRORS : 0;
    stb |= status_questionable.event & status_questionable.enable ? STB_QUESTIONABLE : 0;
    stb |= message ? STB_MESSAGE : 0;
    stb |= esr & status_ese ? STB_EVENT : 0;
    stb |= status_operation.event & status_operation.enable ? STB_OPERATION : 0;
    stb |= stb & status_sre & ~(unsigned)STB_SUMMARY ? STB_SUMMARY : 0;
    return (uint8_t)stb;
}
