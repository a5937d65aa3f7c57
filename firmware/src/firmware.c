#include "firmware.h"

#include "busy.h"
#include "calibrate.h"
#include "capture.h"
#include "diagnose.h"
#include "hal.h"
#include "load.h"
#include "meter.h"
#include "power.h"
#include "scpi/engine.h"
#include "scpi/error.h"
#include "scpi/output.h"
#include "scpi/status.h"
#include "system.h"
#include "ticks.h"
#include "trigger.h"

#define WATCHDOG_MS 2000
#define KICK_EVERY (500 * TICKS_MS)
#define DEVICE_CLEAR 0x03
#define INTAKE 256
#define INPUT_AT_MOST 4096 /* more than the hardware buffers */

/* Input received while a message is being executed. It is read early so that 03h is seen whatever a command is waiting for. */
static char intake[INTAKE];
static unsigned intake_head, intake_used;
static bool in_cut_line;

/* Drops input sent before a restart of the core: the beginning may be lost, and the rest of a message means something else. */
static void drop_input(void)
{
    in_cut_line = false;
    if (!(hal_read(WB_RESET_CAUSE) & (WB_RESET_CAUSE_WATCHDOG | WB_RESET_CAUSE_RESTART)))
        return;
    for (unsigned k = 0; k < INPUT_AT_MOST; k++) {
        uint32_t word = hal_read(WB_CONSOLE_IN);
        if (!(word & WB_CONSOLE_IN_VALID))
            break;
        in_cut_line = (char)(word & WB_CONSOLE_IN_DATA) != '\n';
    }
}

void firmware_init(void)
{
    intake_used = 0;
    drop_input();
    ticks_init();
    hal_write(WB_IRQ_ENABLE, 0);
    hal_write(WB_ACTIVE, 1);
    /* A restart in the middle of a self-test or an autozero: the converters see the drive again before protection is on. */
    hal_write(WB_TEST_CONTROL, 0);
    hal_write(WB_AFE, 0);
    hal_write(WB_WATCHDOG_TIMEOUT, (uint32_t)(WATCHDOG_MS * TICKS_MS >> 20));
    hal_write(WB_WATCHDOG_KICK, WB_WATCHDOG_KEY);
    scpi_reset_engine();
    scpi_error_clear();
    status_power_on();
    power_init();
    system_init();
    calibrate_init();
    trigger_reset();
    meter_reset();
}

/* Aborts the command under way and releases whatever it holds. */
static void device_clear(void)
{
    intake_used = 0;
    scpi_reset_engine();
    meter_abort();
    hal_write(WB_AFE, 0);
    load_off();
    diagnose_abort();
    status_condition(&status_operation, OPER_CALIBRATING, 0);
}

static bool take_input(void)
{
    bool any = false;
    while (intake_used < INTAKE) {
        uint32_t word = hal_read(WB_CONSOLE_IN);
        if (!(word & WB_CONSOLE_IN_VALID))
            break;
        char c = (char)(word & WB_CONSOLE_IN_DATA);
        any = true;
        if (c == DEVICE_CLEAR) {
            in_cut_line = false;
            device_clear();
        } else if (in_cut_line) {
            in_cut_line = c != '\n';
        } else {
            intake[(intake_head + intake_used++) % INTAKE] = c;
        }
    }
    while (intake_used && scpi_ready()) {
        scpi_byte(intake[intake_head]);
        intake_head = (intake_head + 1) % INTAKE;
        intake_used--;
        any = true;
    }
    return any;
}

static bool give_output(void)
{
    bool any = false;
    while (!output_empty() && hal_read(WB_CONSOLE_STATE) & WB_CONSOLE_STATE_ROOM) {
        hal_write(WB_CONSOLE_OUT, (uint32_t)output_take());
        any = true;
    }
    return any;
}

bool firmware_step(void)
{
    hal_write(WB_WATCHDOG_KICK, WB_WATCHDOG_KEY);
    bool active = take_input();
    if (active)
        hal_write(WB_ACTIVE, 1);
    power_poll();
    trigger_poll();
    meter_poll();
    capture_poll();
    active |= scpi_step();
    system_poll();
    active |= give_output();
    uint32_t console = (intake_used < INTAKE ? WB_IRQ_ENABLE_CONSOLE_IN : 0) | (output_empty() ? 0 : WB_IRQ_ENABLE_CONSOLE_OUT);
    hal_write(WB_IRQ_ENABLE, (hal_read(WB_IRQ_ENABLE) & ~(WB_IRQ_ENABLE_CONSOLE_IN | WB_IRQ_ENABLE_CONSOLE_OUT)) | console |
                                 WB_IRQ_ENABLE_WAKE);
    ticks_deadline(ticks_now() + KICK_EVERY);
    if (!active) {
        hal_write(WB_ACTIVE, !scpi_ready() || busy(BUSY_OPERATIONS | BUSY_TRIGGER) || meter_triggered());
        ticks_arm();
    }
    return active;
}
