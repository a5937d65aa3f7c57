#include "capture.h"

#include "busy.h"
#include "hal.h"
#include "handlers.h"
#include "scpi/error.h"
#include "scpi/output.h"
#include "scpi/status.h"
#include "settings.h"
#include "ticks.h"

/* Operations of ATTACH_OP. */
enum { FACT_BAR0, FACT_STRIDE, FACT_PAGE, FACT_SQ, FACT_CQ };

struct fact {
    uint8_t op, qid;
    uint16_t link;
    uint32_t size;
    uint64_t address;
};

#define FACTS 64
/* Facts from the user. The first `committed` are passed on to the tracker once a capture runs. */
static struct fact facts[FACTS];
static unsigned told, committed;

static uint32_t clock_ticks(void)
{
    uint32_t ticks = hal_read(WB_BUILD) & WB_BUILD_CLOCK_TICKS;
    return ticks ? ticks : 1;
}

int64_t capture_period_ticks(void)
{
    return (int64_t)(hal_read(WB_ADC_PERIOD)) * clock_ticks();
}

void capture_apply(void)
{
    uint32_t r = (uint32_t)settings[SETTING_DECIMATION], clocks = clock_ticks();
    uint64_t cube = (uint64_t)r * r * r;
    unsigned shift = 0;
    while (UINT64_C(1) << shift < cube)
        shift++;
    uint32_t period = (uint32_t)((settings[SETTING_INTERVAL] + clocks / 2) / clocks);
    hal_write(WB_ADC_PERIOD, period);
    hal_write(WB_DECIMATION, r);
    hal_write(WB_DECIM_MUL, (uint32_t)number_muldiv(INT64_C(1) << 23, UINT64_C(1) << shift, cube));
    hal_write(WB_DECIM_SHIFT, shift);
    hal_write(WB_LINK_EVENTS, (uint32_t)settings[SETTING_LINK_EVENTS]);
    hal_write(WB_COMMAND, WB_COMMAND_RAIL_APPLY);
}

enum progress capture_set_sweep(struct call *call)
{
    enum setting k = call->argument;
    int64_t value = setting_take(call, k);
    if (call->failed)
        return DONE;
    int64_t ticks = clock_ticks(), interval = k == SETTING_INTERVAL ? value : settings[SETTING_INTERVAL];
    int64_t r = k == SETTING_DECIMATION ? value : settings[SETTING_DECIMATION];
    int64_t clocks = (interval + ticks / 2) / ticks;
    if (clocks >= 1 << 20) {
        call_fail(call, SCPI_OUT_OF_RANGE);
    } else if (clocks * ticks * r >= INT64_C(1) << 32) {
        call_fail(call, SCPI_SETTINGS_CONFLICT);
    } else {
        settings[SETTING_INTERVAL] = clocks * ticks;
        settings[SETTING_DECIMATION] = r;
        setting_apply(k);
    }
    return DONE;
}

static void commit(unsigned count)
{
    committed = count;
    busy_with(BUSY_FACTS, count != 0);
}

void capture_stop(void)
{
    hal_write(WB_CONTROL, 0);
}

void capture_reset(void)
{
    capture_stop();
    told = 0;
    commit(0);
}

enum progress capture_initiate(struct call *call)
{
    if (hal_read(WB_STATE) & WB_STATE_RUNNING)
        call_fail(call, SCPI_INIT_IGNORED);
    else
        hal_write(WB_CONTROL, WB_CONTROL_RUN);
    return DONE;
}

enum progress capture_mark(struct call *call)
{
    uint32_t value = (uint32_t)call_unsigned(call, 0, UINT32_MAX);
    if (!call->failed && !busy(BUSY_CAPTURE))
        call_fail(call, SCPI_SETTINGS_CONFLICT);
    if (!call->failed)
        hal_write(WB_MARKER, value);
    return DONE;
}

enum progress capture_set_run(struct call *call)
{
    uint32_t id = (uint32_t)call_unsigned(call, 0, UINT32_MAX);
    if (!call->failed)
        hal_write(WB_RUN_ID, id);
    return DONE;
}

enum progress capture_run(struct call *call)
{
    (void)call;
    put_unsigned(hal_read(WB_RUN_ID));
    return DONE;
}

