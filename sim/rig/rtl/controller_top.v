// SPDX-License-Identifier: Apache-2.0
// The controller with what a simulator needs besides its ports: a way to load the read-only memory, and a look at the core's sleep.
//
// `now`, the levels, `rail_valid` and `completed` have a register in front of them, as in rig_top.v: what is driven before an edge is seen in the clock behind it.
`default_nettype none

module controller_top (
    input  wire clk,
    input  wire poke,
    input  wire [13:0] poke_address,
    input  wire [31:0] poke_word,
    input  wire [63:0] now,
    input  wire perst_n,
    input  wire clkreq_n,
    input  wire [3:0] link_state,
    input  wire rail_good,
    input  wire rail_valid,
    input  wire [63:0] rail_tick,
    input  wire [31:0] rail_period,
    input  wire [23:0] rail_v,
    input  wire [23:0] rail_i,
    input  wire [23:0] rail_guard,
    input  wire        rail_beyond,
    input  wire [4:0] rail_flags,
    input  wire [17:0] rail_v_code,
    input  wire [17:0] rail_i_code,
    input  wire [17:0] rail_f_code,
    input  wire completed,
    input  wire [162:0] completion,
    output wire [2:0] watched,
    output wire rail_wanted,
    output wire [23:0] rail_level,
    output wire [1:0] zero,
    input  wire scl_i,
    input  wire sda_i,
    input  wire [31:0] reg_rdata,
    input  wire console_in_valid,
    input  wire [7:0] console_in,
    output wire console_in_ready,
    output wire console_out_valid,
    output wire [7:0] console_out,
    input  wire console_out_ready,
    output wire [7:0] reg_addr,
    output wire [31:0] reg_wdata,
    output wire reg_we,
    output wire reg_re,
    output wire load_switch,
    output wire [1:0] load,
    output wire perst_low,
    output wire clkreq_low,
    output wire scl_low,
    output wire sda_low,
    output wire active,
    output wire [63:0] deadline,
    output wire asleep
);
    reg [63:0] now_q = 0;
    reg rail_valid_q = 0, completed_q = 0;
    reg perst_n_q = 1, clkreq_n_q = 1;
    reg [3:0] link_state_q = 0;
    always @(posedge clk) {now_q, rail_valid_q, completed_q} <= {now, rail_valid, completed};
    always @(posedge clk) {perst_n_q, clkreq_n_q, link_state_q} <= {perst_n, clkreq_n, link_state};
    always @(posedge clk) if (poke) dut.bus.rom.words[poke_address] <= poke_word;

    // The core waits for an interrupt that is not there, neither its buses nor its reset move, and the meter sums nothing.
    assign asleep = ~dut.peripherals.meter.summing & dut.core.vexriscv.CsrPlugin_inWfi & ~dut.core.irq & ~dut.core.hold & ~dut.core.ibus__cyc & ~dut.core.dbus__cyc;

    controller dut (
        .clk(clk),
        .rst(poke),
        .now(now_q),
        .link(32'd0),
        .link_state(link_state_q),
        .perst_n(perst_n_q),
        .clkreq_n(clkreq_n_q),
        .rail_good(rail_good),
        .rail_valid(rail_valid_q),
        .rail_tick(rail_tick),
        .rail_period(rail_period),
        .rail_v(rail_v),
        .rail_i(rail_i),
        .rail_guard(rail_guard),
        .rail_beyond(rail_beyond),
        .rail_flags(rail_flags),
        .rail_v_code(rail_v_code),
        .rail_i_code(rail_i_code),
        .rail_f_code(rail_f_code),
        .completed(completed_q),
        .completion(completion),
        .watched(watched),
        .rail_wanted(rail_wanted),
        .rail_level(rail_level),
        .zero(zero),
        .console_in__payload(console_in),
        .console_in__valid(console_in_valid),
        .console_in__ready(console_in_ready),
        .console_out__payload(console_out),
        .console_out__valid(console_out_valid),
        .console_out__ready(console_out_ready),
        .load_switch(load_switch),
        .load(load),
        .perst_low(perst_low),
        .clkreq_low(clkreq_low),
        .scl_i(scl_i),
        .sda_i(sda_i),
        .scl_low(scl_low),
        .sda_low(sda_low),
        .active(active),
        .deadline(deadline),
        .reg_addr(reg_addr),
        .reg_wdata(reg_wdata),
        .reg_we(reg_we),
        .reg_re(reg_re),
        .reg_rdata(reg_rdata)
    );
endmodule
