/* Contents of the EEPROM: identity, calibration, saved settings, each record with a length, a version and a CRC-32. */
#ifndef STORE_H
#define STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct identity {
    char model[20], serial[20]; /* zero-terminated */
};

struct line_fit {
    int32_t offset; /* code at zero, 1/256 code */
    uint32_t gain;  /* register units a code, times 2^24 */
};

struct path_delay {
    uint32_t delay, u; /* ps, u with k = 2; u is 0 if not calibrated */
};

enum channel { CHANNEL_VOLTAGE, CHANNEL_CURRENT, CHANNEL_FINE, CHANNELS };

struct calibration {
    struct line_fit channel[CHANNELS];
    struct path_delay delay[2]; /* coarse, fine */
    uint32_t count;             /* how often it was stored */
    int32_t temperature;        /* 1/16 degree Celsius when it was stored */
};

enum record { RECORD_IDENTITY, RECORD_CALIBRATION, RECORD_STATE };

/* State of a record. A copy may be damaged because the power failed while it was written, or later. */
enum stored {
    STORE_NEVER,    /* it was never saved */
    STORE_LOST,     /* no copy can be used */
    STORE_DOUBTFUL, /* one copy can be used; the other is damaged, and may have been newer */
    STORE_GOOD,
};

/* `slot` of RECORD_STATE: 0..4; else 0. `bytes` is undefined unless the result is DOUBTFUL or GOOD. */
enum stored store_load(enum record record, unsigned slot, void *bytes, size_t count);
/* false: the EEPROM does not answer or keeps other bytes. The record is then as before, or as given if only the check failed. */
bool store_save(enum record record, unsigned slot, const void *bytes, size_t count);

#endif
