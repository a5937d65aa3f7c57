/* docs/architecture.md has the scales. */
#include "analog.h"

#include <math.h>

#include "hal.h"
#include "model.h"
#include "words.h"

#ifndef SIMULATED
#define SIMULATED 4096
#endif

static struct {
    double volts, amperes, noise, gain_error[3], offset[3];
    bool fine;
} rail;
static uint64_t random_state;


static double uniform(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (double)(random_state >> 11) / 9007199254740992.0;
}

static double normal(void)
{
    return sqrt(-2 * log(1 - uniform())) * cos(6.283185307179586 * uniform());
}

/* Code of channel 0 voltage, 1 current, 2 fine current (36 times the gain). */
static int64_t convert(const uint32_t *words, int channel, double noise)
{
    double lsb = channel == 0 ? 5.0 / 262144 : channel == 1 ? 31.25e-6 : 31.25e-6 / 36;
    uint32_t zero = words[WB_AFE] & (channel ? WB_AFE_ZERO_I : WB_AFE_ZERO_V);
    bool on = words[WB_POWER_STATE] & WB_POWER_STATE_ON;
    double value = zero || !on ? 0 : channel ? rail.amperes : rail.volts;
    double code = round(value / lsb * (1 + rail.gain_error[channel]) + rail.offset[channel] + noise);
    double low = channel ? -131072 : 0, high = channel ? 131071 : 262143;
    return (int64_t)(code < low ? low : code > high ? high : code);
}

/* docs/registers.md: value = clip(floor((code * 2^8 - OFFSET) * GAIN / 2^32 + 1/2)) */
static int64_t corrected(const uint32_t *words, int64_t code, unsigned offset_register, uint32_t gain, bool *clipped)
{
    int64_t offset = (int64_t)((uint64_t)words[offset_register] << 36) >> 36; /* 28 bits, signed */
    __int128 product = (__int128)(code * 256 - offset) * gain + (INT64_C(1) << 31);
    int64_t value = (int64_t)(product >> 32);
    *clipped = value < -(1 << 23) || value > (1 << 23) - 1;
    return value < -(1 << 23) ? -(1 << 23) : value > (1 << 23) - 1 ? (1 << 23) - 1 : value;
}

static bool ends(int channel, int64_t code)
{
    return channel ? code == -131072 || code == 131071 : code == 0 || code == 262143;
}

struct conversion analog_conversion(const uint32_t *words, bool noisy)
{
    struct conversion c = {0};
    bool clip_v, clip_i, fine_ok;
    for (int k = 0; k < 3; k++)
        c.code[k] = k == 2 && !rail.fine ? 0 : convert(words, k, noisy ? rail.noise * normal() : 0);
    fine_ok = rail.fine && (words[WB_RANGE] == 2 || (words[WB_RANGE] == 0 && !ends(2, c.code[2])));
    c.v = corrected(words, c.code[0], WB_V_OFFSET, words[WB_V_GAIN], &clip_v);
    c.i = fine_ok ? corrected(words, c.code[2], WB_F_OFFSET, words[WB_F_GAIN], &clip_i)
                  : corrected(words, c.code[1], WB_I_OFFSET, words[WB_I_GAIN], &clip_i);
    c.state |= ends(0, c.code[0]) ? WB_METER_STATE_OVERLOAD_V : 0;
    c.state |= ends(fine_ok ? 2 : 1, c.code[fine_ok ? 2 : 1]) ? WB_METER_STATE_OVERLOAD_I : 0;
    c.state |= clip_v || clip_i ? WB_METER_STATE_SATURATED : 0;
    c.state |= fine_ok ? WB_METER_STATE_FINE : 0;
    return c;
}

void analog_gate(uint32_t *words)
{
    uint32_t count = words[WB_METER_COUNT], simulated = count < SIMULATED ? count : SIMULATED;
    double sums[6] = {0};
    int64_t least[3] = {INT64_MAX, INT64_MAX, INT64_MAX}, most[3] = {INT64_MIN, INT64_MIN, INT64_MIN};
    uint32_t state = 0, clipped = 0;
    for (uint32_t k = 0; k < simulated; k++) {
        struct conversion c = analog_conversion(words, true);
        int64_t values[6] = {c.v, c.i, c.v * c.i, c.code[0], c.code[1], c.code[2]};
        for (int n = 0; n < 6; n++)
            sums[n] += (double)values[n];
        values[2] >>= 16;
        for (int n = 0; n < 3; n++) {
            least[n] = values[n] < least[n] ? values[n] : least[n];
            most[n] = values[n] > most[n] ? values[n] : most[n];
        }
        state |= c.state;
        clipped += (c.state & (WB_METER_STATE_OVERLOAD_I | WB_METER_STATE_OVERLOAD_V)) != 0;
    }
    static const uint8_t at[6] = {WB_V_SUM_LO, WB_I_SUM_LO, WB_P_SUM_LO, WB_V_CODES_LO, WB_I_CODES_LO, WB_F_CODES_LO};
    for (int n = 0; n < 6; n++)
        put64(words, at[n], (int64_t)round(sums[n] * count / simulated));
    for (unsigned n = 0; n < 3; n++) {
        words[WB_V_MIN + 2 * n] = (uint32_t)least[n];
        words[WB_V_MAX + 2 * n] = (uint32_t)most[n];
    }
    words[WB_GATE_CLIPPED] = (uint32_t)((uint64_t)clipped * count / simulated);
    words[WB_METER_STATE] = state;
}

void analog_power_on(uint32_t seed)
{
    random_state = UINT64_C(0x9E3779B97F4A7C15) ^ seed;
    for (int k = 0; k < 8; k++)
        uniform();
    rail.volts = 3.3;
    rail.amperes = 0.5;
    rail.noise = 1;
    rail.fine = true;
    for (int k = 0; k < 3; k++) {
        rail.gain_error[k] = seed ? 2e-3 * normal() : 0;
        rail.offset[k] = seed ? 20 * normal() : 0;
    }
}

void analog_set(double volts, double amperes)
{
    rail.volts = volts;
    rail.amperes = amperes;
}

void analog_set_fine(bool there)
{
    rail.fine = there;
}

double analog_amperes(void)
{
    return rail.amperes;
}

void model_set_channel(int channel, double gain_error, double offset_codes)
{
    rail.gain_error[channel] = gain_error;
    rail.offset[channel] = offset_codes;
}

void model_set_noise(double codes)
{
    rail.noise = codes;
}
