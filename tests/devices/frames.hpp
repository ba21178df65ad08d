// SPDX-License-Identifier: MIT
//
// Frames made and read by tests.
#ifndef VIPL_DEVICES_FRAMES_HPP
#define VIPL_DEVICES_FRAMES_HPP

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

extern "C" {
#include "devices/rnic/efe/frame.h"
}

namespace adapters {

inline efe_header header_of(const std::vector<std::uint8_t> &frame)
{
    efe_header header{};
    if (efe_frame_read(frame.data(), frame.size(), &header) != EFE_FRAME_OK) {
        throw std::logic_error("not a frame");
    }
    return header;
}

/** A whole frame; header.payload_bytes of payload, which is repeated or cut to that. */
inline std::vector<std::uint8_t> frame_of(const efe_header &header,
                                          const std::vector<std::uint8_t> &payload = {0})
{
    std::vector<std::uint8_t> frame(EFE_PAYLOAD_AT + header.payload_bytes + EFE_CRC_BYTES);
    efe_frame_write(frame.data(), &header);
    for (std::size_t i = 0; i < header.payload_bytes; ++i) {
        frame[EFE_PAYLOAD_AT + i] = payload[i % payload.size()];
    }
    efe_frame_seal(frame.data());
    return frame;
}

} // namespace adapters

#endif
