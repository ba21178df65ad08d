// SPDX-License-Identifier: MIT
//
// What endpoints of the libfabric provider say to each other; the first byte chooses the parser.
#include "fuzz.hpp"

extern "C" {
#include "datagrams.h"
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    static const char *(*const parsers[])(const std::uint8_t *, std::size_t) = {
        fuzz_datagram_head, fuzz_datagram_name, fuzz_connection_hello};
    if (size < 1) {
        return 0;
    }
    const auto bytes = fuzz::exactly(data + 1, size - 1);
    const char *wrong = parsers[data[0] % 3](bytes.get(), size - 1);
    if (wrong != nullptr) {
        std::fprintf(stderr, "%s\n", wrong);
    }
    FUZZ_CHECK(wrong == nullptr);
    return 0;
}
