#include "i2c.h"

#include <string.h>

#include "hal.h"
#include "ticks.h"

#define EEPROM 0x50
#define SENSOR 0x48
#define EEPROM_PAGE 32
#define EEPROM_WRITES_WITHIN (20 * TICKS_MS) /* data sheets say 5 ms */
#define READ_ATTEMPTS 3
#define BYTE_WITHIN (5 * TICKS_MS)           /* the engine gives up after 1 ms of a low SCL */

static bool byte(uint32_t command, uint8_t *received)
{
    uint32_t state;
    hal_write(WB_I2C_COMMAND, command);
    if (!ticks_sleep(WB_IRQ_ENABLE_I2C, ticks_now() + BYTE_WITHIN))
        return false;
    state = hal_read(WB_I2C_STATE);
    if (received)
        *received = (uint8_t)((state & WB_I2C_STATE_DATA) >> WB_I2C_STATE_DATA_SHIFT);
    if (state & WB_I2C_STATE_STUCK)
        return false;
    return command & WB_I2C_COMMAND_READ || state & WB_I2C_STATE_ACK;
}

static bool send(uint8_t value, uint32_t conditions)
{
    return byte(value | conditions, 0);
}

/* After a NACK the bus is still held: the engine sends a stop condition only behind a byte. */
static bool stop_after_failure(void)
{
    send(0xFF, WB_I2C_COMMAND_STOP);
    return false;
}

static bool receive(uint8_t device, uint8_t *bytes, size_t count)
{
    if (!send((uint8_t)(device << 1 | 1), WB_I2C_COMMAND_START))
        return stop_after_failure();
    for (size_t k = 0; k < count; k++) {
        uint32_t last = k + 1 == count ? WB_I2C_COMMAND_NACK | WB_I2C_COMMAND_STOP : 0;
        if (!byte(WB_I2C_COMMAND_READ | last, &bytes[k]))
            return stop_after_failure();
    }
    return true;
}

static bool address_eeprom(unsigned address)
{
    return send(EEPROM << 1, WB_I2C_COMMAND_START) && send((uint8_t)(address >> 8), 0) && send((uint8_t)address, 0);
}

/* The chip does not acknowledge its address while it writes a page. */
static bool eeprom_ready(void)
{
    int64_t deadline = ticks_now() + EEPROM_WRITES_WITHIN;
    while (ticks_now() < deadline)
        if (send(EEPROM << 1, WB_I2C_COMMAND_START | WB_I2C_COMMAND_STOP))
            return true;
    return false;
}

/* A restart of the core may have left the chip writing a page, or in the middle of a byte. */
bool eeprom_read(unsigned address, void *bytes, size_t count)
{
    for (unsigned k = 0; k < READ_ATTEMPTS && eeprom_ready(); k++)
        if (address_eeprom(address) ? receive(EEPROM, bytes, count) : stop_after_failure())
            return true;
    return false;
}

bool eeprom_write(unsigned address, const void *bytes, size_t count)
{
    const uint8_t *from = bytes;
    uint8_t back[EEPROM_PAGE];
    while (count) {
        size_t piece = EEPROM_PAGE - (size_t)address % EEPROM_PAGE;
        piece = piece < count ? piece : count;
        if (!address_eeprom(address))
            return stop_after_failure();
        for (size_t k = 0; k < piece; k++)
            if (!send(from[k], k + 1 == piece ? WB_I2C_COMMAND_STOP : 0))
                return stop_after_failure();
        if (!eeprom_ready() || !eeprom_read(address, back, piece) || memcmp(back, from, piece))
            return false;
        hal_write(WB_WATCHDOG_KICK, WB_WATCHDOG_KEY); /* a full store takes a few tenths of a second */
        address += (unsigned)piece;
        from += piece;
        count -= piece;
    }
    return true;
}

bool temperature_read(int *sixteenths)
{
    uint8_t bytes[2];
    if (!send(SENSOR << 1, WB_I2C_COMMAND_START) || !send(0, 0))
        return stop_after_failure();
    if (!receive(SENSOR, bytes, sizeof bytes))
        return false;
    *sixteenths = (int16_t)(bytes[0] << 8 | bytes[1]) >> 4;
    return true;
}
