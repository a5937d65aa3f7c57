#include "store.h"

#include <string.h>

#include "i2c.h"

/* Each record has two slots. The one with the higher sequence number is read, the other is written: if a power failure interrupts
 * a write, the previous record is still there. */
#define PLACE 512
#define MAGIC 0x57 /* 'W' */
#define VERSION 1

struct head {
    uint8_t magic, version;
    uint16_t count;
    uint32_t sequence, crc;
};

static unsigned place_of(enum record record, unsigned slot, unsigned copy)
{
    return (2 * ((unsigned)record + slot) + copy) * PLACE;
}

static uint32_t crc32(uint32_t crc, const void *bytes, size_t count)
{
    const uint8_t *p = bytes;
    crc = ~crc;
    while (count--) {
        crc ^= *p++;
        for (int k = 0; k < 8; k++)
            crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
    }
    return ~crc;
}

static uint32_t crc_of(const struct head *head, const void *bytes)
{
    return crc32(crc32(0, &head->sequence, sizeof head->sequence), bytes, head->count);
}

/* Reads a slot; if it is not valid, the contents of `bytes` are undefined. */
static bool load(unsigned place, struct head *head, void *bytes, size_t count)
{
    return eeprom_read(place, head, sizeof *head) && head->magic == MAGIC && head->version == VERSION && head->count == count &&
           eeprom_read(place + sizeof *head, bytes, count) && crc_of(head, bytes) == head->crc;
}

/* Which copy is in use: 0, 1, or -1 for none. `bytes` receives it. */
static int newest(enum record record, unsigned slot, void *bytes, size_t count, uint32_t *sequence)
{
    struct head first, second;
    bool have_second = load(place_of(record, slot, 1), &second, bytes, count);
    bool have_first = load(place_of(record, slot, 0), &first, bytes, count);
    *sequence = have_first ? first.sequence : have_second ? second.sequence : 0;
    if (have_second && (!have_first || (int32_t)(second.sequence - first.sequence) > 0)) {
        *sequence = second.sequence;
        return load(place_of(record, slot, 1), &second, bytes, count) ? 1 : -1;
    }
    return have_first ? 0 : -1;
}

bool store_load(enum record record, unsigned slot, void *bytes, size_t count)
{
    uint32_t sequence;
    return newest(record, slot, bytes, count, &sequence) >= 0;
}

bool store_save(enum record record, unsigned slot, const void *bytes, size_t count)
{
    static uint8_t scratch[PLACE];
    struct head head = {.magic = MAGIC, .version = VERSION, .count = (uint16_t)count};
    if (count + sizeof head > PLACE)
        return false;
    int used = newest(record, slot, scratch, count, &head.sequence);
    unsigned place = place_of(record, slot, used == 0 ? 1 : 0);
    head.sequence++;
    head.crc = crc_of(&head, bytes);
    /* the head last: without it the slot counts as empty */
    memset(scratch, 0, sizeof head);
    return eeprom_write(place, scratch, sizeof head) && eeprom_write(place + sizeof head, bytes, count) &&
           eeprom_write(place, &head, sizeof head);
}
