// A host of SystemVerilog: enumerates the drive, enables it, identifies it, and prints latency and power.
`timescale 1ps / 1ps

module tb;
    localparam logic [31:0] BAR0 = 32'hFE80_0000;
    localparam int SQ = 'h1000, CQ = 'h2000, DATA = 'h3000;

    typedef struct {
        int unsigned requester, address, length;
    } read_t;
    read_t reads[$];

    logic clk = 0, running = 1;
    logic down_valid = 0, down_last = 0, up_valid, up_last, down_ready;
    logic [31:0] down_data = 0, up_data;
    int unsigned memory[4096];  // the host's memory from address 0 on, in double words
    int unsigned tlp[1100], answer;
    int unsigned payload;  // the data of a request of the host, which is not in memory
    int words = 0, answers = 0;
    longint began, energy;

    ssd_model drive (.up_ready(1'b1), .*);

    always begin  // 250 MHz; the clock stands still while the test bench sleeps
        wait (running);
        #2000 clk = ~clk;
    end

    function automatic int unsigned swap(input int unsigned x);  // header fields are big-endian, stream and memory are little-endian
        return {x[7:0], x[15:8], x[23:16], x[31:24]};
    endfunction

    task automatic send(input int unsigned header[3], input int unsigned from, input int count);
        for (int n = 0; n < 3 + count; n++) begin
            @(negedge clk);
            down_valid = 1;
            down_data  = n < 3 ? swap(header[n]) : count == 1 && from[31] ? payload : memory[from+n-3];
            down_last  = n == 2 + count;
        end
        @(negedge clk) down_valid = 0;
    endtask

    task automatic request(input int unsigned kind, input int unsigned place, input bit write, input int unsigned value, input bit answered);
        int seen = answers;
        payload = value;
        send('{kind << 24 | 1, 32'h0000_000F, place}, 32'h8000_0000, write ? 1 : 0);
        if (answered) while (answers == seen) @(posedge clk);
    endtask

    task automatic register_write(input int offset, input int unsigned value);
        request('h40, BAR0 + offset, 1, value, 0);
    endtask

    // What the drive sends: answers, writes to memory, reads of memory.
    always @(posedge clk) if (up_valid) begin
        tlp[words] = up_data;
        words++;
        if (up_last) begin
            int unsigned kind, length, address;
            kind = swap(tlp[0]) >> 24;
            length = swap(tlp[0]) & 'h3FF;
            address = swap(tlp[2]);
            if (kind == 'h4A || kind == 'h0A) begin
                answer = tlp[3];
                answers++;
            end else if (kind == 'h40) begin
                for (int n = 0; n < length; n++) memory[address/4+n] = tlp[3+n];
            end else if (kind == 'h00) begin
                reads.push_back('{tlp[1], address, length});
            end else $fatal(1, "a TLP of kind %02x", kind);
            words = 0;
        end
    end

    // Completions of at most 128 bytes; the drive reads entries of 64 bytes here. They share the stream with `request`, which waits.
    task automatic serve;
        while (reads.size() != 0) begin
            read_t r;
            int unsigned id, count;
            r = reads.pop_front();
            id = swap(r.requester);
            count = 4 * r.length;
            send('{32'h4A00_0000 | r.length, count & 'hFFF, id & 32'hFFFF_FF00 | r.address & 'h7F}, r.address / 4, r.length);
        end
    endtask

    initial begin
        @(posedge clk);
        request('h44, 32'h0100_0010, 1, BAR0, 1);
        request('h44, 32'h0100_0004, 1, 32'h0000_0006, 1);
        register_write('h24, 32'h000F_000F);
        register_write('h28, SQ);
        register_write('h30, CQ);
        register_write('h14, 32'h0046_0001);
        do begin
            running = 0;
            #1_000_000_000;
            running = 1;
            request('h00, BAR0 + 'h1C, 0, 0, 1);
        end while (!answer[0]);
        $display("ready after %0d ms, %0d uW", $time / 1_000_000_000, ssd_dpi::ssd_energy_pj($time) / ($time / 1_000_000));

        memory[SQ/4]    = 32'h0007_0006;  // identify, CID 7
        memory[SQ/4+6]  = DATA;
        memory[SQ/4+10] = 1;
        began = $time;
        energy = ssd_dpi::ssd_energy_pj($time);
        register_write('h1000, 1);
        while (!memory[CQ/4+3][16]) begin
            @(posedge clk);
            serve();
        end
        if (memory[CQ/4+3] != 32'h0001_0007) $fatal(1, "identify failed: %08x", memory[CQ/4+3]);
        $display("identify: %0d ns, %0d nJ", ($time - began) / 1000, (ssd_dpi::ssd_energy_pj($time) - energy) / 1000);
        $write("model: ");
        for (int n = 6; n < 16; n++) for (int b = 0; b < 4; b++) $write("%c", memory[DATA/4+n][8*b+:8]);
        $display("");
        $finish;
    end
endmodule
