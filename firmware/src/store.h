/* What the EEPROM stores: identity, calibration, saved settings, each record with a length, a version and a CRC-32. */
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

/* false: there is none, or it is damaged. `slot` of RECORD_STATE: 0..4; else 0. */
bool store_load(enum record record, unsigned slot, void *bytes, size_t count);
bool store_save(enum record record, unsigned slot, const void *bytes, size_t count);

#endif
