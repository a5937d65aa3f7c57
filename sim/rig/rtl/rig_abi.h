// SPDX-License-Identifier: Apache-2.0
// The C interface of a Verilated instrument, as the virtual rig loads it with dlopen. Mirrored by src/rtl.rs; both sides
// check WB_ABI_VERSION and the sizes of the structures before anything else.
#pragma once
#include <stdint.h>

#define WB_ABI_VERSION 8u

// One beat of a TLP stream. Fields as in docs/architecture.md; of `data`, width/32 words count.
struct wb_beat {
    uint64_t tick;
    uint32_t data[4];
    uint8_t valid, dws, first, last, error, lost;
    uint8_t pad[2];
};

// What the instrument sees in the clock behind an edge, but for `step` and `bus_tick`, which belong to the edge.
struct wb_in {
    struct wb_beat down, up;
    uint32_t adc_v, adc_i, adc_f;
    uint32_t reg_wdata;
    uint16_t step;
    uint8_t reg_addr, reg_we;
    uint8_t adc_valid, adc_sdo_v, adc_sdo_i, adc_sdo_f;
    uint8_t perst_n, clkreq_n, link_state;
    uint8_t out_ready;
    uint8_t bus_tick;  // the clock `bus` has this edge too: whenever `bus_active` is high
    uint8_t convert;   // conversions without a capture
    uint8_t adc_fine;  // the board has a fine current path
    uint8_t pad[1];
};

// Everything the instrument shows.  A port that a build does not have reads 0.
struct wb_out {
    uint64_t now, deadline;
    uint32_t out_data, reg_rdata;
    uint8_t quiet, skip_down, skip_up, out_valid, out_last, adc_start, adc_cnv, adc_sck;
    uint8_t bus_active;
    uint8_t converted;  // the fields below are those of a conversion; else of an earlier one
    uint8_t rail_flags;
    uint8_t completed;  // `completion` is a command at its CQE; else an earlier one
    uint8_t rail_beyond;
    uint8_t pad[3];
    uint64_t rail_tick;
    uint32_t rail_period, rail_v_code, rail_i_code;
    int32_t rail_v, rail_i;
    uint32_t rail_f_code;
    int32_t rail_guard;
    uint32_t completion[6];  // bits of COMPLETION (nvme/layouts.py), the lowest first
};

// What was built.
struct wb_info {
    uint32_t abi_version, in_size, out_size;
    uint32_t tlp_width;   // bits of a TLP stream
    uint32_t serial_adc;  // 1: bit-serial ADC pins, 0: words
};

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)  // the rest of the library stays inside it
const struct wb_info *wb_info(void);
// A model in its power-on state, at tick 0.
void *wb_new(struct wb_out *out);
void wb_free(void *model);
// One rising edge; `out` is what is shown in the clock behind it, in which the instrument sees `in`.
void wb_clock(void *model, const struct wb_in *in, struct wb_out *out);
// What register `address` shows in this clock. Not while a write is on its way: `reg_we` of the last edge was 0.
uint32_t wb_peek(void *model, uint8_t address);
#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