static void put_key(const char *key, uint64_t value)
{
    put_char(',');
    put_text(key);
    put_char('=');
    put_unsigned(value);
}

enum progress capture_status(struct call *call)
{
    (void)call;
    uint32_t state = hal_read(WB_STATE);
    put_text("state=");
    put_text(state & WB_STATE_STOPPING ? "STOPPING" : state & WB_STATE_RUNNING ? "RUN" : "READY");
    put_key("tick", (uint64_t)ticks_now());
    put_key("blocks", hal_read(WB_BLOCKS));
    put_key("commands", hal_read(WB_COMMANDS));
    put_key("in_flight", hal_read(WB_IN_FLIGHT));
    put_key("tlps_down", hal_read(WB_TLPS_DOWN));
    put_key("tlps_up", hal_read(WB_TLPS_UP));
    put_key("lost_records", hal_read(WB_LOST_RECORDS));
    put_key("lost_events", hal_read(WB_LOST_EVENTS));
    put_key("lost_samples", hal_read(WB_LOST_SAMPLES));
    put_key("errors", scpi_error_count());
    return DONE;
}

static enum progress add(struct call *call, struct fact fact)
{
    if (!call->failed && told == FACTS)
        call_fail(call, SCPI_SETTINGS_CONFLICT);
    if (!call->failed)
        facts[told++] = fact;
    return DONE;
}

enum progress nvme_bar0(struct call *call)
{
    uint64_t address = call_unsigned(call, 0, UINT64_MAX);
    if (address % 0x4000)
        call_fail(call, SCPI_ILLEGAL_VALUE);
    return add(call, (struct fact){.op = FACT_BAR0, .address = address});
}

enum progress nvme_stride(struct call *call)
{
    return add(call, (struct fact){.op = FACT_STRIDE, .size = (uint32_t)call_unsigned(call, 0, 15)});
}

enum progress nvme_page(struct call *call)
{
    return add(call, (struct fact){.op = FACT_PAGE, .size = (uint32_t)call_unsigned(call, 0, 15)});
}

enum progress nvme_queue(struct call *call)
{
    struct fact fact = {.op = call_choice(call, "SQ|CQ") ? FACT_CQ : FACT_SQ};
    fact.qid = (uint8_t)call_unsigned(call, 0, UINT8_MAX);
    fact.address = call_unsigned(call, 0, UINT64_MAX);
    fact.size = (uint32_t)call_unsigned(call, 2, 0x10000);
    /* Queues and vectors pair one to one by default, as Linux sets them up. */
    fact.link = call_has_more(call) ? (uint16_t)call_unsigned(call, 0, UINT16_MAX) : fact.qid;
    return add(call, fact);
}

enum progress nvme_attach(struct call *call)
{
    if (told == committed)
        call_fail(call, SCPI_SETTINGS_CONFLICT);
    else
        commit(told);
    return DONE;
}

enum progress nvme_reset(struct call *call)
{
    (void)call;
    told = 0;
    commit(0);
    hal_write(WB_COMMAND, WB_COMMAND_TRACKER_RESET);
    return DONE;
}

void capture_poll(void)
{
    while (busy(BUSY_FACTS) && !(hal_read(WB_STATE) & WB_STATE_ATTACH_BUSY)) {
        const struct fact *fact = &facts[0];
        hal_write(WB_ATTACH_OP, fact->op);
        hal_write(WB_ATTACH_QID, fact->qid);
        hal_write(WB_ATTACH_LINK, fact->link);
        hal_write(WB_ATTACH_SIZE, fact->size);
        hal_write(WB_ATTACH_ADDRESS_LO, (uint32_t)fact->address);
        hal_write(WB_ATTACH_ADDRESS_HI, (uint32_t)(fact->address >> 32));
        hal_write(WB_COMMAND, WB_COMMAND_ATTACH);
        told--;
        commit(committed - 1);
        for (unsigned k = 0; k < told; k++)
            facts[k] = facts[k + 1];
    }
    if (busy(BUSY_FACTS))
        ticks_deadline(ticks_now() + 10 * TICKS_US);
    status_condition(&status_operation, OPER_CAPTURE, busy(BUSY_CAPTURE) ? OPER_CAPTURE : 0);
}
