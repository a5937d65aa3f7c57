// Plays lane words of both directions into the models of lanes_top.py, every clock of it, and writes what comes out.
//
//   lane_player lanes|tlps DOWN UP SCRIPT OUT
//
// DOWN, UP with `tlps`: no receivers; for each TLP u64 tick, u32 bytes, the bytes: it begins in the first free clock from its tick on.
// DOWN, UP with `lanes`: lane words, little-endian: any number of stretches of
//   u32 rate (0: 2.5 GT/s, 1: 5, 2: 8), u32 clocks from word to word, u64 tick of the first word, u64 words, then words of four
//   wires, u64 each (40 bits at rates 0 and 1, 32 at 2).
// SCRIPT, lines sorted by tick: reg TICK ADDRESS VALUE, perst TICK LEVEL, take TICK WORDS CLOCKS (out is ready for so many words
//   in so many clocks from then on; 1 1: always), end TICK.
// OUT.stream: the block stream. OUT.down, OUT.up: TLPs as delivered: u64 tick, u64 tick of the last beat's clock, u32 bytes, the bytes.
// OUT.events: u64 tick, u32 direction, u32 kind, u32 argument. Prints as JSON: clocks, seconds, counters of both receivers.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "Vinstrument.h"
#include "Vreceiver.h"
#include "verilated.h"

static constexpr uint64_t kTicks = 4;
static constexpr int kWires = 4;

struct Command { uint64_t tick; std::string what; uint64_t a, b; };

template <class T> static bool get(std::FILE *file, T &value) { return std::fread(&value, sizeof value, 1, file) == 1; }
template <class T> static void put(std::FILE *file, const T &value) { std::fwrite(&value, sizeof value, 1, file); }

static std::FILE *opened(const std::string &path, const char *mode) {
  std::FILE *file = std::fopen(path.c_str(), mode);
  if (!file) { std::cerr << "cannot open " << path << "\n"; std::exit(2); }
  return file;
}

// The words of a direction: the one that is due at a clock, if one is. The rate is that of the next word: a board sets it while the
// link is silent between two speeds.
class Lanes {
 public:
  explicit Lanes(const std::string &path) : file_(opened(path, "rb")) { next(); }
  uint32_t rate = 0;
  uint64_t word[kWires] = {};
  bool due(uint64_t tick) {
    if (!left_ || tick < at_) return false;
    if (tick != at_) { std::cerr << "stretch of words begins in the past, or not at a clock: " << at_ << "\n"; std::exit(2); }
    for (uint64_t &w : word)
      if (!get(file_, w)) { std::cerr << "lane words end early\n"; std::exit(2); }
    at_ += kTicks * clocks_;
    if (--left_ == 0) next();
    return true;
  }
 private:
  void next() {
    uint32_t rate, clocks;
    if (!get(file_, rate)) { left_ = 0; return; }
    if (!get(file_, clocks) || !get(file_, at_) || !get(file_, left_)) { std::cerr << "broken lane words\n"; std::exit(2); }
    this->rate = rate, clocks_ = clocks;
  }
  std::FILE *file_;
  uint32_t clocks_ = 1;
  uint64_t at_ = 0, left_ = 0;
};

// TLPs of a direction as beats, without lanes and receivers.
class Tlps {
 public:
  explicit Tlps(const std::string &path) : file_(opened(path, "rb")) { next(); }
  template <class Beat> void present(uint64_t now, Beat &beat, CData &valid) {
    valid = !bytes_.empty() && now >= tick_;
    if (!valid) return;
    uint32_t words[(kBeatBits + 31) / 32] = {};
    const size_t left = bytes_.size() / 4 - at_, count = left < 4 ? left : 4;
    std::memcpy(words, bytes_.data() + 4 * at_, 4 * count);
    set(words, 128, 3, count), set(words, 131, 1, at_ == 0), set(words, 132, 1, count == left), set(words, 134, 64, tick_);
    for (int k = 0; k < (kBeatBits + 31) / 32; ++k) beat[k] = words[k];
    at_ += count;
    if (count == left) next();
  }
 private:
  static constexpr int kBeatBits = 128 + 3 + 3 + 64 + 1;
  static void set(uint32_t *words, int low, int count, uint64_t value) {
    for (int k = 0; k < count; ++k) words[(low + k) / 32] |= uint32_t(value >> k & 1) << (low + k) % 32;
  }
  void next() {
    uint32_t size = 0;
    at_ = 0, bytes_.clear();
    if (!get(file_, tick_) || !get(file_, size)) return;
    bytes_.resize(size);
    if (std::fread(bytes_.data(), 1, size, file_) != size) { std::cerr << "TLPs end early\n"; std::exit(2); }
  }
  std::FILE *file_;
  uint64_t tick_ = 0;
  size_t at_ = 0;
  std::vector<uint8_t> bytes_;
};

// Puts beats together to TLPs.
struct Delivered {
  std::FILE *file;
  std::vector<uint8_t> bytes;
  void beat(uint64_t now, const uint32_t *data, int dws, bool last, uint64_t tick) {
    for (int k = 0; k < 4 * dws; ++k) bytes.push_back(data[k / 4] >> 8 * (k % 4));
    if (!last) return;
    put(file, tick), put(file, now), put(file, uint32_t(bytes.size()));
    std::fwrite(bytes.data(), 1, bytes.size(), file);
    bytes.clear();
  }
};

