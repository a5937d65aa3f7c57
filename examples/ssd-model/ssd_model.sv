// The SSD model as a PCIe endpoint with two streams of TLPs: 32 bits a beat, byte 0 of a TLP in bits 7:0 of its first beat.
`timescale 1ps / 1ps

package ssd_dpi;
    import "DPI-C" function void ssd_open(input string profile);
    import "DPI-C" function void ssd_down(input longint time_ps, input int unsigned data, input bit last);
    import "DPI-C" function int ssd_up(input longint time_ps, output int unsigned data);
    import "DPI-C" function longint ssd_energy_pj(input longint time_ps);
endpackage

module ssd_model #(
    parameter string PROFILE = "samsung-980-pro"
) (
    input  logic        clk,
    input  logic        down_valid,
    output logic        down_ready,
    input  logic [31:0] down_data,
    input  logic        down_last,
    output logic        up_valid,
    input  logic        up_ready,
    output logic [31:0] up_data,
    output logic        up_last
);
    int unsigned data;
    int          state;

    initial begin
        ssd_dpi::ssd_open(PROFILE);
        up_valid = 0;
    end
    assign down_ready = 1;

    always @(posedge clk) begin
        if (down_valid) ssd_dpi::ssd_down($time, down_data, down_last);
        if (!up_valid || up_ready) begin
            state = ssd_dpi::ssd_up($time, data);
            up_valid <= state != 0;
            up_last  <= state == 2;
            up_data  <= data;
        end
    end
endmodule
