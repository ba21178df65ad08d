// SPDX-License-Identifier: MIT
//
// A direction's stream of bytes, taken apart into FPDUs. The first byte of an input says where the
// stream is between two markers, in fours, the second whether it has them; the rest is the stream.
#include "fuzz.hpp"
#include "support/unmark.hpp"

extern "C" {
#include "iwarp/crc32c.h"
#include "iwarp/mpa.h"
}

namespace {

/** A whole FPDU without markers: its CRC has one answer, and markers go in and out. */
void check_fpdu(const std::uint8_t *fpdu, std::size_t bytes, std::uint32_t position)
{
    const std::size_t ulpdu = static_cast<std::size_t>(fpdu[0]) << 8 | fpdu[1];
    std::uint8_t trailer[7];
    const std::uint32_t crc = vipl_crc32c(0, fpdu, VIPL_MPA_HEADER_BYTES + ulpdu);
    const std::size_t trailer_bytes = vipl_mpa_trailer_write(trailer, ulpdu, crc, true);
    FUZZ_CHECK(VIPL_MPA_HEADER_BYTES + ulpdu + trailer_bytes == bytes);
    const bool right = vipl_mpa_crc_is_right(fpdu, bytes);
    FUZZ_CHECK(right || std::memcmp(trailer, fpdu + bytes - trailer_bytes, trailer_bytes) != 0);

    fuzz::Bytes marked(vipl_mpa_marked_bytes(bytes));
    std::uint32_t end = position, back_end = position;
    const std::size_t length = vipl_mpa_mark(marked.data(), fpdu, bytes, true, &end);
    FUZZ_CHECK(length <= marked.size() && length >= bytes && end < VIPL_MPA_MARKER_SPACING);
    FUZZ_CHECK(vipl_mpa_crc_is_right(marked.data(), length));
    fuzz::Bytes back(bytes);
    std::size_t taken = 0;
    bool bad = true;
    FUZZ_CHECK(vipl_test::unmark_fpdu(back.data(), bytes, marked.data(), length, &back_end, &taken, &bad) ==
               bytes);
    FUZZ_CHECK(!bad && taken == length && back_end == end);
    FUZZ_CHECK(vipl_mpa_crc_is_right(back.data(), bytes));
    FUZZ_CHECK(std::memcmp(back.data(), fpdu, bytes - VIPL_MPA_CRC_BYTES) == 0);
}

void take_plain(const std::uint8_t *stream, std::size_t length, std::uint32_t position)
{
    while (length >= VIPL_MPA_HEADER_BYTES) {
        const std::size_t bytes = vipl_mpa_fpdu_bytes(static_cast<std::size_t>(stream[0]) << 8 | stream[1]);
        if (bytes > length) {
            return; // not all there
        }
        check_fpdu(stream, bytes, position);
        stream += bytes;
        length -= bytes;
    }
}

void take_marked(const std::uint8_t *stream, std::size_t length, std::uint32_t position)
{
    enum { ROOM = 4096 };
    for (;;) {
        std::unique_ptr<std::uint8_t[]> to(new std::uint8_t[ROOM]);
        const std::uint32_t before = position;
        std::size_t taken = 0;
        bool bad = false;
        const auto exact = fuzz::exactly(stream, length);
        const std::size_t bytes =
            vipl_test::unmark_fpdu(to.get(), ROOM, exact.get(), length, &position, &taken, &bad);
        if (bytes == 0) {
            FUZZ_CHECK(taken == 0 && position == before);
            return;
        }
        FUZZ_CHECK(!bad && bytes <= ROOM && taken >= bytes && taken <= length);
        FUZZ_CHECK(position == (before + taken) % VIPL_MPA_MARKER_SPACING);
        FUZZ_CHECK(bytes == vipl_mpa_fpdu_bytes(static_cast<std::size_t>(to[0]) << 8 | to[1]));
        FUZZ_CHECK(vipl_mpa_crc_is_right(to.get(), bytes) == vipl_mpa_crc_is_right(exact.get(), taken));
        check_fpdu(to.get(), bytes, before);
        stream += taken;
        length -= taken;
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    if (size < 2) {
        return 0;
    }
    const std::uint32_t position = data[0] * 4u % VIPL_MPA_MARKER_SPACING;
    const auto stream = fuzz::exactly(data + 2, size - 2);
    if ((data[1] & 1) != 0) {
        take_marked(stream.get(), size - 2, position);
    } else {
        take_plain(stream.get(), size - 2, position);
    }
    return 0;
}
