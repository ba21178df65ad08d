// SPDX-License-Identifier: MIT
//
// What the backends say to their like before a connection is one; the first byte chooses the
// parser.
#include "fuzz.hpp"

extern "C" {
#include "hello.h"
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    if (size < 1) {
        return 0;
    }
    const auto bytes = fuzz::exactly(data + 1, size - 1);
    const char *wrong = nullptr;
    switch (data[0] % 4) {
    case 0:
        wrong = fuzz_loopback_request(bytes.get(), size - 1);
        break;
    case 1:
        wrong = fuzz_loopback_reply(bytes.get(), size - 1);
        break;
    case 2:
        wrong = fuzz_tcp_request(bytes.get(), size - 1);
        break;
    default:
        wrong = fuzz_loopback_notice(bytes.get(), size - 1);
        break;
    }
    if (wrong != nullptr) {
        std::fprintf(stderr, "%s\n", wrong);
    }
    FUZZ_CHECK(wrong == nullptr);
    return 0;
}
