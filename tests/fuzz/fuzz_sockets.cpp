// SPDX-License-Identifier: MIT
//
// The first bytes of a TCP connection, as programs whose sockets are moved to VIPL read them: what
// is no message stays none however it arrives, and changes nothing; what is read can be believed,
// and is the same when written and read again.
#include "fuzz.hpp"

#include <algorithm>

#define _Static_assert static_assert
extern "C" {
#include "sockets/hello.h"
}

namespace {

/** Its first byte that is wrong is wrong for good. Returns whether all of them begin a message. */
bool check_beginnings(const std::uint8_t *data, std::size_t size)
{
    bool begins = true;
    for (std::size_t n = 0; n <= size; ++n) {
        const bool now = sock_hello_begins(fuzz::exactly(data, n).get(), n);
        FUZZ_CHECK(begins || !now);
        FUZZ_CHECK(n <= SOCK_MAGIC_BYTES || now == begins);
        begins = now;
    }
    return begins;
}

void check_believable(const sock_hello &hello)
{
    FUZZ_CHECK(hello.kind >= SOCK_HELLO && hello.kind <= SOCK_DECLINE);
    if (hello.version != SOCK_HELLO_VERSION || hello.kind == SOCK_DECLINE) {
        FUZZ_CHECK(hello.window.messages == 0 && hello.window.bytes == 0 && hello.device[0] == '\0');
        return;
    }
    FUZZ_CHECK(vipl_stream_window_is_valid(hello.window));
    FUZZ_CHECK(hello.host_length > 0 && hello.host_length <= SOCK_HOST_BYTES);
    FUZZ_CHECK(hello.device[0] != '\0' && std::memchr(hello.device, '\0', SOCK_DEVICE_BYTES) != nullptr);
}

void check_written(const std::uint8_t *bytes, const sock_hello &hello)
{
    std::uint8_t written[SOCK_HELLO_BYTES], again[SOCK_HELLO_BYTES];
    sock_hello seen{};
    sock_hello_encode(&hello, written);
    if (hello.version != SOCK_HELLO_VERSION) {
        return; // nothing of it is known
    }
    FUZZ_CHECK(hello.kind == SOCK_DECLINE || std::memcmp(written, bytes, sizeof(written)) == 0);
    FUZZ_CHECK(sock_hello_decode(written, &seen));
    sock_hello_encode(&seen, again);
    FUZZ_CHECK(hello.kind == SOCK_DECLINE || std::memcmp(again, written, sizeof(again)) == 0);
    FUZZ_CHECK(seen.kind == hello.kind && seen.why == hello.why);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    const bool begins = check_beginnings(data, std::min<std::size_t>(size, SOCK_MAGIC_BYTES + 2));
    if (size < SOCK_HELLO_BYTES) {
        return 0;
    }
    const auto bytes = fuzz::exactly(data, SOCK_HELLO_BYTES);
    sock_hello before, hello;
    std::memset(&before, 0xA5, sizeof(before));
    std::memcpy(&hello, &before, sizeof(hello));
    if (!sock_hello_decode(bytes.get(), &hello)) {
        FUZZ_CHECK(std::memcmp(&hello, &before, sizeof(hello)) == 0);
        return 0;
    }
    FUZZ_CHECK(begins);
    check_believable(hello);
    check_written(bytes.get(), hello);
    return 0;
}
