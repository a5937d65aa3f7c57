// SPDX-License-Identifier: Apache-2.0
// The C interface of the Verilated controller, as the virtual rig loads it with dlopen. Mirrored by src/soc.rs; both sides check
// WC_ABI_VERSION and the sizes of the structures before anything else.
#pragma once
#include <stdint.h>

#define WC_ABI_VERSION 6u
#define WC_CONSOLE 256u

// Why a run came to its end.
enum wc_stop {
    WC_CLOCKS,  // as many as were asked for
    WC_READ,    // register `reg_addr` of the instrument is read: `reg_rdata` of the next run is the answer
    WC_WRITE,   // `reg_wdata` is written to register `reg_addr` of the instrument
    WC_PINS,    // a pin has changed
    WC_QUIET,   // the core sleeps: nothing changes before `deadline` unless an input does
};

// What the controller sees from the first edge of a run on.
struct wc_in {
    uint64_t now;    // in the clock behind the first edge
    uint32_t ticks;  // by which `now` advances with each further edge
    uint32_t clocks; // edges, at most
    uint32_t reg_rdata;
    uint32_t skip;   // end at WC_QUIET
    uint64_t rail_tick;
    uint32_t rail_period, rail_v_code, rail_i_code, rail_f_code;
    int32_t rail_v, rail_i, rail_guard;
    uint32_t completion[6];  // as the instrument's
    uint8_t rail_flags;
    uint8_t rail_valid;  // a conversion, in the clock behind the first edge
    uint8_t perst_n, clkreq_n, link_state, rail_good, scl, sda;
    uint8_t console_room;  // bytes that are taken of it, at most
    uint8_t console_count; // bytes for it
    uint8_t console[WC_CONSOLE];
    uint8_t completed;  // a completion, in the clock behind the first edge
    uint8_t rail_beyond;
};

// What it shows in the clock behind the last edge, and the console's traffic.
struct wc_out {
    uint64_t now, deadline;
    uint32_t clocks, reg_wdata;
    int32_t rail_level;   // a conversion whose guard is above this is looked at
    uint8_t reg_addr, stop, load_switch, perst_low, clkreq_low, scl_low, sda_low, active;
    uint8_t console_taken, console_count;
    uint8_t console_ready;  // it would take a byte
    uint8_t console_waits;  // it has a byte more
    uint8_t rail_wanted;  // each conversion is looked at
    uint8_t zero;         // inputs that are shorted: 1 voltage, 2 current
    uint8_t watched;      // what is looked at: 1 changes of PERST#, CLKREQ# and link state, 2 completions, 4 an action is to come
    uint8_t load;         // test loads that are on: 1 coarse, 2 fine
    uint8_t pad[4];
    uint8_t console[WC_CONSOLE];
};

// What was built.
struct wc_info {
    uint32_t abi_version, in_size, out_size, rom_words;
};

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)  // the rest of the library stays inside it
const struct wc_info *wc_info(void);
// A controller in its power-on state, with `words` words of firmware in its read-only memory.
void *wc_new(const uint32_t *firmware, uint32_t words, struct wc_out *out);
void wc_free(void *model);
void wc_run(void *model, const struct wc_in *in, struct wc_out *out);
#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
