// Plays a script of timed inputs into the Verilated instrument and writes its stream to a file. Fast enough for runs of
// many milliseconds with every clock, which is what skipping has to be compared with.
//
//   player SCRIPT OUT [skip] [gate]      skip: leave out idle clocks; gate: leave out idle edges of bus_clk
//
// OUT.ticks gets the tick at which each word of it was taken, in 8 bytes.
// Script, one input a line, sorted by tick:
//   jump TICK                 before anything: advance the counter in steps (the rig is idle)
//   tlp TICK DIR HEX ERROR    a TLP (0 host to drive, 1 drive to host) whose first beat is in the first free clock at TICK
//   reg TICK ADDRESS VALUE    side TICK PERST CLKREQ LINK    ready TICK 0|1    end TICK
// ADC codes are a hash of the tick of the conversion. Prints clocks, evaluations of bus_clk, seconds.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "Vtop.h"
#include "verilated.h"

struct Tlp { uint64_t tick; std::vector<uint8_t> bytes; bool error; };
struct Reg { uint64_t tick; uint32_t address, value; };
struct Side { uint64_t tick; int perst, clkreq, link; };
struct Ready { uint64_t tick; int level; };

static uint64_t hash(uint64_t x) {
  x ^= x >> 33; x *= 0xff51afd7ed558ccdULL; x ^= x >> 33; x *= 0xc4ceb9fe1a85ec53ULL; return x ^ x >> 33;
}

static Vtop dut;
static constexpr int kDwords = WIDTH / 32;
static constexpr int kBeatBits = WIDTH + (WIDTH == 128 ? 3 : 2) + 3 + 64 + 1;

static void set_bits(uint32_t *words, int low, int count, uint64_t value) {
  for (int k = 0; k < count; ++k) {
    const uint32_t mask = 1u << ((low + k) % 32);
    uint32_t &word = words[(low + k) / 32];
    word = (value >> k & 1) ? word | mask : word & ~mask;
  }
}

// One direction: the TLPs still to come, and the one on its way.
struct Lane {
  std::deque<Tlp> queue;
  size_t beat = 0, beats = 0;
  bool active = false;
  uint64_t started = 0;
  template <class Payload> bool present(uint64_t now, bool may_skip, CData &valid, Payload &payload) {
    if (!active && !queue.empty() && queue.front().tick <= now) {
      active = true, beat = 0, started = now;
      beats = (queue.front().bytes.size() / 4 + kDwords - 1) / kDwords;
    }
    if (!active) { const bool changed = valid; valid = 0; return changed; }
    beat = (now - started) / TICKS;
    if (may_skip && beat > 0 && beat + 1 < beats) { const bool changed = valid; valid = 0; return changed; }
    const Tlp &tlp = queue.front();
    uint32_t words[(kBeatBits + 31) / 32] = {};
    const size_t at = beat * kDwords * 4, left = (tlp.bytes.size() - at) / 4;
    for (size_t k = 0; k < kDwords && k < left; ++k) {
      uint32_t word = 0;
      for (int b = 0; b < 4; ++b) word |= uint32_t(tlp.bytes[at + 4 * k + b]) << 8 * b;
      words[k] = word;
    }
    const int dws = WIDTH == 128 ? 3 : 2;
    const bool last = beat + 1 == beats;
    set_bits(words, WIDTH, dws, left < kDwords ? left : kDwords);
    set_bits(words, WIDTH + dws, 1, beat == 0);
    set_bits(words, WIDTH + dws + 1, 1, last);
    set_bits(words, WIDTH + dws + 2, 1, last && tlp.error);
    set_bits(words, WIDTH + dws + 3, 64, tlp.tick);
    for (int k = 0; k < (kBeatBits + 31) / 32; ++k) payload[k] = words[k];
    valid = 1;
    if (last) active = false, queue.pop_front();
    return true;
  }
  uint64_t next(uint64_t now) const {
    if (active) return started + (beats - 1) * TICKS;
    return queue.empty() ? UINT64_MAX : queue.front().tick;
  }
};

#ifdef SERIAL
// Two SAR converters in three-wire mode: a conversion at CNV's rise, a bit at CNV's fall and each fall of SCK.
struct Adc {
  bool cnv = false, sck = false;
  uint64_t bits = 0;
  int left = 0;
  void clock(uint64_t now) {
    if (dut.adc_cnv && !cnv) bits = hash(now), left = 18;
    if (sck && !dut.adc_sck && !dut.adc_cnv && left > 0) --left;
    dut.adc_v = left > 0 ? bits >> (left - 1) & 1 : 0;
    dut.adc_i = left > 0 ? bits >> 32 >> (left - 1) & 1 : 0;
    cnv = dut.adc_cnv, sck = dut.adc_sck;
  }
};
#endif

