// The instrument with registers in front of its inputs, and without reset.
//
// What is driven before an edge is what the instrument sees in the clock behind it; `step` and the clocks belong to the
// edge itself. Verilator evaluates everything behind a plain top-level input at each evaluation; behind a register, once.
// BEAT, INSTRUMENT and SERIAL are defined on the command line.
`default_nettype none
module top (
    input wire clk, bus_clk,
    input wire [15:0] step,
    input wire down_valid, up_valid,
    input wire [`BEAT-1:0] down, up,
    input wire perst_n, clkreq_n,
    input wire [3:0] link_state,
    input wire [7:0] reg_addr,
    input wire [31:0] reg_wdata,
    input wire reg_we, out_ready, adc_valid,
    input wire [17:0] adc_v, adc_i,
    output wire adc_start, adc_cnv, adc_sck,
    output wire quiet, bus_active, skip_down, skip_up, out_valid,
    output wire [63:0] now, deadline,
    output wire [31:0] reg_rdata,
    output wire [32:0] out
);
    reg r_down_valid = 0, r_up_valid = 0, r_perst_n = 0, r_clkreq_n = 1, r_reg_we = 0, r_out_ready = 0, r_adc_valid = 0;
    reg [`BEAT-1:0] r_down = 0, r_up = 0;
    reg [3:0] r_link_state = 0;
    reg [7:0] r_reg_addr = 0;
    reg [31:0] r_reg_wdata = 0;
    reg [17:0] r_adc_v = 0, r_adc_i = 0;
    always @(posedge clk) begin
        {r_down_valid, r_up_valid, r_perst_n, r_clkreq_n} <= {down_valid, up_valid, perst_n, clkreq_n};
        if (down_valid) r_down <= down;
        if (up_valid) r_up <= up;
        {r_link_state, r_reg_addr, r_reg_wdata, r_reg_we} <= {link_state, reg_addr, reg_wdata, reg_we};
        {r_out_ready, r_adc_valid, r_adc_v, r_adc_i} <= {out_ready, adc_valid, adc_v, adc_i};
    end

    `INSTRUMENT instrument (
        .clk(clk), .rst(1'b0), .bus_clk(bus_clk), .bus_rst(1'b0), .step(step),
        .down__tlps__valid(r_down_valid), .down__tlps__payload(r_down), .up__tlps__valid(r_up_valid), .up__tlps__payload(r_up),
        .perst_n(r_perst_n), .clkreq_n(r_clkreq_n), .link_state(r_link_state),
        .reg_addr(r_reg_addr), .reg_wdata(r_reg_wdata), .reg_we(r_reg_we), .reg_rdata(reg_rdata),
`ifdef SERIAL
        .adc_cnv(adc_cnv), .adc_sck(adc_sck), .adc_sdo_v(r_adc_v[0]), .adc_sdo_i(r_adc_i[0]),
`else
        .adc_start(adc_start), .adc_valid(r_adc_valid), .adc_v(r_adc_v), .adc_i(r_adc_i),
`endif
        .quiet(quiet), .bus_active(bus_active), .down__skip(skip_down), .up__skip(skip_up), .now(now), .deadline(deadline),
        .out__payload(out), .out__valid(out_valid), .out__ready(r_out_ready)
    );
`ifdef SERIAL
    assign adc_start = 1'b0;
`else
    assign adc_cnv = 1'b0, adc_sck = 1'b0;
`endif
endmodule
