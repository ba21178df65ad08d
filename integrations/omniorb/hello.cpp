// SPDX-License-Identifier: MIT
#include "hello.hpp"

#include <cstring>

namespace omnivipl {

namespace {

constexpr uint32_t VERSION = 1;

void put(unsigned char *at, uint32_t value)
{
    for (int shift = 24; shift >= 0; shift -= 8) {
        *at++ = static_cast<unsigned char>(value >> shift);
    }
}

} // namespace

Hello make_hello(vipl_stream_window window)
{
    Hello bytes;
    std::memcpy(bytes.data(), "VGIO", 4);
    put(&bytes[4], VERSION);
    put(&bytes[8], window.messages);
    put(&bytes[12], window.bytes);
    return bytes;
}

bool is_hello(const Hello &bytes, vipl_stream_window window)
{
    return bytes == make_hello(window);
}

} // namespace omnivipl
