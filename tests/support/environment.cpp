// SPDX-License-Identifier: MIT
//
// Reads the environment variables that environment.hpp names. Nothing is cached but the scale, so
// a program may set them before it starts its cases.
#include "environment.hpp"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <unistd.h>

namespace vipl_test {

const char *device_under_test()
{
    const char *name = std::getenv("VIPL_TEST_DEVICE");
    return name != nullptr && name[0] != '\0' ? name : "loopback";
}

bool device_is_loopback()
{
    return std::strcmp(device_under_test(), "loopback") == 0;
}

unsigned timeout_scale()
{
    static const unsigned scale = [] {
        const char *text = std::getenv("VIPL_TEST_TIMEOUT_SCALE");
        const long value = text != nullptr ? std::strtol(text, nullptr, 10) : 1;
        return value < 1 ? 1u : value > 1000 ? 1000u : static_cast<unsigned>(value);
    }();
    return scale;
}

VIP_ULONG patience()
{
    return 8000ul * timeout_scale();
}

VIP_ULONG short_while()
{
    return 150ul * timeout_scale();
}

unsigned case_limit()
{
    return 30 * timeout_scale();
}

unsigned long long now_ms()
{
    using namespace std::chrono;
    return static_cast<unsigned long long>(
        duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count());
}

std::string unique_discriminator()
{
    static std::atomic<unsigned> counter{0};
    char text[17];
    std::snprintf(text, sizeof text, "%x.%x", static_cast<unsigned>(getpid()),
                  counter.fetch_add(1, std::memory_order_relaxed));
    return text;
}

} // namespace vipl_test
