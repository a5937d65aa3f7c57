/* The SSD model behind the streams of ssd_model.sv: one call for each double word. Errors end the simulation with one line. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "wattbell_ssd.h"

#ifdef __cplusplus /* as Verilator compiles it */
extern "C" {
#endif

static wattbell_ssd *drive;
static uint8_t down[WATTBELL_SSD_TLP_BYTES], up[WATTBELL_SSD_TLP_BYTES];
static size_t down_bytes, up_bytes, up_taken;

static void check(int result) {
    if (result < 0) {
        fprintf(stderr, "ssd_dpi: error: %s\n", wattbell_ssd_error());
        exit(1);
    }
}

void ssd_open(const char *profile) { check(wattbell_ssd_new(profile, NULL, &drive)); }

/* Takes a double word to the drive; the last one of a TLP sends it. Byte 0 of the TLP is in bits 7:0 of the first one. */
void ssd_down(int64_t time_ps, uint32_t data, unsigned char last) {
    for (int byte = 0; byte < 4 && down_bytes < sizeof down; byte++) down[down_bytes++] = (uint8_t)(data >> 8 * byte);
    if (last) {
        check(wattbell_ssd_push(drive, (uint64_t)time_ps, down, down_bytes));
        down_bytes = 0;
    }
}

/* Gives a double word of the drive; returns 0 if there is none, 1, or 2 with the last one of a TLP. */
int ssd_up(int64_t time_ps, uint32_t *data) {
    *data = 0;
    if (up_taken == up_bytes) {
        uint64_t sent_ps;
        check(wattbell_ssd_advance(drive, (uint64_t)time_ps));
        int taken = wattbell_ssd_take(drive, &sent_ps, up, &up_bytes);
        check(taken);
        up_taken = 0;
        if (!taken) {
            up_bytes = 0;
            return 0;
        }
    }
    for (int byte = 0; byte < 4; byte++) *data |= (uint32_t)up[up_taken++] << 8 * byte;
    return up_taken == up_bytes ? 2 : 1;
}

int64_t ssd_energy_pj(int64_t time_ps) {
    check(wattbell_ssd_advance(drive, (uint64_t)time_ps));
    return (int64_t)wattbell_ssd_energy_pj(drive);
}

#ifdef __cplusplus
}
#endif
