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

enum copy { COPY_ERASED, COPY_UNREAD, COPY_DAMAGED, COPY_GOOD };

/* Reads one copy. `bytes` is undefined unless the copy is good. */
static enum copy load(unsigned place, struct head *head, void *bytes, size_t count)
{
    if (!eeprom_read(place, head, sizeof *head))
        return COPY_UNREAD;
    if (head->magic == 0xFF && head->version == 0xFF && head->count == 0xFFFF)
        return COPY_ERASED;
    if (head->magic != MAGIC || head->version != VERSION || head->count != count)
        return COPY_DAMAGED;
    if (!eeprom_read(place + sizeof *head, bytes, count))
        return COPY_UNREAD;
    return crc_of(head, bytes) == head->crc ? COPY_GOOD : COPY_DAMAGED;
}

static struct newest {
    enum stored stored;
    unsigned copy; /* the one in use, or 1 if there is none */
    uint32_t sequence;
    bool unread; /* a copy could not be read, and may be good */
} newest(enum record record, unsigned slot, void *bytes, size_t count)
{
    struct head heads[2];
    enum copy second = load(place_of(record, slot, 1), &heads[1], bytes, count);
    enum copy first = load(place_of(record, slot, 0), &heads[0], bytes, count);
    struct newest found = {STORE_GOOD, first != COPY_GOOD, 0, first == COPY_UNREAD || second == COPY_UNREAD};
    if (second == COPY_GOOD && (first != COPY_GOOD || (int32_t)(heads[1].sequence - heads[0].sequence) > 0)) {
        found.copy = 1;
        second = load(place_of(record, slot, 1), &heads[1], bytes, count);
        found.unread |= second == COPY_UNREAD;
    }
    bool usable = (found.copy ? second : first) == COPY_GOOD;
    if (usable)
        found.sequence = heads[found.copy].sequence;
    if (first == COPY_UNREAD || first == COPY_DAMAGED || second == COPY_UNREAD || second == COPY_DAMAGED)
        found.stored = usable ? STORE_DOUBTFUL : STORE_LOST;
    else if (!usable)
        found.stored = STORE_NEVER;
    return found;
}

enum stored store_load(enum record record, unsigned slot, void *bytes, size_t count)
{
    return newest(record, slot, bytes, count).stored;
}

bool store_save(enum record record, unsigned slot, const void *bytes, size_t count)
{
    static uint8_t scratch[PLACE];
    struct head head = {.magic = MAGIC, .version = VERSION, .count = (uint16_t)count};
    if (count + sizeof head > PLACE)
        return false;
    struct newest found = newest(record, slot, scratch, count);
    if (found.unread) /* what would be overwritten may be the only good copy */
        return false;
    unsigned place = place_of(record, slot, !found.copy);
    head.sequence = found.sequence + 1;
    head.crc = crc_of(&head, bytes);
    /* the head last: without it the slot counts as damaged */
    memset(scratch, 0, sizeof head);
    return eeprom_write(place, scratch, sizeof head) && eeprom_write(place + sizeof head, bytes, count) &&
           eeprom_write(place, &head, sizeof head);
}
