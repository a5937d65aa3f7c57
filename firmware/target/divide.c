/* 64-bit division in a fifth of libgcc's size. Slow, but the firmware divides only for what people read. */
#include <stdint.h>

uint64_t __udivdi3(uint64_t a, uint64_t b);
uint64_t __umoddi3(uint64_t a, uint64_t b);
int64_t __divdi3(int64_t a, int64_t b);
int64_t __moddi3(int64_t a, int64_t b);

static __attribute__((noinline)) uint64_t divide(uint64_t a, uint64_t b, uint64_t *remainder)
{
    uint64_t rest = 0;
    for (int k = 0; k < 64; k++) {
        uint64_t carry = rest >> 63;
        rest = rest << 1 | a >> 63;
        a <<= 1;
        if (carry || rest >= b) {
            rest -= b;
            a |= 1;
        }
    }
    *remainder = rest;
    return a;
}

uint64_t __udivdi3(uint64_t a, uint64_t b)
{
    uint64_t rest;
    return divide(a, b, &rest);
}

uint64_t __umoddi3(uint64_t a, uint64_t b)
{
    uint64_t rest;
    divide(a, b, &rest);
    return rest;
}

static uint64_t size(int64_t x)
{
    return x < 0 ? -(uint64_t)x : (uint64_t)x;
}

int64_t __divdi3(int64_t a, int64_t b)
{
    int64_t quotient = (int64_t)__udivdi3(size(a), size(b));
    return (a < 0) != (b < 0) ? -quotient : quotient;
}

int64_t __moddi3(int64_t a, int64_t b)
{
    int64_t rest = (int64_t)__umoddi3(size(a), size(b));
    return a < 0 ? -rest : rest;
}
