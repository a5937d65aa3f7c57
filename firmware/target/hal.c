/* The HAL on the soft core. */
#include "hal.h"

#include "firmware.h"

static volatile uint32_t *const words = (volatile uint32_t *)WB_BASE;

uint32_t hal_read(unsigned address)
{
    return words[address];
}

void hal_write(unsigned address, uint32_t value)
{
    words[address] = value;
}

void hal_wait(void)
{
    /* WFI ends once the external interrupt is pending, whether it is taken or not. */
    __asm__ volatile("wfi" ::: "memory");
}

int main(void)
{
    firmware_init();
    for (;;)
        if (!firmware_step())
            hal_wait();
}
