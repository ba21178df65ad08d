// SPDX-License-Identifier: MIT
//
// The first bytes of a connection, arriving one at a time: what is refused stays refused, what is
// read is the same when written and read again.
#include "fuzz.hpp"

extern "C" {
#include "iwarp/mpa.h"
}

namespace {

vipl_parse read_first(const std::uint8_t *data, std::size_t length, vipl_mpa_start *out)
{
    return vipl_mpa_start_read(fuzz::exactly(data, length).get(), length, out);
}

void check_start(const std::uint8_t *data, const vipl_mpa_start &start)
{
    std::uint8_t again[VIPL_MPA_START_BYTES];
    vipl_mpa_start_write(again, &start);
    FUZZ_CHECK(std::memcmp(again, data, 16) == 0);
    FUZZ_CHECK((again[16] & ~data[16]) == 0); // flags without a meaning are dropped
    FUZZ_CHECK(std::memcmp(again + 17, data + 17, 3) == 0);
    FUZZ_CHECK(start.private_bytes <= VIPL_MPA_MAX_PRIVATE);
    vipl_mpa_start seen{};
    FUZZ_CHECK(read_first(again, sizeof again, &seen) == VIPL_PARSE_OK);
    FUZZ_CHECK(seen.reply == start.reply && seen.markers == start.markers && seen.crc == start.crc &&
               seen.reject == start.reject && seen.enhanced == start.enhanced);
}

void check_enhanced(const std::uint8_t *data)
{
    vipl_mpa_enhanced e{};
    vipl_mpa_enhanced_read(fuzz::exactly(data, VIPL_MPA_ENHANCED_BYTES).get(), &e);
    std::uint8_t again[VIPL_MPA_ENHANCED_BYTES];
    vipl_mpa_enhanced_write(again, &e);
    FUZZ_CHECK(std::memcmp(again, data, sizeof again) == 0);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    vipl_mpa_start start{};
    vipl_parse before = VIPL_PARSE_MORE;
    for (std::size_t n = 0; n <= size && n <= VIPL_MPA_START_BYTES + 4; ++n) {
        const vipl_parse parse = read_first(data, n, &start);
        FUZZ_CHECK(before == VIPL_PARSE_MORE || parse == before);
        FUZZ_CHECK(parse != VIPL_PARSE_OK || n >= VIPL_MPA_START_BYTES);
        FUZZ_CHECK(parse != VIPL_PARSE_MORE || n < VIPL_MPA_START_BYTES);
        before = parse;
    }
    if (before != VIPL_PARSE_OK) {
        return 0;
    }
    check_start(data, start);
    if (start.enhanced && size >= VIPL_MPA_START_BYTES + VIPL_MPA_ENHANCED_BYTES) {
        check_enhanced(data + VIPL_MPA_START_BYTES);
    }
    return 0;
}
