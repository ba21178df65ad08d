// SPDX-License-Identifier: MIT
//
// The other end of a stream with markers: takes them out again. The library sends markers to peers
// that want them and asks nobody for any, so this is the tests' own.
#ifndef VIPL_SUPPORT_UNMARK_HPP
#define VIPL_SUPPORT_UNMARK_HPP

#include <cstddef>
#include <cstdint>
#include <cstring>

extern "C" {
#include "iwarp/crc32c.h"
#include "iwarp/mpa.h"
}

namespace vipl_test {

/** The markers of one whole FPDU that starts at `position` of its stream. */
class Markers {
public:
    explicit Markers(std::uint32_t position) : first_((0 - position) % VIPL_MPA_MARKER_SPACING) {}
    std::size_t header() const { return first_ == 0 ? VIPL_MPA_MARKER_BYTES : 0; }
    /** The bytes that `length` bytes are with their markers. */
    std::size_t with(std::size_t length) const
    {
        std::size_t at = 0;
        for (std::size_t next = first_; length > 0; next += VIPL_MPA_MARKER_SPACING) {
            const std::size_t piece = next - at < length ? next - at : length;
            length -= piece;
            at += piece + (length > 0 ? VIPL_MPA_MARKER_BYTES : 0);
        }
        return at;
    }
    /** Whether those among the first `bytes` point to the FPDU's start. */
    bool right(const std::uint8_t *marked, std::size_t bytes) const
    {
        for (std::size_t at = first_; at + VIPL_MPA_MARKER_BYTES <= bytes; at += VIPL_MPA_MARKER_SPACING) {
            const std::size_t distance = at < header() ? 0 : at - header();
            const std::size_t said = std::size_t{marked[at + 2]} << 8 | marked[at + 3];
            if ((said & ~std::size_t{3}) != (distance & 0xFFFF)) {
                return false;
            }
        }
        return true;
    }
    /** Copies but for them; `to` may be `marked`. */
    void remove(std::uint8_t *to, const std::uint8_t *marked, std::size_t bytes) const
    {
        for (std::size_t at = 0; at < bytes; ++at) {
            if (at < first_ || (at - first_) % VIPL_MPA_MARKER_SPACING >= VIPL_MPA_MARKER_BYTES) {
                *to++ = marked[at];
            }
        }
    }

private:
    std::size_t first_;
};

/** One whole marked FPDU that starts at `position`: writes it without its markers and returns its
 * bytes without them, *taken what it had with them; 0: not all there, or a marker is wrong
 * (*bad). */
inline std::size_t unmark_fpdu(std::uint8_t *to, std::size_t size, const std::uint8_t *marked,
                               std::size_t bytes, std::uint32_t *position, std::size_t *taken, bool *bad)
{
    const Markers markers(*position);
    const std::size_t header = markers.header();
    *bad = !markers.right(marked, bytes < header ? bytes : header);
    if (*bad || bytes < header + VIPL_MPA_HEADER_BYTES) {
        return 0;
    }
    const std::size_t fpdu =
        vipl_mpa_fpdu_bytes(std::size_t{marked[header]} << 8 | std::size_t{marked[header + 1]});
    const std::size_t whole = markers.with(fpdu);
    *bad = fpdu > size || !markers.right(marked, bytes < whole ? bytes : whole);
    if (*bad || bytes < whole) {
        return 0;
    }
    // The CRC of other bytes now; what was wrong with it stays wrong.
    const auto crc_at = [](const std::uint8_t *end) {
        return std::uint32_t{end[-1]} << 24 | std::uint32_t{end[-2]} << 16 | std::uint32_t{end[-3]} << 8 |
               std::uint32_t{end[-4]};
    };
    const std::uint32_t error = crc_at(marked + whole) ^ vipl_crc32c(0, marked, whole - VIPL_MPA_CRC_BYTES);
    markers.remove(to, marked, whole);
    const std::uint32_t crc = vipl_crc32c(0, to, fpdu - VIPL_MPA_CRC_BYTES) ^ error;
    for (int i = 0; i < VIPL_MPA_CRC_BYTES; ++i) {
        to[fpdu - VIPL_MPA_CRC_BYTES + i] = static_cast<std::uint8_t>(crc >> (8 * i));
    }
    *position = static_cast<std::uint32_t>((*position + whole) % VIPL_MPA_MARKER_SPACING);
    *taken = whole;
    return fpdu;
}

} // namespace vipl_test

#endif
