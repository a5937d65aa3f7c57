// SPDX-License-Identifier: Apache-2.0
// The instrument with a register in front of every input, for simulation.
//
// Why registers: Verilator evaluates all logic behind a top-level input each time, changed or not. Behind a register it
// is evaluated when that register's clock ticks, and together with everything else that this edge changes: once a
// clock instead of three times. The registers stand for those that feed the instrument on a board; what is driven before an
// edge is what the instrument sees in the clock behind it. `step` alone is a plain input: it belongs to the edge itself.
//
// Clocks that are one on a board: `bus_clk` may rest while `bus_active` is low, `tlp_clk` while no beat comes or goes. `reg_clk`
// may also rise alone: then a register is looked at, and nothing else happens.
`default_nettype none

`ifdef WB_WIDTH_128
`define WB_BEAT_BITS 199
`else
`define WB_BEAT_BITS 134
`endif

module rig_top (
    input  wire clk,
    input  wire bus_clk,
    input  wire tlp_clk,
    input  wire reg_clk,
    input  wire [15:0] step,
    input  wire tlp_down_valid,
    input  wire [`WB_BEAT_BITS-1:0] tlp_down,
    input  wire tlp_up_valid,
    input  wire [`WB_BEAT_BITS-1:0] tlp_up,
    input  wire perst_n,
    input  wire clkreq_n,
    input  wire [3:0] link_state,
    input  wire [7:0] reg_addr,
    input  wire [31:0] reg_wdata,
    input  wire reg_we,
    input  wire out_ready,
`ifdef WB_SERIAL
    input  wire adc_sdo_v,
    input  wire adc_sdo_i,
    input  wire adc_sdo_f,
    output wire adc_cnv,
    output wire adc_sck,
`else
    input  wire adc_valid,
    input  wire [17:0] adc_v,
    input  wire [17:0] adc_i,
    input  wire [17:0] adc_f,
    output wire adc_start,
`endif
    input  wire adc_fine,
    input  wire convert,
    output wire converted,
    output wire [227:0] conversion,
    output wire completed,
    output wire [162:0] completion,
    output wire skip_down,
    output wire skip_up,
    output wire bus_active,
    output wire quiet,
    output wire [63:0] deadline,
    output wire [63:0] now,
    output wire [31:0] reg_rdata,
    output wire out_valid,
    output wire [32:0] out_word
);
    reg tlp_down_valid_q = 0, tlp_up_valid_q = 0;
    reg [`WB_BEAT_BITS-1:0] tlp_down_q = 0, tlp_up_q = 0;
    always @(posedge tlp_clk) begin
        tlp_down_valid_q <= tlp_down_valid;
        tlp_down_q <= tlp_down;
        tlp_up_valid_q <= tlp_up_valid;
        tlp_up_q <= tlp_up;
    end

    reg perst_n_q = 0, clkreq_n_q = 1, adc_fine_q = 0, convert_q = 0, reg_we_q = 0, out_ready_q = 0;
    reg [3:0] link_state_q = 0;
    reg [7:0] reg_addr_q = 0;
    always @(posedge reg_clk) reg_addr_q <= reg_addr;
    reg [31:0] reg_wdata_q = 0;
    always @(posedge clk) begin
        perst_n_q <= perst_n;
        adc_fine_q <= adc_fine;
        convert_q <= convert;
        clkreq_n_q <= clkreq_n;
        link_state_q <= link_state;
        reg_wdata_q <= reg_wdata;
        reg_we_q <= reg_we;
        out_ready_q <= out_ready;
    end

`ifdef WB_SERIAL
    reg adc_sdo_v_q = 0, adc_sdo_i_q = 0, adc_sdo_f_q = 0;
    always @(posedge clk) begin
        adc_sdo_v_q <= adc_sdo_v;
        adc_sdo_i_q <= adc_sdo_i;
        adc_sdo_f_q <= adc_sdo_f;
    end
`else
    reg adc_valid_q = 0;
    reg [17:0] adc_v_q = 0, adc_i_q = 0, adc_f_q = 0;
    always @(posedge clk) begin
        adc_valid_q <= adc_valid;
        adc_v_q <= adc_v;
        adc_i_q <= adc_i;
        adc_f_q <= adc_f;
    end
`endif

    `WB_INSTRUMENT instrument (
        .clk(clk),
        .rst(1'b0),
        .bus_clk(bus_clk),
        .bus_rst(1'b0),
        .step(step),
        .down__tlps__valid(tlp_down_valid_q),
        .down__tlps__payload(tlp_down_q),
        .up__tlps__valid(tlp_up_valid_q),
        .up__tlps__payload(tlp_up_q),
        .perst_n(perst_n_q),
        .clkreq_n(clkreq_n_q),
        .link_state(link_state_q),
        .reg_addr(reg_addr_q),
        .reg_wdata(reg_wdata_q),
        .reg_we(reg_we_q),
        .reg_rdata(reg_rdata),
        .out__ready(out_ready_q),
        .out__valid(out_valid),
        .out__payload(out_word),
`ifdef WB_SERIAL
        .adc_sdo_v(adc_sdo_v_q),
        .adc_sdo_i(adc_sdo_i_q),
        .adc_sdo_f(adc_sdo_f_q),
        .adc_cnv(adc_cnv),
        .adc_sck(adc_sck),
`else
        .adc_valid(adc_valid_q),
        .adc_v(adc_v_q),
        .adc_i(adc_i_q),
        .adc_f(adc_f_q),
        .adc_start(adc_start),
`endif
        .adc_fine(adc_fine_q),
        .convert(convert_q),
        .converted(converted),
        .conversion(conversion),
        .completed(completed),
        .completion(completion),
        .down__skip(skip_down),
        .up__skip(skip_up),
        .bus_active(bus_active),
        .quiet(quiet),
        .deadline(deadline),
        .now(now)
    );
endmodule
