/* An NVMe SSD model at TLP level: give it the TLPs of your host, get its TLPs, times and power. docs/ssd-in-a-design.md
 *
 * Times are picoseconds. Time 0 is the instant at which the link is up. The time of a TLP is the instant of its first symbol. TLPs are bytes as
 * on the wire: prefixes, header, payload, digest. A drive may be used by one thread at a time. No call ends the program.
 */
#ifndef WATTBELL_SSD_H
#define WATTBELL_SSD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Results. Below 0: nothing happened, and wattbell_ssd_error() has one line that says why. */
#define WATTBELL_SSD_NOTHING 0    /* done; of wattbell_ssd_take...: there is nothing to take */
#define WATTBELL_SSD_TAKEN 1      /* something was taken */
#define WATTBELL_SSD_ARGUMENT (-1) /* a null pointer, a buffer that is too small, text that is not UTF-8, an unknown value */
#define WATTBELL_SSD_PROFILE (-2)  /* no such profile, or none that can be used */
#define WATTBELL_SSD_MALFORMED (-3) /* the bytes are no TLP that a host may send */
#define WATTBELL_SSD_TIME (-4)     /* the time goes back, or lies beyond 2^63 - 1 */
#define WATTBELL_SSD_DEFECT (-5)   /* a defect of the model; free this drive */

/* Bytes of a buffer for any TLP. */
#define WATTBELL_SSD_TLP_BYTES 4128

/* wattbell_ssd_next_ps: the drive does nothing until the host sends something. */
#define WATTBELL_SSD_NEVER UINT64_MAX

typedef struct wattbell_ssd wattbell_ssd;

typedef struct {
    uint64_t seed;     /* of everything random */
    uint8_t condition; /* contents before the first write: 0 the test's data, 1 full, 2 empty */
    uint8_t store;     /* 1: written data is kept and returned; 0: reads return zeros */
    uint8_t rail;      /* 1: changes of the rail are kept for wattbell_ssd_take_rail */
    uint32_t ready_us; /* from CC.EN to CSTS.RDY; 0: as the profile says */
} wattbell_ssd_options;

typedef struct {
    uint64_t time_ps;
    int64_t current_na;
    int64_t voltage_nv;
} wattbell_ssd_rail;

/* Switches a drive on. profile: name of a built-in profile, or path of a .toml file. options: NULL for {0, 0, 1, 0, 0}. */
int wattbell_ssd_new(const char *profile, const wattbell_ssd_options *options, wattbell_ssd **drive);

/* Frees a drive; NULL is allowed. */
void wattbell_ssd_free(wattbell_ssd *drive);

/* The reason of this thread's last result below 0. Valid until the thread's next call. */
const char *wattbell_ssd_error(void);

/* Gives the drive a TLP of the host. The drive's time becomes time_ps. */
int wattbell_ssd_push(wattbell_ssd *drive, uint64_t time_ps, const uint8_t *tlp, size_t length);

/* Does everything that is due until time_ps, which becomes the drive's time. */
int wattbell_ssd_advance(wattbell_ssd *drive, uint64_t time_ps);

/* Takes the next TLP that the drive has sent until now. buffer: WATTBELL_SSD_TLP_BYTES. */
int wattbell_ssd_take(wattbell_ssd *drive, uint64_t *time_ps, uint8_t *buffer, size_t *length);

/* Takes the next change of the rail. A change is final a little later than it happens, because near changes are merged. */
int wattbell_ssd_take_rail(wattbell_ssd *drive, wattbell_ssd_rail *step);

/* When the drive sends or does something next, if the host sends nothing before that. WATTBELL_SSD_NEVER also for NULL. */
uint64_t wattbell_ssd_next_ps(wattbell_ssd *drive);

/* Energy since time 0 in picojoule; the difference of two, divided by their distance in ps, is a mean power in watt. */
uint64_t wattbell_ssd_energy_pj(wattbell_ssd *drive);

/* Power at present in nanowatt. */
uint64_t wattbell_ssd_power_nw(wattbell_ssd *drive);

/* TLPs of the host that the drive threw away: completions of no request, writes to foreign addresses, poisoned writes. */
uint64_t wattbell_ssd_discarded_tlps(wattbell_ssd *drive);

#ifdef __cplusplus
}
#endif

#endif
