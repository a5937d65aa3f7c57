// SPDX-License-Identifier: Apache-2.0
// The C interface of controller_abi.h over the class that Verilator makes of controller_top.v.
#include "Vcontroller_top.h"
#include "Vcontroller_top___024root.h"
#include "controller_abi.h"
#include "verilated.h"

#include <memory>

// What Vcontroller_top::eval() calls, less its housekeeping for threads and tasks, of which this model has none.
void Vcontroller_top___024root___eval(Vcontroller_top___024root *root);

namespace {

// Clocks for which the core must have slept, and no pin moved, before clocks are left out: more than any pipeline in there has stages.
constexpr unsigned kSettled = 16;

struct Model {
    VerilatedContext context;
    std::unique_ptr<Vcontroller_top> top;
    unsigned still = 0;
    uint64_t now = 0;
    uint8_t pins = 0;
    uint64_t levels = 0;
    bool answered = false;  // the access that is shown was handed out
};

inline uint8_t pins_of(const Vcontroller_top &top) {
    return static_cast<uint8_t>(top.scl_low | top.sda_low << 1 | top.load_switch << 2 | top.perst_low << 3 | top.clkreq_low << 4 | top.load << 5);
}

inline void edge(Vcontroller_top &top) {
    top.clk = 1;
    Vcontroller_top___024root___eval(top.rootp);
    // The falling edge. Nothing is clocked by it: its level is noted here.
    top.clk = 0;
    top.rootp->__Vtrigprevexpr___TOP__clk__0 = 0;
}

void show(const Model &m, wc_out &out) {
    const Vcontroller_top &top = *m.top;
    out.now = m.now;
    out.deadline = top.deadline;
    out.reg_addr = top.reg_addr;
    out.reg_wdata = top.reg_wdata;
    out.load_switch = top.load_switch;
    out.perst_low = top.perst_low;
    out.clkreq_low = top.clkreq_low;
    out.scl_low = top.scl_low;
    out.sda_low = top.sda_low;
    out.active = top.active;
    out.rail_wanted = top.rail_wanted;
    out.rail_level = static_cast<int32_t>(top.rail_level << 8) >> 8;
    out.zero = top.zero;
    out.load = top.load;
    out.watched = top.watched;
    out.console_ready = top.console_in_ready;
    out.console_waits = top.console_out_valid;
}

}  // namespace

extern "C" {

const struct wc_info *wc_info(void) {
    static const struct wc_info info = {WC_ABI_VERSION, sizeof(wc_in), sizeof(wc_out), WC_ROM_WORDS};
    return &info;
}

void *wc_new(const uint32_t *firmware, uint32_t words, wc_out *out) {
    auto *model = new Model;
    model->top = std::make_unique<Vcontroller_top>(&model->context, "top");
    Vcontroller_top &top = *model->top;
    top.clk = 0;
    top.scl_i = top.sda_i = top.perst_n = top.clkreq_n = 1;
    top.poke = 1;
    top.eval();  // initial values
    for (uint32_t k = 0; k < WC_ROM_WORDS; ++k) {
        top.poke_address = static_cast<uint16_t>(k);
        top.poke_word = k < words ? firmware[k] : 0;
        edge(top);
    }
    top.poke = 0;
    Vcontroller_top___024root___eval(top.rootp);
    model->pins = pins_of(top);
    *out = wc_out{};
    show(*model, *out);
    return model;
}

void wc_free(void *model) {
    auto *m = static_cast<Model *>(model);
    m->top->final();
    delete m;
}

void wc_run(void *model, const wc_in *in, wc_out *out) {
    Model &m = *static_cast<Model *>(model);
    Vcontroller_top &top = *m.top;
    // Runs may be as short as a clock: the core's sleep goes on over them while nothing comes in.
    const uint64_t levels = in->perst_n | in->clkreq_n << 1 | in->rail_good << 2 | in->scl << 3 | in->sda << 4 | in->link_state << 5 |
                            static_cast<uint64_t>(in->reg_rdata) << 32;
    const bool comes = levels != m.levels || in->rail_valid || in->completed || in->console_count;
    const bool goes = m.answered || (in->console_room && top.console_out_valid);
    if (comes || goes || in->now - m.now > in->ticks || in->now >= top.deadline) m.still = 0;
    m.levels = levels;
    top.perst_n = in->perst_n;
    top.clkreq_n = in->clkreq_n;
    top.link_state = in->link_state;
    top.rail_good = in->rail_good;
    top.scl_i = in->scl;
    top.sda_i = in->sda;
    top.reg_rdata = in->reg_rdata;
    top.rail_valid = in->rail_valid;
    if (in->rail_valid) {
        top.rail_tick = in->rail_tick;
        top.rail_period = in->rail_period;
        top.rail_v = in->rail_v & 0xFFFFFF;
        top.rail_i = in->rail_i & 0xFFFFFF;
        top.rail_guard = in->rail_guard & 0xFFFFFF;
        top.rail_beyond = in->rail_beyond;
        top.rail_v_code = in->rail_v_code;
        top.rail_i_code = in->rail_i_code;
        top.rail_f_code = in->rail_f_code;
        top.rail_flags = in->rail_flags;
    }
    top.completed = in->completed;
    if (in->completed)
        for (unsigned i = 0; i < 6; ++i) top.completion[i] = in->completion[i];
    uint8_t stop = WC_CLOCKS;
    unsigned taken = 0, said = 0;
    uint32_t clocks = 0;
    uint64_t next = in->now;
    while (true) {
        if ((top.reg_we | top.reg_re) && !m.answered) {
            m.answered = true;
            stop = top.reg_we ? WC_WRITE : WC_READ;
            break;
        }
        if (const uint8_t pins = pins_of(top); pins != m.pins) {
            m.pins = pins;
            m.still = 0;
            stop = WC_PINS;
            break;
        }
        if (in->skip && m.still >= kSettled) {
            stop = WC_QUIET;
            break;
        }
        if (clocks == in->clocks) break;
        top.console_in_valid = taken < in->console_count;
        if (top.console_in_valid) top.console_in = in->console[taken];
        top.console_out_ready = said < in->console_room;
        taken += top.console_in_valid & top.console_in_ready;
        if (top.console_out_valid & top.console_out_ready) out->console[said++] = top.console_out;
        top.now = next;
        edge(top);
        top.rail_valid = top.completed = 0;
        m.now = next;
        next += in->ticks;
        ++clocks;
        m.answered = false;
        m.still = top.asleep && !(top.console_in_valid & top.console_in_ready) ? m.still + 1 : 0;
    }
    out->clocks = clocks;
    out->stop = stop;
    out->console_taken = static_cast<uint8_t>(taken);
    out->console_count = static_cast<uint8_t>(said);
    show(m, *out);
}

}  // extern "C"