static void set40(uint32_t *out, const uint64_t *words) {
  uint32_t all[5] = {};
  for (int lane = 0; lane < kWires; ++lane)
    for (int at = 40 * lane, bits = 0; bits < 40;) {  // 8 bits at a time: 40 is no multiple of 32
      all[at / 32] |= uint32_t(words[lane] >> bits & 0xff) << at % 32;
      at += 8, bits += 8;
    }
  for (int k = 0; k < 5; ++k) out[k] = all[k];
}

int main(int argc, char **argv) {
  if (argc != 6) { std::cerr << "lane_player lanes|tlps DOWN UP SCRIPT OUT\n"; return 2; }
  const bool with_lanes = std::string(argv[1]) == "lanes";
  ++argv;
  const std::string none = "/dev/null";
  Lanes lanes[2] = {Lanes(with_lanes ? argv[1] : none), Lanes(with_lanes ? argv[2] : none)};
  Tlps plain[2] = {Tlps(with_lanes ? none : argv[1]), Tlps(with_lanes ? none : argv[2])};
  std::deque<Command> script;
  uint64_t end = 0;
  std::ifstream lines(argv[3]);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream in(line);
    Command c{0, "", 0, 0};
    in >> c.what >> c.tick >> c.a >> c.b;
    if (c.what == "end") end = c.tick;
    else script.push_back(c);
  }
  const std::string prefix = argv[4];
  std::FILE *stream = opened(prefix + ".stream", "wb"), *events = opened(prefix + ".events", "wb");
  Delivered tlps[2] = {{opened(prefix + ".down", "wb"), {}}, {opened(prefix + ".up", "wb"), {}}};

  Vreceiver receivers[2];
  Vinstrument dut;
  for (Vreceiver &receiver : receivers) receiver.down = 1, receiver.eval();
  dut.eval();
  uint64_t clocks = 0, words = 1, per = 1, credit = 0;
  bool ready_now = false;
  const auto begin = std::chrono::steady_clock::now();
  while (dut.now < end) {
    const uint64_t now = dut.now, then = now + kTicks;
    if (dut.out_valid && ready_now) {
      put(stream, uint32_t(dut.out));
      credit -= per;
    }
    credit += words;
    if (credit > 2 * per) credit = 2 * per;
    dut.out_ready = ready_now = credit >= per;
    dut.reg_we = 0;
    while (!script.empty() && script.front().tick <= then) {
      const Command &c = script.front();
      if (c.what == "reg") {
        if (dut.reg_we) break;  // one a clock
        dut.reg_we = 1, dut.reg_addr = c.a, dut.reg_wdata = c.b;
      } else if (c.what == "perst") dut.perst_n = c.a;
      else if (c.what == "take") words = c.a, per = c.b, credit = 0;
      else { std::cerr << "bad command " << c.what << "\n"; return 2; }
      script.pop_front();
    }
    for (int d = 0; d < 2; ++d) {
      Vreceiver &receiver = receivers[d];
      receiver.now = then, receiver.down = !dut.perst_n, receiver.rate = lanes[d].rate;
      receiver.raw_valid = receiver.raw8_valid = 0;
      if (lanes[d].due(then)) {
        if (receiver.rate == 2) {
          receiver.raw8_valid = 1;
          for (int n = 0; n < kWires; ++n) receiver.raw8[n] = lanes[d].word[n];
        } else receiver.raw_valid = 1, set40(&receiver.raw[0], lanes[d].word);
      }
    }
    dut.clk = 1, dut.eval();
    if (with_lanes)
      for (Vreceiver &receiver : receivers) receiver.clk = 1, receiver.eval(), receiver.clk = 0, receiver.eval();
    // What the receivers show in this clock the instrument takes at its end.
    if (with_lanes) {
      for (int d = 0; d < 2; ++d) {
        const Vreceiver &receiver = receivers[d];
        if (receiver.tlp_valid) tlps[d].beat(dut.now, &receiver.tlp[0], receiver.tlp_dws, receiver.tlp_last, receiver.tlp_tick);
      }
      dut.down = receivers[0].tlp, dut.down_valid = receivers[0].tlp_valid;
      dut.up = receivers[1].tlp, dut.up_valid = receivers[1].tlp_valid;
      dut.down_event = receivers[0].event, dut.down_event_valid = receivers[0].event_valid, dut.down_side = receivers[0].side;
      dut.up_event = receivers[1].event, dut.up_event_valid = receivers[1].event_valid, dut.up_side = receivers[1].side;
    } else {
      plain[0].present(dut.now, dut.down, dut.down_valid);
      plain[1].present(dut.now, dut.up, dut.up_valid);
    }
    dut.clk = 0, dut.eval();
    for (int d = 0; d < 2; ++d) {
      Vreceiver &receiver = receivers[d];
      receiver.event_ready = d ? dut.up_event_ready : dut.down_event_ready;
      if (receiver.event_valid && receiver.event_ready) {
        put(events, uint64_t(receiver.event_tick)), put(events, uint32_t(d)), put(events, uint32_t(receiver.event_kind));
        put(events, uint32_t(receiver.event_argument));
      }
    }
    ++clocks;
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  for (std::FILE *file : {stream, events, tlps[0].file, tlps[1].file}) std::fclose(file);
  std::printf("{\"clocks\": %llu, \"seconds\": %.3f", (unsigned long long)clocks, seconds);
  for (int d = 0; d < 2; ++d) {
    std::printf(", \"%s\": [", d ? "up" : "down");
    for (size_t k = 0; k < sizeof receivers[d].counters / 4; ++k) std::printf("%s%u", k ? ", " : "", receivers[d].counters[k]);
    std::printf("]");
  }
  std::printf("}\n");
  return 0;
}
