// SPDX-License-Identifier: MIT
//
// A hostile peer of the same user on an established link of the loopback device: messages, control
// words.
#include "fuzz.hpp"

#include "../unit/hostile_script.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    unit::Play(data, size).run();
    return 0;
}
