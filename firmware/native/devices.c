#include "devices.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "hal.h"
#include "model.h"

#define EEPROM_BYTES 8192
#define EEPROM_PAGE 32
#define EEPROM_WRITE_NS 5000000

static struct {
    uint8_t bytes[EEPROM_BYTES];
    bool there;
    unsigned address, received; /* bytes since START */
    int64_t busy_until;
    uint8_t page[EEPROM_PAGE], before[EEPROM_PAGE]; /* page that STOP will write, or has begun to write; its content before */
    uint32_t loaded;                                /* which bytes of `page` */
    unsigned place;                                 /* of the page */
} eeprom;
static struct {
    bool there;
    double celsius;
    unsigned sent;
} sensor;
static struct {
    int device; /* 0: none addressed */
    bool reading;
} i2c;

static bool send(uint8_t byte, int64_t now)
{
    bool eeprom_answers = eeprom.there && now >= eeprom.busy_until;
    if (i2c.device == -1) { /* behind START: the address */
        i2c.reading = byte & 1;
        i2c.device = byte >> 1 == 0x50 && eeprom_answers ? 0x50 : byte >> 1 == 0x48 && sensor.there ? 0x48 : 0;
        eeprom.received = sensor.sent = 0;
        return i2c.device != 0;
    }
    if (i2c.device == 0x50 && !i2c.reading) {
        if (eeprom.received < 2)
            eeprom.address = (eeprom.address << 8 | byte) % EEPROM_BYTES;
        else {
            eeprom.page[eeprom.address % EEPROM_PAGE] = byte;
            eeprom.loaded |= 1u << eeprom.address % EEPROM_PAGE;
            eeprom.address = (eeprom.address & ~31u) | ((eeprom.address + 1) & 31); /* wraps in its page */
        }
        eeprom.received++;
    }
    return i2c.device != 0;
}

static uint8_t receive(void)
{
    if (i2c.device == 0x50) {
        uint8_t byte = eeprom.bytes[eeprom.address];
        eeprom.address = (eeprom.address + 1) % EEPROM_BYTES;
        return byte;
    }
    if (i2c.device == 0x48) {
        int raw = (int)lround(sensor.celsius * 16) * 16;
        return (uint8_t)(sensor.sent++ ? raw : raw >> 8);
    }
    return 0xFF;
}

uint32_t devices_transfer(uint32_t command, int64_t now)
{
    uint32_t state = WB_I2C_STATE_BUSY;
    if (command & WB_I2C_COMMAND_START) {
        i2c.device = -1;
        if (now >= eeprom.busy_until)
            eeprom.loaded = 0;
    }
    if (command & WB_I2C_COMMAND_READ)
        state |= (uint32_t)receive() << WB_I2C_STATE_DATA_SHIFT;
    else
        state |= send((uint8_t)command, now) ? WB_I2C_STATE_ACK : 0;
    if (command & WB_I2C_COMMAND_STOP) {
        if (i2c.device == 0x50 && !i2c.reading && eeprom.received > 2) {
            eeprom.busy_until = now + EEPROM_WRITE_NS;
            eeprom.place = eeprom.address & ~(EEPROM_PAGE - 1u);
            memcpy(eeprom.before, &eeprom.bytes[eeprom.place], EEPROM_PAGE);
            for (unsigned k = 0; k < EEPROM_PAGE; k++)
                if (eeprom.loaded >> k & 1)
                    eeprom.bytes[eeprom.place + k] = eeprom.page[k];
        }
        i2c.device = 0;
    }
    return state;
}

void devices_power_on(void)
{
    eeprom.there = sensor.there = true;
    eeprom.busy_until = 0;
    eeprom.loaded = 0;
    sensor.celsius = 31.25;
    i2c.device = 0;
}

void model_set_i2c(bool with_eeprom, bool with_sensor)
{
    eeprom.there = with_eeprom;
    sensor.there = with_sensor;
}

void model_set_eeprom_busy(int64_t ns)
{
    eeprom.busy_until = model_now() + ns;
}

void model_set_temperature(double celsius)
{
    sensor.celsius = celsius;
}

bool model_tear_page(int how)
{
    if (model_now() >= eeprom.busy_until)
        return false;
    for (int k = 0; k < EEPROM_PAGE; k++) {
        uint8_t *byte = &eeprom.bytes[eeprom.place + (unsigned)k];
        bool loaded = eeprom.loaded >> k & 1;
        if (how == TEAR_ERASED)
            *byte = 0xFF;
        else if (how == TEAR_WEAK)
            *byte = eeprom.before[k] & (loaded ? eeprom.page[k] : 0xFF); /* cells half way between the two */
        else if (k >= how)
            *byte = eeprom.before[k];
    }
    return true;
}

uint8_t *model_eeprom(void)
{
    return eeprom.bytes;
}
