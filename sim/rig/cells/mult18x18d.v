// SPDX-License-Identifier: Apache-2.0
// The ECP5's multiplier for simulation, since Yosys has a black box of it only. As Yosys uses it: without registers, P = A * B, each factor
// signed where its pin says so. It is not Lattice's model. A pin or a parameter that is not declared here
// is refused: a netlist that uses a register, C or the shift chain does not pass.
`default_nettype none

module MULT18X18D (
    input wire A17, A16, A15, A14, A13, A12, A11, A10, A9, A8, A7, A6, A5, A4, A3, A2, A1, A0,
    input wire B17, B16, B15, B14, B13, B12, B11, B10, B9, B8, B7, B6, B5, B4, B3, B2, B1, B0,
    input wire C17, C16, C15, C14, C13, C12, C11, C10, C9, C8, C7, C6, C5, C4, C3, C2, C1, C0, // goes into the factors only through the sources that are 0 here
    input wire SIGNEDA, SIGNEDB, SOURCEA, SOURCEB,
    output wire P35, P34, P33, P32, P31, P30, P29, P28, P27, P26, P25, P24, P23, P22, P21, P20, P19, P18, P17, P16, P15, P14, P13, P12, P11, P10, P9, P8, P7, P6, P5, P4, P3, P2, P1, P0
);
    wire [17:0] a = {A17, A16, A15, A14, A13, A12, A11, A10, A9, A8, A7, A6, A5, A4, A3, A2, A1, A0};
    wire [17:0] b = {B17, B16, B15, B14, B13, B12, B11, B10, B9, B8, B7, B6, B5, B4, B3, B2, B1, B0};
    wire signed [18:0] left = {SIGNEDA && a[17], a};
    wire signed [18:0] right = {SIGNEDB && b[17], b};
    wire signed [37:0] product = left * right;
    assign {P35, P34, P33, P32, P31, P30, P29, P28, P27, P26, P25, P24, P23, P22, P21, P20, P19, P18, P17, P16, P15, P14, P13, P12, P11, P10, P9, P8, P7, P6, P5, P4, P3, P2, P1, P0} = product[35:0];
    always @* if (SOURCEA || SOURCEB) begin
        $display("%m: MULT18X18D whose factor comes from a neighbour, which this model does not know");
        $stop;
    end
endmodule
`default_nettype wire
