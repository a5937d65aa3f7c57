/* libFuzzer target: arbitrary bytes to the control port, cut anywhere, with a reader that may stall. It must settle and then answer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "console.h"
#include "hal.h"
#include "model.h"

#define WAIT (INT64_C(20000) * 1000000000) /* longer than the longest measurement: 1000 x 10 s */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned long lines;

static void report(void)
{
    fprintf(stderr, "fuzz: %lu lines\n", lines);
}

static void fail(const char *what)
{
    fprintf(stderr, "fuzz: %s, after %lu lines\n", what, lines);
    abort();
}

static void drain(void)
{
    static char bytes[1 << 16];
    model_take(bytes, sizeof bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool first = true;
    if (first) {
        atexit(report);
        memset(model_eeprom(), 0xFF, 8192);
        first = false;
    }
    if (size < 2)
        return 0;
    /* The first two bytes choose the board, where the rail is, how the input is cut and whether the reader stalls. */
    console_start(data[0] & 3);
    model_set_rail(data[0] & 4 ? 6.0 : 3.3, data[0] & 8 ? 4.5 : 0.02);
    model_set_fine(data[0] & 16);
    model_set_i2c(data[0] & 32, data[0] & 64);
    model_set_rail_good(data[0] & 128);
    size_t cut = (size_t)(data[1] & 31) + 1;
    unsigned room = data[1] & 32 ? 7 : 1 << 16;
    model_set_room(room);
    for (size_t k = 2; k < size; k += cut) {
        size_t piece = size - k < cut ? size - k : cut;
        for (size_t n = 0; n < piece; n++)
            lines += data[k + n] == '\n';
        model_feed((const char *)data + k, (unsigned)piece);
        if (data[1] & 64)
            console_advance(100000);
        if (data[1] & 128)
            drain();
    }
    /* Let it finish, with the reader reading. */
    model_set_room(1 << 16);
    model_feed("\n", 1);
    for (int k = 0; console_settle(WAIT); k++) {
        if (k == 3)
            fail("a command waits for ever");
        drain();
    }
    if (hal_read(WB_RESET_CAUSE) & WB_RESET_CAUSE_WATCHDOG)
        fail("the watchdog bit");
    drain();
    char answer[64] = {0};
    model_feed("\n*CLS;:SYST:VERS?\n", 18);
    if (console_settle(WAIT))
        fail("it does not answer");
    model_take(answer, sizeof answer - 1);
    if (strcmp(answer, "1999.0\n"))
        fail("a wrong answer");
    lines += 3;
    return 0;
}
