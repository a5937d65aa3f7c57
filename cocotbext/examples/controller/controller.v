// A small NVMe controller: an admin queue, one I/O queue, and reads that answer with generated data.
//
// TLPs come and go as streams of 128 bits: byte 0 of a TLP is in bits 7:0 of its first beat, and `last` marks its last beat.
// Configuration requests stay in the PCIe core; it gives the function's number and its MSI message as signals.
// Limits: queues and data lie below 4 GiB, a read takes at most two pages (MDTS is 1), and commands run one after another.
//
// BUG, or the plusarg +bug=N, seeds a fault: 1 the phase tag never inverts, 2 PRP2 is ignored, 3 the interrupt precedes its entry.
`default_nettype none
module controller #(
    parameter integer BUG = 0,
    parameter [31:0] BLOCKS = 65536
) (
    input  wire         clk,
    input  wire         rst,
    input  wire         down_valid,
    output wire         down_ready,
    input  wire [127:0] down_data,
    input  wire         down_last,
    output reg          up_valid,
    input  wire         up_ready,
    output reg  [127:0] up_data,
    output reg          up_last,
    input  wire [15:0]  function_id,
    input  wire         msi_enable,
    input  wire [31:0]  msi_address,
    input  wire [15:0]  msi_data
);
    integer bug;
    initial if (!$value$plusargs("bug=%d", bug)) bug = BUG;

    function [31:0] swap(input [31:0] word);
        swap = {word[7:0], word[15:8], word[23:16], word[31:24]};
    endfunction

    // A header of three dwords and the first dword of data. kind: format and type of the TLP
    function [127:0] beat(input [7:0] kind, input [9:0] dwords, input [31:0] second, input [31:0] third, input [31:0] data);
        beat = {data, swap(third), swap(second), swap({kind, 14'd0, dwords})};
    endfunction

    // --- Registers and queues; index 0 is the admin queue -----------------------------------------------------------
    reg [31:0] cc, aqa, asq, acq;
    reg        ready, fatal;
    reg [31:0] sq_base[0:1], cq_base[0:1];
    reg [15:0] sq_last[0:1], cq_last[0:1], sq_tail[0:1], sq_head[0:1], cq_tail[0:1], cq_head[0:1];
    reg  [1:0] phase, interrupts;
    reg        sq_exists, cq_exists;  // of the I/O queue

    function [31:0] register(input [13:0] address);
        case (address)
            14'h0000: register = 32'h0a01003f;  // CAP: 64 entries, contiguous queues, 5 s
            14'h0004: register = 32'h00000020;  // NVM command set
            14'h0008: register = 32'h00010400;
            14'h0014: register = cc;
            14'h001c: register = {30'd0, fatal, ready};
            14'h0024: register = aqa;
            14'h0028: register = asq;
            14'h0030: register = acq;
            default:  register = 32'd0;
        endcase
    endfunction

    // --- Receive: writes to registers, reads of registers, and the entry that was fetched ---------------------------
    wire [31:0] head0 = swap(down_data[31:0]), head1 = swap(down_data[63:32]), head2 = swap(down_data[95:64]);
    reg   [7:0] rx_kind;
    reg   [3:0] rx_beat;
    reg  [13:0] rx_address;
    reg         rx_two;  // the TLP has two dwords of data
    reg [543:0] entry;
    reg         entry_here, asked, asked_two;
    reg  [15:0] asked_by;
    reg   [7:0] asked_tag;
    reg  [13:0] asked_at;
    wire        write0 = rx_beat == 0 && head0[31:24] == 8'h40;
    wire        write1 = rx_beat == 1 && rx_kind == 8'h40 && rx_two;
    wire [13:0] write_at = write0 ? head2[13:0] : rx_address + 14'd4;
    wire [31:0] write_data = write0 ? down_data[127:96] : down_data[31:0];
    assign down_ready = !asked;

    // --- Command engine ---------------------------------------------------------------------------------------------
    localparam IDLE = 0, WAIT = 1, RUN = 2, HEAD = 3, BODY = 4, FINISH = 5, FINISH2 = 6, MESSAGE = 7, NEXT = 8, ANSWER2 = 9;
    reg   [3:0] state, resume;
    reg         q;  // queue of the command
    reg  [14:0] status;
    reg   [1:0] content;  // of the data: 0 blocks, 1 the namespace's structure, 2 the controller's
    reg  [31:0] address, word, left;  // of the next data: where, its number, and dwords
    reg   [9:0] chunk;  // dwords left of this write
    wire  [7:0] opcode = entry[7:0];
    wire [31:0] prp1 = entry[223:192], prp2 = entry[287:256], dw10 = entry[351:320], dw11 = entry[383:352], dw12 = entry[415:384];
    wire [31:0] to_page = {21'd0, 11'd1024 - {1'b0, address[11:2]}};
    wire [31:0] most = left < to_page ? left : to_page;
    wire  [9:0] part = most < 32 ? most[9:0] : 10'd32;
    wire [15:0] next_tail = cq_tail[q] == cq_last[q] ? 16'd0 : cq_tail[q] + 16'd1;
    wire        early = bug == 3;

    function [31:0] data(input [31:0] n);
        case (content)
            2'd0:    data = n;
            2'd1:    data = n == 0 || n == 2 || n == 4 ? BLOCKS : n == 32 ? 32'h00090000 : 32'd0;
            default: data = n == 0 ? 32'h12341234 : n == 19 ? 32'h00000100 : n == 128 ? 32'h00004466 : n == 129 ? 32'd1 : 32'd0;
        endcase
    endfunction

    task send(input [127:0] bits, input final_beat);
        begin
            up_valid <= 1;
            up_data <= bits;
            up_last <= final_beat;
        end
    endtask

    task interrupt(input [3:0] after);
        begin
            if (msi_enable && interrupts[q]) send(beat(8'h40, 10'd1, {function_id, 16'h000f}, msi_address, {16'd0, msi_data}), 1);
            state <= after;
        end
    endtask

    always @(posedge clk) begin
        if (up_ready) up_valid <= 0;

        if (down_valid && down_ready) begin
            rx_beat <= down_last ? 0 : rx_beat + 1;
            if (rx_beat == 0) begin
                rx_kind <= head0[31:24];
                rx_address <= head2[13:0];
                rx_two <= head0[9:0] == 2;
                if (head0[31:24] == 8'h00) begin
                    asked <= 1;
                    asked_two <= head0[9:0] == 2;
                    asked_by <= head1[31:16];
                    asked_tag <= head1[15:8];
                    asked_at <= head2[13:0];
                end
                if (head0[31:24] == 8'h4a) entry[31:0] <= down_data[127:96];
                if (head0[31:24] == 8'h0a) fatal <= 1;  // the host gave no entry
            end else if (rx_kind == 8'h4a) entry[32 * (4 * rx_beat - 3)+:128] <= down_data;
            if (down_last && rx_kind == 8'h4a && rx_beat == 4) entry_here <= 1;
            if (write0 || write1)
                case (write_at)
                    14'h0014: cc <= write_data;
                    14'h0024: aqa <= write_data;
                    14'h0028: asq <= write_data;
                    14'h0030: acq <= write_data;
                    14'h1000: sq_tail[0] <= write_data[15:0];
                    14'h1004: cq_head[0] <= write_data[15:0];
                    14'h1008: sq_tail[1] <= write_data[15:0];
                    14'h100c: cq_head[1] <= write_data[15:0];
                    default:  ;
                endcase
        end

        if (!up_valid || up_ready) begin
            if (asked && (state == IDLE || state == WAIT || state == HEAD || state == FINISH)) begin
                send(beat(8'h4a, asked_two ? 10'd2 : 10'd1, {function_id, 12'd0, asked_two, !asked_two, 2'd0},
                          {asked_by, asked_tag, 1'b0, asked_at[6:0]}, register(asked_at)), !asked_two);
                resume <= state;
                if (asked_two) state <= ANSWER2;
                asked <= asked_two;
            end else case (state)
                IDLE:
                    if (!cc[0]) begin
                        ready <= 0;
                        {sq_exists, cq_exists} <= 2'd0;
                        {sq_tail[0], sq_head[0], cq_tail[0], cq_head[0]} <= 64'd0;
                    end else if (!ready) begin
                        ready <= 1;
                        {phase[0], interrupts[0]} <= 2'b11;
                        {sq_base[0], cq_base[0]} <= {asq, acq};
                        {cq_last[0], sq_last[0]} <= {4'd0, aqa[27:16], 4'd0, aqa[11:0]};
                    end else if (sq_head[0] != sq_tail[0] || (sq_exists && sq_head[1] != sq_tail[1])) begin
                        q <= sq_head[0] == sq_tail[0];
                        state <= NEXT;
                    end
                NEXT: begin
                    send(beat(8'h00, 10'd16, {function_id, 8'd0, 8'hff}, sq_base[q] + {10'd0, sq_head[q], 6'd0}, 32'd0), 1);
                    sq_head[q] <= sq_head[q] == sq_last[q] ? 16'd0 : sq_head[q] + 16'd1;
                    state <= WAIT;
                end
                WAIT:
                    if (entry_here) begin
                        entry_here <= 0;
                        state <= RUN;
                    end
                RUN: begin
                    {status, content, word, left, address} <= {15'd0, 2'd0, 32'd0, 32'd0, prp1};
                    state <= FINISH;
                    if (!q && opcode == 8'h06 && dw10[7:1] == 0) begin
                        {content, left} <= {dw10[0] ? 2'd2 : 2'd1, 32'd1024};
                        state <= HEAD;
                    end else if (!q && opcode == 8'h05 && dw10[15:0] == 1) begin
                        {cq_exists, phase[1], interrupts[1], cq_base[1]} <= {2'b11, dw11[1], prp1};
                        {cq_last[1], cq_tail[1], cq_head[1]} <= {dw10[31:16], 32'd0};
                    end else if (!q && opcode == 8'h01 && dw10[15:0] == 1 && cq_exists) begin
                        {sq_exists, sq_base[1], sq_last[1], sq_tail[1], sq_head[1]} <= {1'b1, prp1, dw10[31:16], 32'd0};
                    end else if (!q && opcode == 8'h00 && dw10[15:0] == 1) sq_exists <= 0;
                    else if (!q && opcode == 8'h04 && dw10[15:0] == 1) cq_exists <= 0;
                    else if (!q) status <= opcode == 8'h00 || opcode == 8'h01 || opcode == 8'h04 || opcode == 8'h05 ? 15'h101 : 15'h001;
                    else if (opcode == 8'h02) begin
                        if (dw11 != 0 || {1'b0, dw10} + {17'd0, dw12[15:0]} >= {1'b0, BLOCKS}) status <= 15'h080;
                        else if (dw12[15:0] > 15 || {20'd0, prp1[11:0]} + {7'd0, dw12[15:0] + 16'd1, 9'd0} > 8192) status <= 15'h002;
                        else begin
                            {word, left} <= {dw10[24:0], 7'd0, 9'd0, dw12[15:0] + 16'd1, 7'd0};
                            state <= HEAD;
                        end
                    end else if (opcode != 8'h00) status <= 15'h001;
                end
                HEAD: begin
                    send(beat(8'h40, part, {function_id, 8'd0, part == 1 ? 8'h0f : 8'hff}, address, data(word)), part == 1);
                    chunk <= part - 10'd1;
                    {word, left} <= {word + 32'd1, left - {22'd0, part}};
                    address <= {22'd0, part} == to_page && bug != 2 ? prp2 : address + {20'd0, part, 2'd0};
                    if (part != 1) state <= BODY;
                    else if ({22'd0, part} == left) state <= FINISH;
                end
                BODY: begin
                    send({data(word + 3), data(word + 2), data(word + 1), data(word)}, chunk <= 4);
                    word <= word + (chunk < 4 ? {22'd0, chunk} : 32'd4);
                    chunk <= chunk - 10'd4;
                    if (chunk <= 4) state <= left == 0 ? FINISH : HEAD;
                end
                FINISH:  // waits while the completion queue is full
                    if (next_tail != cq_head[q]) begin
                        if (early && resume != FINISH2) begin
                            interrupt(FINISH);
                            resume <= FINISH2;
                        end else begin
                            send(beat(8'h40, 10'd4, {function_id, 16'h00ff}, cq_base[q] + {12'd0, cq_tail[q], 4'd0}, 32'd0), 0);
                            state <= FINISH2;
                        end
                    end
                FINISH2: begin
                    send({32'd0, status, phase[q], entry[31:16], 15'd0, q, sq_head[q], 32'd0}, 1);
                    cq_tail[q] <= next_tail;
                    if (next_tail == 0 && bug != 1) phase[q] <= !phase[q];
                    resume <= IDLE;
                    state <= early ? IDLE : MESSAGE;
                end
                MESSAGE: interrupt(IDLE);
                ANSWER2: begin
                    send({96'd0, register(asked_at + 14'd4)}, 1);
                    asked <= 0;
                    state <= resume;
                end
                default: state <= IDLE;
            endcase
        end

        if (rst) begin
            {up_valid, up_last, cc, aqa, asq, acq, ready, fatal, entry_here, asked, rx_beat, q} <= 0;
            {sq_exists, cq_exists, interrupts, phase, resume, state, status, content} <= 0;
        end
    end
endmodule
`default_nettype wire
