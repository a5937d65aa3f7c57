// SPDX-License-Identifier: Apache-2.0
// The ECP5's block RAM for simulation, since Yosys has a black box of it only. Written from what is generally known of the part
// (widths, write modes, byte enables on the low address pins, output registers, reset of what is read and not of what is stored;
// Lattice's memory usage guide was not at hand), from the properties that Yosys maps memories by (reset goes before enables and,
// synchronous, blocks a write), and from nextpnr's bitstream writer (what INITVAL means: 16 words of 18 bits, each in 20). It is not
// Lattice's model. `tests/gateware/cells` has it against a model in Python.
//
// Rows of 36 bits: a port of 1, 2, 4 bits leaves out the ninth bit of every nine, as the part does. Where a port reads bits that the
// other writes at the same edge, the part promises nothing: here each such bit is the wrong one, so that any use of it shows. So is
// what is stored where both write one bit. Both clocks are one, or rise at the same time: what clocks that do not make of it is not modelled.
//
// A parameter that is not declared here is refused, and so is a value that is not known: nothing is ignored.
`default_nettype none

module DP16KD (
    input wire DIA17, DIA16, DIA15, DIA14, DIA13, DIA12, DIA11, DIA10, DIA9, DIA8, DIA7, DIA6, DIA5, DIA4, DIA3, DIA2, DIA1, DIA0,
    input wire ADA13, ADA12, ADA11, ADA10, ADA9, ADA8, ADA7, ADA6, ADA5, ADA4, ADA3, ADA2, ADA1, ADA0,
    input wire CEA, OCEA, CLKA, WEA, RSTA,
    input wire CSA2, CSA1, CSA0,
    output wire DOA17, DOA16, DOA15, DOA14, DOA13, DOA12, DOA11, DOA10, DOA9, DOA8, DOA7, DOA6, DOA5, DOA4, DOA3, DOA2, DOA1, DOA0,
    input wire DIB17, DIB16, DIB15, DIB14, DIB13, DIB12, DIB11, DIB10, DIB9, DIB8, DIB7, DIB6, DIB5, DIB4, DIB3, DIB2, DIB1, DIB0,
    input wire ADB13, ADB12, ADB11, ADB10, ADB9, ADB8, ADB7, ADB6, ADB5, ADB4, ADB3, ADB2, ADB1, ADB0,
    input wire CEB, OCEB, CLKB, WEB, RSTB,
    input wire CSB2, CSB1, CSB0,
    output wire DOB17, DOB16, DOB15, DOB14, DOB13, DOB12, DOB11, DOB10, DOB9, DOB8, DOB7, DOB6, DOB5, DOB4, DOB3, DOB2, DOB1, DOB0
);
    parameter DATA_WIDTH_A = 18;
    parameter DATA_WIDTH_B = 18;
    parameter REGMODE_A = "NOREG";
    parameter REGMODE_B = "NOREG";
    parameter RESETMODE = "SYNC";
    parameter ASYNC_RESET_RELEASE = "SYNC";
    parameter CSDECODE_A = "0b000";
    parameter CSDECODE_B = "0b000";
    parameter CLKAMUX = "CLKA";
    parameter CLKBMUX = "CLKB";
    parameter WRITEMODE_A = "NORMAL";
    parameter WRITEMODE_B = "NORMAL";
    parameter GSR = "AUTO"; // nothing drives the global reset of a netlist
    parameter [319:0] INITVAL_00 = 0;
    parameter [319:0] INITVAL_01 = 0;
    parameter [319:0] INITVAL_02 = 0;
    parameter [319:0] INITVAL_03 = 0;
    parameter [319:0] INITVAL_04 = 0;
    parameter [319:0] INITVAL_05 = 0;
    parameter [319:0] INITVAL_06 = 0;
    parameter [319:0] INITVAL_07 = 0;
    parameter [319:0] INITVAL_08 = 0;
    parameter [319:0] INITVAL_09 = 0;
    parameter [319:0] INITVAL_0A = 0;
    parameter [319:0] INITVAL_0B = 0;
    parameter [319:0] INITVAL_0C = 0;
    parameter [319:0] INITVAL_0D = 0;
    parameter [319:0] INITVAL_0E = 0;
    parameter [319:0] INITVAL_0F = 0;
    parameter [319:0] INITVAL_10 = 0;
    parameter [319:0] INITVAL_11 = 0;
    parameter [319:0] INITVAL_12 = 0;
    parameter [319:0] INITVAL_13 = 0;
    parameter [319:0] INITVAL_14 = 0;
    parameter [319:0] INITVAL_15 = 0;
    parameter [319:0] INITVAL_16 = 0;
    parameter [319:0] INITVAL_17 = 0;
    parameter [319:0] INITVAL_18 = 0;
    parameter [319:0] INITVAL_19 = 0;
    parameter [319:0] INITVAL_1A = 0;
    parameter [319:0] INITVAL_1B = 0;
    parameter [319:0] INITVAL_1C = 0;
    parameter [319:0] INITVAL_1D = 0;
    parameter [319:0] INITVAL_1E = 0;
    parameter [319:0] INITVAL_1F = 0;
    parameter [319:0] INITVAL_20 = 0;
    parameter [319:0] INITVAL_21 = 0;
    parameter [319:0] INITVAL_22 = 0;
    parameter [319:0] INITVAL_23 = 0;
    parameter [319:0] INITVAL_24 = 0;
    parameter [319:0] INITVAL_25 = 0;
    parameter [319:0] INITVAL_26 = 0;
    parameter [319:0] INITVAL_27 = 0;
    parameter [319:0] INITVAL_28 = 0;
    parameter [319:0] INITVAL_29 = 0;
    parameter [319:0] INITVAL_2A = 0;
    parameter [319:0] INITVAL_2B = 0;
    parameter [319:0] INITVAL_2C = 0;
    parameter [319:0] INITVAL_2D = 0;
    parameter [319:0] INITVAL_2E = 0;
    parameter [319:0] INITVAL_2F = 0;
    parameter [319:0] INITVAL_30 = 0;
    parameter [319:0] INITVAL_31 = 0;
    parameter [319:0] INITVAL_32 = 0;
    parameter [319:0] INITVAL_33 = 0;
    parameter [319:0] INITVAL_34 = 0;
    parameter [319:0] INITVAL_35 = 0;
    parameter [319:0] INITVAL_36 = 0;
    parameter [319:0] INITVAL_37 = 0;
    parameter [319:0] INITVAL_38 = 0;
    parameter [319:0] INITVAL_39 = 0;
    parameter [319:0] INITVAL_3A = 0;
    parameter [319:0] INITVAL_3B = 0;
    parameter [319:0] INITVAL_3C = 0;
    parameter [319:0] INITVAL_3D = 0;
    parameter [319:0] INITVAL_3E = 0;
    parameter [319:0] INITVAL_3F = 0;

    localparam WIDE = DATA_WIDTH_A == 36 || DATA_WIDTH_B == 36; // one port writes, the other reads, with the data pins of both
    localparam ASYNC = RESETMODE == "ASYNC";

    wire clk_a = CLKAMUX == "INV" ? ~CLKA : CLKA;
    wire clk_b = CLKBMUX == "INV" ? ~CLKB : CLKB;
    wire [13:0] at_a = {ADA13, ADA12, ADA11, ADA10, ADA9, ADA8, ADA7, ADA6, ADA5, ADA4, ADA3, ADA2, ADA1, ADA0};
    wire [13:0] at_b = {ADB13, ADB12, ADB11, ADB10, ADB9, ADB8, ADB7, ADB6, ADB5, ADB4, ADB3, ADB2, ADB1, ADB0};
    wire [17:0] low = {DIA17, DIA16, DIA15, DIA14, DIA13, DIA12, DIA11, DIA10, DIA9, DIA8, DIA7, DIA6, DIA5, DIA4, DIA3, DIA2, DIA1, DIA0};
    wire [17:0] high = {DIB17, DIB16, DIB15, DIB14, DIB13, DIB12, DIB11, DIB10, DIB9, DIB8, DIB7, DIB6, DIB5, DIB4, DIB3, DIB2, DIB1, DIB0};
    wire [2:0] code_a = {CSDECODE_A[16], CSDECODE_A[8], CSDECODE_A[0]}; // the low bit of three characters
    wire [2:0] code_b = {CSDECODE_B[16], CSDECODE_B[8], CSDECODE_B[0]};
    wire here_a = CEA && {CSA2, CSA1, CSA0} == code_a;
    wire here_b = CEB && {CSB2, CSB1, CSB0} == code_b;

    // Where in its row a port's word begins, and the bits of it that are enabled.
    function [5:0] place(input integer width, input [13:0] at);
        case (width)
            1: place = at[4:3] * 6'd9 + at[2:0];
            2: place = at[4:3] * 6'd9 + {at[2:1], 1'b0};
            4: place = at[4:3] * 6'd9 + {at[2], 2'b00};
            9: place = at[4:3] * 6'd9;
            18: place = at[4] ? 6'd18 : 6'd0;
            default: place = 0;
        endcase
    endfunction
    function [35:0] enabled(input integer width, input [13:0] at);
        case (width)
            1: enabled = 36'h1;
            2: enabled = 36'h3;
            4: enabled = 36'hF;
            9: enabled = 36'h1FF;
            18: enabled = {18'b0, {9{at[1]}}, {9{at[0]}}};
            default: enabled = {{9{at[3]}}, {9{at[2]}}, {9{at[1]}}, {9{at[0]}}};
        endcase
    endfunction

    reg [35:0] rows [0:511];
    wire writes_a = WEA && here_a && (ASYNC || !RSTA);
    wire writes_b = WEB && here_b && (ASYNC || !RSTB);
    wire [5:0] place_a = place(DATA_WIDTH_A, at_a);
    wire [5:0] place_b = place(DATA_WIDTH_B, at_b);
    wire [35:0] mask_a = writes_a ? enabled(DATA_WIDTH_A, at_a) << place_a : 36'b0;
    wire [35:0] mask_b = writes_b ? enabled(DATA_WIDTH_B, at_b) << place_b : 36'b0;
    wire [35:0] data_a = (DATA_WIDTH_A == 36 ? {high, low} : {18'b0, low}) << place_a;
    wire [35:0] data_b = {18'b0, high} << place_b;

    // Of the other port, at this edge and in this row: seen at an edge, a clock is high that rises with it.
    wire together = at_a[13:5] == at_b[13:5];
    wire [35:0] other_of_a = clk_b && together ? mask_b : 36'b0;
    wire [35:0] other_of_b = clk_a && together ? mask_a : 36'b0;
    wire [35:0] was_a = rows[at_a[13:5]];
    wire [35:0] was_b = rows[at_b[13:5]];
    // The row behind the edge, with what both ports write; where both write one bit, the wrong one.
    wire [35:0] both = mask_a & mask_b & {36{together}};
    wire [35:0] next_a = (was_a & ~mask_a & ~other_of_a | data_a & mask_a & ~both | data_b & other_of_a & ~both) | ~was_a & both;
    wire [35:0] next_b = (was_b & ~mask_b & ~other_of_b | data_b & mask_b & ~both | data_a & other_of_b & ~both) | ~was_b & both;

    reg [35:0] read_a = 0, read_b = 0, out_a = 0, out_b = 0;
    wire [35:0] old_a = was_a ^ other_of_a;
    wire [35:0] old_b = was_b ^ other_of_b;

    integer row;
    localparam [64*320-1:0] INITIAL = {
        INITVAL_3F, INITVAL_3E, INITVAL_3D, INITVAL_3C, INITVAL_3B, INITVAL_3A, INITVAL_39, INITVAL_38, INITVAL_37,
        INITVAL_36, INITVAL_35, INITVAL_34, INITVAL_33, INITVAL_32, INITVAL_31, INITVAL_30, INITVAL_2F, INITVAL_2E,
        INITVAL_2D, INITVAL_2C, INITVAL_2B, INITVAL_2A, INITVAL_29, INITVAL_28, INITVAL_27, INITVAL_26, INITVAL_25,
        INITVAL_24, INITVAL_23, INITVAL_22, INITVAL_21, INITVAL_20, INITVAL_1F, INITVAL_1E, INITVAL_1D, INITVAL_1C,
        INITVAL_1B, INITVAL_1A, INITVAL_19, INITVAL_18, INITVAL_17, INITVAL_16, INITVAL_15, INITVAL_14, INITVAL_13,
        INITVAL_12, INITVAL_11, INITVAL_10, INITVAL_0F, INITVAL_0E, INITVAL_0D, INITVAL_0C, INITVAL_0B, INITVAL_0A,
        INITVAL_09, INITVAL_08, INITVAL_07, INITVAL_06, INITVAL_05, INITVAL_04, INITVAL_03, INITVAL_02, INITVAL_01,
        INITVAL_00
    };
    initial begin
        for (row = 0; row < 512; row = row + 1) rows[row] = {INITIAL[row*40+20+:18], INITIAL[row*40+:18]};
    end
    generate
        if (!(known_width(DATA_WIDTH_A) && known_width(DATA_WIDTH_B) && known_mode(WRITEMODE_A) && known_mode(WRITEMODE_B)
              && (REGMODE_A == "NOREG" || REGMODE_A == "OUTREG") && (REGMODE_B == "NOREG" || REGMODE_B == "OUTREG")
              && (RESETMODE == "SYNC" || ASYNC) && ASYNC_RESET_RELEASE == RESETMODE
              && (CLKAMUX == "CLKA" || CLKAMUX == "INV") && (CLKBMUX == "CLKB" || CLKBMUX == "INV")))
            $error("DP16KD with a parameter that this model does not know");
    endgenerate
    function known_width(input integer width);
        known_width = width == 1 || width == 2 || width == 4 || width == 9 || width == 18 || width == 36;
    endfunction
    function known_mode(input [15*8-1:0] mode);
        known_mode = mode == "NORMAL" || mode == "WRITETHROUGH" || mode == "READBEFOREWRITE";
    endfunction

    always @(posedge clk_a) if (writes_a) rows[at_a[13:5]] <= next_a;
    always @(posedge clk_b) if (writes_b) rows[at_b[13:5]] <= next_b;

    // A write in mode NORMAL leaves what was read. Above the width of a port stands anything.
    wire [35:0] seen_a = WRITEMODE_A == "WRITETHROUGH" ? old_a & ~mask_a | data_a & mask_a : old_a;
    wire [35:0] seen_b = WRITEMODE_B == "WRITETHROUGH" ? old_b & ~mask_b | data_b & mask_b : old_b;
    wire takes_a = here_a && (!WEA || WRITEMODE_A != "NORMAL");
    wire takes_b = here_b && (!WEB || WRITEMODE_B != "NORMAL");
    wire [35:0] then_a = RSTA ? 36'b0 : takes_a ? seen_a >> place_a : read_a;
    wire [35:0] then_b = RSTB ? 36'b0 : takes_b ? seen_b >> place_b : read_b;
    wire [35:0] after_a = RSTA ? 36'b0 : OCEA ? read_a : out_a;
    wire [35:0] after_b = RSTB ? 36'b0 : OCEB ? read_b : out_b;
    generate
        if (ASYNC) begin
            always @(posedge clk_a or posedge RSTA) {read_a, out_a} <= RSTA ? 72'b0 : {then_a, after_a};
            always @(posedge clk_b or posedge RSTB) {read_b, out_b} <= RSTB ? 72'b0 : {then_b, after_b};
        end else begin
            always @(posedge clk_a) {read_a, out_a} <= {then_a, after_a};
            always @(posedge clk_b) {read_b, out_b} <= {then_b, after_b};
        end
    endgenerate

    // Told once, so that a run shows whether it came to that (Yosys reads at port B).
    localparam [35:0] WORD_B = 36'hFFFFFFFFF >> (36 - DATA_WIDTH_B);
    reg told = 0;
    always @(posedge clk_b)
        if (!told && takes_b && |(other_of_b >> place_b & WORD_B)) begin
            told <= 1;
            $fdisplay(32'h80000002, "%m: read where it is written");
        end

    wire [35:0] shown_a = REGMODE_A == "OUTREG" ? out_a : read_a;
    wire [35:0] shown_b = REGMODE_B == "OUTREG" ? out_b : read_b;
    assign {DOA17, DOA16, DOA15, DOA14, DOA13, DOA12, DOA11, DOA10, DOA9, DOA8, DOA7, DOA6, DOA5, DOA4, DOA3, DOA2, DOA1, DOA0}
        = DATA_WIDTH_B == 36 ? shown_b[17:0] : shown_a[17:0];
    assign {DOB17, DOB16, DOB15, DOB14, DOB13, DOB12, DOB11, DOB10, DOB9, DOB8, DOB7, DOB6, DOB5, DOB4, DOB3, DOB2, DOB1, DOB0}
        = DATA_WIDTH_B == 36 ? shown_b[35:18] : shown_b[17:0];
endmodule
`default_nettype wire
