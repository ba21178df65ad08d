// SPDX-License-Identifier: MIT
//
// What every fuzz target starts with.
#ifndef VIPL_FUZZ_HPP
#define VIPL_FUZZ_HPP

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size);

/** What a target promises; broken, the input is kept by the fuzzer, or named by the replay. */
#define FUZZ_CHECK(what) \
    do { \
        if (!(what)) { \
            std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what); \
            std::abort(); \
        } \
    } while (false)

namespace fuzz {

using Bytes = std::vector<std::uint8_t>;

/** A copy in memory of exactly that size, so that a checker sees a read beyond it. */
inline std::unique_ptr<std::uint8_t[]> exactly(const std::uint8_t *bytes, std::size_t length)
{
    std::unique_ptr<std::uint8_t[]> copy(new std::uint8_t[length]);
    for (std::size_t i = 0; i < length; ++i) {
        copy[i] = bytes[i];
    }
    return copy;
}

} // namespace fuzz

#endif
