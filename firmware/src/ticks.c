#include "ticks.h"

#include "hal.h"

static int64_t next;

uint64_t ticks_read64(unsigned address)
{
    uint32_t high = hal_read(address + 1), low, before;
    do {
        before = high;
        low = hal_read(address);
        high = hal_read(address + 1);
    } while (high != before);
    return (uint64_t)high << 32 | low;
}

int64_t ticks_now(void)
{
    return (int64_t)ticks_read64(WB_NOW_LO);
}

void ticks_init(void)
{
    next = TICKS_NEVER;
}

void ticks_deadline(int64_t tick)
{
    if (tick < next)
        next = tick;
}

static void alarm(int64_t tick)
{
    /* All ones first, so that no intermediate value lies in the past. */
    hal_write(WB_WAKE_HI, UINT32_MAX);
    hal_write(WB_WAKE_LO, (uint32_t)tick);
    hal_write(WB_WAKE_HI, (uint32_t)((uint64_t)tick >> 32));
}

void ticks_arm(void)
{
    alarm(next);
    next = TICKS_NEVER;
}

bool ticks_sleep(uint32_t irqs, int64_t deadline)
{
    uint32_t enabled = hal_read(WB_IRQ_ENABLE);
    bool there;
    alarm(deadline);
    hal_write(WB_IRQ_ENABLE, irqs | WB_IRQ_ENABLE_WAKE);
    while (!(there = (hal_read(WB_IRQ_PENDING) & irqs) != 0) && ticks_now() < deadline)
        hal_wait();
    hal_write(WB_IRQ_ENABLE, enabled);
    return there;
}
