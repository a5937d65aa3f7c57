// SPDX-License-Identifier: Apache-2.0
// The C interface of rig_abi.h over the class that Verilator makes of the instrument.
//
// Set by build-rtl.sh: WB_WIDTH (bits of a TLP stream), WB_SERIAL (1: bit-serial ADC pins).
#include "Vinstrument.h"
#include "rig_abi.h"
#include "verilated.h"

#include <memory>

namespace {

constexpr unsigned kDwsBits = WB_WIDTH == 128 ? 3 : 2;  // 0 .. WB_WIDTH/32
constexpr unsigned kTickAt = kDwsBits + 3;              // bit of the word behind the data

struct Model {
    VerilatedContext context;
    std::unique_ptr<Vinstrument> top;
};

// The payload of a TLP stream as wattbell_gateware.layouts.tlp_beat packs it: data, dws, first, last, error, tick.
template <typename Wide>
inline void put_beat(Wide &payload, CData &valid, const wb_beat &beat) {
    valid = beat.valid;
    if (!beat.valid) return;
    constexpr unsigned n = WB_WIDTH / 32;
    for (unsigned i = 0; i < n; ++i) payload[i] = beat.data[i];
    payload[n] = beat.dws | beat.first << kDwsBits | beat.last << (kDwsBits + 1) | beat.error << (kDwsBits + 2) |
                 static_cast<uint32_t>(beat.tick) << kTickAt;
    payload[n + 1] = static_cast<uint32_t>(beat.tick >> (32 - kTickAt));
    payload[n + 2] = static_cast<uint32_t>(beat.tick >> (64 - kTickAt));
}

inline void put(Vinstrument &top, const wb_in &in) {
    put_beat(top.tlp_down___05Fpayload, top.tlp_down___05Fvalid, in.down);
    put_beat(top.tlp_up___05Fpayload, top.tlp_up___05Fvalid, in.up);
    top.step = in.step;
    top.perst_n = in.perst_n;
    top.clkreq_n = in.clkreq_n;
    top.link_state = in.link_state;
    top.reg_addr = in.reg_addr;
    top.reg_wdata = in.reg_wdata;
    top.reg_we = in.reg_we;
    top.out___05Fready = in.out_ready;
#if WB_SERIAL
    top.adc_sdo_v = in.adc_sdo_v;
    top.adc_sdo_i = in.adc_sdo_i;
#else
    top.adc_valid = in.adc_valid;
    top.adc_v = in.adc_v;
    top.adc_i = in.adc_i;
#endif
}

inline void show(const Vinstrument &top, wb_out &out) {
    out.now = top.now;
    out.deadline = top.deadline;
    out.reg_rdata = top.reg_rdata;
    out.quiet = top.quiet;
    out.skip_down = top.skip_down;
    out.skip_up = top.skip_up;
    out.bus_active = top.bus_active;
    // OUT_WORD: data 31:0, last 32
    out.out_data = static_cast<uint32_t>(top.out___05Fpayload);
    out.out_last = static_cast<uint8_t>(top.out___05Fpayload >> 32);
    out.out_valid = top.out___05Fvalid;
#if WB_SERIAL
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

const wb_info *wb_info(void) {
    static const struct wb_info info = {WB_ABI_VERSION, sizeof(wb_in), sizeof(wb_out), WB_WIDTH, WB_SERIAL};
    return &info;
}

void *wb_new(const wb_in *in, wb_out *out) {
    auto *model = new Model;
    model->top = std::make_unique<Vinstrument>(&model->context, "top");
    Vinstrument &top = *model->top;
    top.clk = top.rst = top.bus_clk = top.bus_rst = 0;
    put(top, *in);
    top.eval();
    show(top, *out);
    return model;
}

void wb_free(void *model) {
    auto *m = static_cast<Model *>(model);
    m->top->final();
    delete m;
}

void wb_settle(void *model, const wb_in *in, wb_out *out) {
    Vinstrument &top = *static_cast<Model *>(model)->top;
    put(top, *in);
    top.eval();
    show(top, *out);
}

void wb_clock(void *model, const wb_in *in, wb_out *out) {
    Vinstrument &top = *static_cast<Model *>(model)->top;
    put(top, *in);
    top.clk = 1;
    top.bus_clk = in->bus_tick;
    top.eval();
    top.clk = top.bus_clk = 0;
    top.eval();
    show(top, *out);
}

}  // extern "C"
