/* SPDX-License-Identifier: MIT */
/*
 * CRC32C, eight bytes per step: by the processor's instruction, or by eight tables, one for each
 * byte of the step. A table has what its byte adds to the CRC at that distance from the end of the
 * step.
 */
#include "iwarp/crc32c.h"

#include <stdbool.h>

/* The CRC is linear: a byte's entry is the sum (exclusive or) of the entries of its
 * bits, so each table follows from eight numbers. Those of the first table come from
 * the polynomial 0x82F63B78. */
#define SUMS_2(x, a) (x), ((x) ^ (a))
#define SUMS_4(x, a, b) SUMS_2(x, a), SUMS_2((x) ^ (b), a)
#define SUMS_8(x, a, b, c) SUMS_4(x, a, b), SUMS_4((x) ^ (c), a, b)
#define SUMS_16(x, a, b, c, d) SUMS_8(x, a, b, c), SUMS_8((x) ^ (d), a, b, c)
#define SUMS_32(x, a, b, c, d, e) SUMS_16(x, a, b, c, d), SUMS_16((x) ^ (e), a, b, c, d)
#define SUMS_64(x, a, b, c, d, e, f) SUMS_32(x, a, b, c, d, e), SUMS_32((x) ^ (f), a, b, c, d, e)
#define SUMS_128(x, a, b, c, d, e, f, g) SUMS_64(x, a, b, c, d, e, f), SUMS_64((x) ^ (g), a, b, c, d, e, f)
#define TABLE(a, b, c, d, e, f, g, h) \
    { \
        SUMS_128(0u, a, b, c, d, e, f, g), SUMS_128(h, a, b, c, d, e, f, g) \
    }

static const uint32_t crc_table[8][256] = {
    TABLE(0xF26B8303, 0xE13B70F7, 0xC79A971F, 0x8AD958CF, 0x105EC76F, 0x20BD8EDE, 0x417B1DBC, 0x82F63B78),
    TABLE(0x13A29877, 0x274530EE, 0x4E8A61DC, 0x9D14C3B8, 0x3FC5F181, 0x7F8BE302, 0xFF17C604, 0xFBC3FAF9),
    TABLE(0xA541927E, 0x4F6F520D, 0x9EDEA41A, 0x38513EC5, 0x70A27D8A, 0xE144FB14, 0xC76580D9, 0x8B277743),
    TABLE(0xDD45AAB8, 0xBF672381, 0x7B2231F3, 0xF64463E6, 0xE964B13D, 0xD725148B, 0xABA65FE7, 0x52A0C93F),
    TABLE(0x38116FAC, 0x7022DF58, 0xE045BEB0, 0xC5670B91, 0x8F2261D3, 0x1BA8B557, 0x37516AAE, 0x6EA2D55C),
    TABLE(0xEF306B19, 0xDB8CA0C3, 0xB2F53777, 0x6006181F, 0xC00C303E, 0x85F4168D, 0x0E045BEB, 0x1C08B7D6),
    TABLE(0x68032CC8, 0xD0065990, 0xA5E0C5D1, 0x4E2DFD53, 0x9C5BFAA6, 0x3D5B83BD, 0x7AB7077A, 0xF56E0EF4),
    TABLE(0x493C7D27, 0x9278FA4E, 0x211D826D, 0x423B04DA, 0x847609B4, 0x0D006599, 0x1A00CB32, 0x34019664),
};

/* The first byte is the lowest on every machine, because the CRC is reflected. */
static inline uint64_t crc_load(const uint8_t *at)
{
    return (uint64_t)at[0] | (uint64_t)at[1] << 8 | (uint64_t)at[2] << 16 | (uint64_t)at[3] << 24 |
           (uint64_t)at[4] << 32 | (uint64_t)at[5] << 40 | (uint64_t)at[6] << 48 | (uint64_t)at[7] << 56;
}

static inline uint32_t crc_table_1(uint32_t crc, uint8_t byte)
{
    return crc >> 8 ^ crc_table[0][(crc ^ byte) & 0xFF];
}

static inline uint32_t crc_table_8(uint32_t crc, uint64_t bytes)
{
    uint64_t x = bytes ^ crc;
    return crc_table[7][x & 0xFF] ^ crc_table[6][x >> 8 & 0xFF] ^ crc_table[5][x >> 16 & 0xFF] ^
           crc_table[4][x >> 24 & 0xFF] ^ crc_table[3][x >> 32 & 0xFF] ^ crc_table[2][x >> 40 & 0xFF] ^
           crc_table[1][x >> 48 & 0xFF] ^ crc_table[0][x >> 56];
}

/* The only code that depends on the processor. The compiler's __builtin_cpu_supports() would bring
 * a constructor into the library. */
#if defined(__x86_64__) && defined(__GNUC__)
#if defined(__clang_major__) && __clang_major__ >= 14
#define CRC_TARGET __attribute__((target("sse4.2,crc32"))) /* the option -mno-crc32 may be on */
#else
#define CRC_TARGET __attribute__((target("sse4.2")))
#endif
#define CRC_1(crc, byte) __builtin_ia32_crc32qi((crc), (byte))
#define CRC_8(crc, bytes) __builtin_ia32_crc32di((crc), (bytes))
static bool crc_has_instruction(void)
{
    enum { UNKNOWN, NO, YES };
    static uint8_t known; /* relaxed: every thread finds the same answer */
    uint8_t answer = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (answer == UNKNOWN) {
        uint32_t a = 1, b, c = 0, d;
        __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
        answer = (c >> 20 & 1) != 0 ? YES : NO;
        __atomic_store_n(&known, answer, __ATOMIC_RELAXED);
    }
    return answer == YES;
}
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#define CRC_TARGET
static inline uint32_t CRC_1(uint32_t crc, uint8_t byte)
{
    __asm__("crc32cb %w0, %w0, %w1" : "+r"(crc) : "r"(byte));
    return crc;
}
static inline uint64_t CRC_8(uint64_t crc, uint64_t bytes)
{
    __asm__("crc32cx %w0, %w0, %x1" : "+r"(crc) : "r"(bytes));
    return crc;
}
static bool crc_has_instruction(void)
{
    return true;
}
#else
#define CRC_TARGET
#define CRC_1(crc, byte) crc_table_1((crc), (byte))
#define CRC_8(crc, bytes) crc_table_8((uint32_t)(crc), (bytes))
static bool crc_has_instruction(void)
{
    return false;
}
#endif

CRC_TARGET static uint32_t crc_by_instruction(uint32_t crc, const uint8_t *at, size_t length)
{
    uint64_t wide = ~crc; /* as wide as the instruction, to avoid a conversion in each step */
    for (; length >= 8; length -= 8, at += 8) {
        wide = CRC_8(wide, crc_load(at));
    }
    crc = (uint32_t)wide;
    for (; length > 0; length--) {
        crc = CRC_1(crc, *at++);
    }
    return ~crc;
}

uint32_t vipl_crc32c_table(uint32_t crc, const void *bytes, size_t length)
{
    const uint8_t *at = bytes;
    crc = ~crc;
    for (; length >= 8; length -= 8, at += 8) {
        crc = crc_table_8(crc, crc_load(at));
    }
    for (; length > 0; length--) {
        crc = crc_table_1(crc, *at++);
    }
    return ~crc;
}

uint32_t vipl_crc32c(uint32_t crc, const void *bytes, size_t length)
{
    return crc_has_instruction() ? crc_by_instruction(crc, bytes, length)
                                 : vipl_crc32c_table(crc, bytes, length);
}
