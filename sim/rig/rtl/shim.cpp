// SPDX-License-Identifier: Apache-2.0
// The C interface of rig_abi.h over the class that Verilator makes of rig_top.v.
//
// Set by build-rtl.sh: WB_WIDTH (bits of a TLP stream), WB_SERIAL_ADC (1: bit-serial ADC pins).
#include "Vrig_top.h"
#include "Vrig_top___024root.h"
#include "rig_abi.h"
#include "verilated.h"

#include <memory>

// What Vrig_top::eval() calls, less its housekeeping for threads and tasks, of which this model has none.
void Vrig_top___024root___eval(Vrig_top___024root *root);

namespace {

constexpr unsigned kDwsBits = WB_WIDTH == 128 ? 3 : 2;  // 0 .. WB_WIDTH/32
constexpr unsigned kTickAt = kDwsBits + 3;              // bit of the word behind the data

struct Model {
    VerilatedContext context;
    std::unique_ptr<Vrig_top> top;
    bool beat_shown = false;  // a valid beat is in the input registers and must be taken out again
};

// The payload of a TLP stream as wattbell_gateware.layouts.tlp_beat packs it: data, dws, first, last, error, tick, lost.
template <typename Wide>
inline void put_beat(Wide &payload, CData &valid, const wb_beat &beat) {
    valid = beat.valid;
    if (!beat.valid) return;
    constexpr unsigned n = WB_WIDTH / 32;
    for (unsigned i = 0; i < n; ++i) payload[i] = beat.data[i];
    payload[n] = beat.dws | beat.first << kDwsBits | beat.last << (kDwsBits + 1) | beat.error << (kDwsBits + 2) |
                 static_cast<uint32_t>(beat.tick) << kTickAt;
    payload[n + 1] = static_cast<uint32_t>(beat.tick >> (32 - kTickAt));
    payload[n + 2] = static_cast<uint32_t>(beat.tick >> (64 - kTickAt)) | beat.lost << kTickAt;
}

// As wattbell_gateware.rail.config.CONVERSION packs it: tick, period, v, i, flags, v_code, i_code, f_code, guard,
// beyond.
inline void show_conversion(const Vrig_top &top, wb_out &out) {
    const auto &c = top.conversion;
    const auto sign = [](uint32_t x) { return static_cast<int32_t>(x << 8) >> 8; };
    out.rail_tick = c[0] | static_cast<uint64_t>(c[1]) << 32;
    out.rail_period = c[2];
    out.rail_v = sign(c[3]);
    out.rail_i = sign(c[3] >> 24 | c[4] << 8);
    out.rail_flags = c[4] >> 16 & 0x1F;
    out.rail_v_code = (c[4] >> 21 | c[5] << 11) & 0x3FFFF;
    out.rail_i_code = c[5] >> 7 & 0x3FFFF;
    out.rail_f_code = (c[5] >> 25 | c[6] << 7) & 0x3FFFF;
    out.rail_guard = sign(c[6] >> 11 | c[7] << 21);
    out.rail_beyond = c[7] >> 3 & 1;
}

inline void show(const Vrig_top &top, wb_out &out) {
    out.now = top.now;
    out.deadline = top.deadline;
    out.reg_rdata = top.reg_rdata;
    out.quiet = top.quiet;
    out.skip_down = top.skip_down;
    out.skip_up = top.skip_up;
    out.bus_active = top.bus_active;
    // OUT_WORD: data 31:0, last 32
    out.out_data = static_cast<uint32_t>(top.out_word);
    out.out_last = static_cast<uint8_t>(top.out_word >> 32);
    out.out_valid = top.out_valid;
    out.converted = top.converted;
    if (top.converted) show_conversion(top, out);
    out.completed = top.completed;
    if (top.completed)
        for (unsigned i = 0; i < 6; ++i) out.completion[i] = top.completion[i];
#if WB_SERIAL_ADC
    out.adc_cnv = top.adc_cnv;
    out.adc_sck = top.adc_sck;
    out.adc_start = 0;
#else
    out.adc_start = top.adc_start;
    out.adc_cnv = out.adc_sck = 0;
#endif
}

}  // namespace

extern "C" {

const struct wb_info *wb_info(void) {
    static const struct wb_info info = {WB_ABI_VERSION, sizeof(wb_in), sizeof(wb_out), WB_WIDTH, WB_SERIAL_ADC};
    return &info;
}

void *wb_new(wb_out *out) {
    auto *model = new Model;
    model->top = std::make_unique<Vrig_top>(&model->context, "top");
    Vrig_top &top = *model->top;
    top.clk = top.bus_clk = top.tlp_clk = top.reg_clk = 0;
    top.eval();
    show(top, *out);
    return model;
}

void wb_free(void *model) {
    auto *m = static_cast<Model *>(model);
    m->top->final();
    delete m;
}

void wb_clock(void *model, const wb_in *in, wb_out *out) {
    Model &m = *static_cast<Model *>(model);
    Vrig_top &top = *m.top;
    const bool beat = in->down.valid | in->up.valid;
    if (beat | m.beat_shown) {
        put_beat(top.tlp_down, top.tlp_down_valid, in->down);
        put_beat(top.tlp_up, top.tlp_up_valid, in->up);
        top.tlp_clk = 1;
        m.beat_shown = beat;
    }
    top.step = in->step;
    top.perst_n = in->perst_n;
    top.clkreq_n = in->clkreq_n;
    top.link_state = in->link_state;
    top.reg_addr = in->reg_addr;
    top.reg_wdata = in->reg_wdata;
    top.reg_we = in->reg_we;
    top.out_ready = in->out_ready;
    top.convert = in->convert;
    top.adc_fine = in->adc_fine;
#if WB_SERIAL_ADC
    top.adc_sdo_v = in->adc_sdo_v;
    top.adc_sdo_i = in->adc_sdo_i;
    top.adc_sdo_f = in->adc_sdo_f;
#else
    top.adc_valid = in->adc_valid;
    top.adc_v = in->adc_v;
    top.adc_i = in->adc_i;
    top.adc_f = in->adc_f;
#endif
    top.bus_clk = in->bus_tick;
    top.clk = top.reg_clk = 1;
    Vrig_top___024root___eval(top.rootp);
    // The falling edges. Nothing is clocked by them, so an evaluation would only note the new levels: noted here.
    Vrig_top___024root &root = *top.rootp;
    top.clk = top.bus_clk = top.tlp_clk = top.reg_clk = 0;
    root.__Vtrigprevexpr___TOP__reg_clk__0 = 0;
    root.__Vtrigprevexpr___TOP__clk__0 = 0;
    root.__Vtrigprevexpr___TOP__bus_clk__0 = 0;
    root.__Vtrigprevexpr___TOP__tlp_clk__0 = 0;
    show(top, *out);
}

uint32_t wb_peek(void *model, uint8_t address) {
    Vrig_top &top = *static_cast<Model *>(model)->top;
    top.reg_addr = address;
    top.reg_clk = 1;
    Vrig_top___024root___eval(top.rootp);
    top.reg_clk = 0;
    top.rootp->__Vtrigprevexpr___TOP__reg_clk__0 = 0;
    return top.reg_rdata;
}

}  // extern "C"
