/* Registers that are two words; times. */
#ifndef WORDS_H
#define WORDS_H

#include <stdint.h>

static inline void put64(uint32_t *words, unsigned address, int64_t value)
{
    words[address] = (uint32_t)value;
    words[address + 1] = (uint32_t)((uint64_t)value >> 32);
}

static inline int64_t earliest(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t get64(const uint32_t *words, unsigned address)
{
    return (uint64_t)words[address + 1] << 32 | words[address];
}

#endif