int main(int argc, char **argv) {
  bool skip = false, gate = false;
  for (int k = 3; k < argc; ++k) {
    skip |= std::string(argv[k]) == "skip";
    gate |= std::string(argv[k]) == "gate";
  }
  Lane lanes[2];
  std::deque<Reg> regs;
  std::deque<Side> sides;
  std::deque<Ready> readies;
  uint64_t end = 0, jump = 0;
  std::ifstream script(argv[1]);
  for (std::string line; std::getline(script, line);) {
    std::istringstream in(line);
    std::string what;
    uint64_t tick = 0;
    in >> what >> tick;
    if (what == "jump") jump = tick;
    else if (what == "end") end = tick;
    else if (what == "reg") { Reg r{tick, 0, 0}; in >> r.address >> r.value; regs.push_back(r); }
    else if (what == "side") { Side s{tick, 0, 0, 0}; in >> s.perst >> s.clkreq >> s.link; sides.push_back(s); }
    else if (what == "ready") { Ready r{tick, 0}; in >> r.level; readies.push_back(r); }
    else if (what == "tlp") {
      int dir = 0, error = 0;
      std::string hex;
      in >> dir >> hex >> error;
      Tlp tlp{tick, {}, error != 0};
      for (size_t k = 0; k + 1 < hex.size(); k += 2) tlp.bytes.push_back(std::stoul(hex.substr(k, 2), nullptr, 16));
      lanes[dir].queue.push_back(tlp);
    } else { std::cerr << "bad line: " << line << "\n"; return 2; }
  }
  std::FILE *out = std::fopen(argv[2], "wb"), *ticks = std::fopen((std::string(argv[2]) + ".ticks").c_str(), "wb");
  uint64_t clocks = 0, bus_clocks = 0, words = 0;
  int out_ready = 1, dut_ready = 0;
  dut.clkreq_n = 1;
  dut.eval();
#ifdef SERIAL
  Adc adc;
#endif
  const auto begin = std::chrono::steady_clock::now();
  while (dut.now < end) {
    const uint64_t now = dut.now;
    // Which tick this edge leads to. Inputs with a tick up to that one are set before the edge and seen behind it.
    uint64_t clocks_here = 1;
    if (skip || now < jump) {
      uint64_t next = now < jump ? jump : end;
      // An input that has to be taken back in the next clock.
      bool pulse = dut.reg_we || dut.adc_valid || dut.down_valid || dut.up_valid || dut.adc_start;
      if (now >= jump)
        for (uint64_t tick : {lanes[0].next(now), lanes[1].next(now), regs.empty() ? UINT64_MAX : regs.front().tick,
                              sides.empty() ? UINT64_MAX : sides.front().tick,
                              readies.empty() ? UINT64_MAX : readies.front().tick})
          if (tick < next) next = tick;
      if (dut.quiet && !pulse) {
        if (dut.deadline <= now) { std::cerr << "quiet past its deadline at " << now << "\n"; return 3; }
        uint64_t n = next > now ? (next - now + TICKS - 1) / TICKS : 1;
        const uint64_t m = (dut.deadline - now) / TICKS;
        if (m < n) n = m;
        clocks_here = n > 65536 ? 65536 : n < 1 ? 1 : n;
      }
    }
    const uint64_t then = now + clocks_here * TICKS;
    dut.step = clocks_here - 1;
    const bool taken = dut.out_valid && dut_ready;
    if (taken) {
      const uint32_t word = uint32_t(dut.out);
      std::fwrite(&word, 4, 1, out);
      std::fwrite(&now, 8, 1, ticks);
      ++words;
    }
    if (then >= jump) {
      lanes[0].present(then, skip && dut.skip_down, dut.down_valid, dut.down);
      lanes[1].present(then, skip && dut.skip_up, dut.up_valid, dut.up);
      dut.reg_we = 0;
      if (!regs.empty() && regs.front().tick <= then) {
        dut.reg_we = 1, dut.reg_addr = regs.front().address, dut.reg_wdata = regs.front().value;
        regs.pop_front();
      }
      for (; !sides.empty() && sides.front().tick <= then; sides.pop_front())
        dut.perst_n = sides.front().perst, dut.clkreq_n = sides.front().clkreq, dut.link_state = sides.front().link;
      for (; !readies.empty() && readies.front().tick <= then; readies.pop_front()) out_ready = readies.front().level;
    }
#ifdef SERIAL
    adc.clock(now);
#else
    dut.adc_valid = 0;
    if (dut.adc_start) {
      const uint64_t code = hash(now);
      dut.adc_valid = 1, dut.adc_v = code & 0x3ffff, dut.adc_i = code >> 32 & 0x3ffff;
    }
#endif
    dut.out_ready = out_ready;
    const bool bus = !gate || dut.bus_active;
    dut.clk = 1, dut.bus_clk = bus;
    dut.eval();
    dut.clk = 0, dut.bus_clk = 0;
    dut.eval();
    dut_ready = out_ready;
    ++clocks, bus_clocks += bus;
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::fclose(out);
  std::fclose(ticks);
  dut.final();
  std::printf("%llu %llu %llu %.6f\n", (unsigned long long)clocks, (unsigned long long)bus_clocks, (unsigned long long)words, seconds);
  return 0;
}
