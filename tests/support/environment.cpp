// SPDX-License-Identifier: MIT
//
// Reads the environment variables that environment.hpp names. Nothing is cached but the scale, so
// a program may set them before it starts its cases.
#include "environment.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include "check.hpp"
#include "system.hpp"

namespace vipl_test {

namespace {

void enter_network(const char *file)
{
#if defined(__linux__)
    const int space = open(file, O_RDONLY | O_CLOEXEC);
    if (space < 0 || setns(space, CLONE_NEWNET) != 0) {
        throw Failure(std::string("cannot enter the network namespace ") + file + ": " +
                      std::strerror(errno));
    }
    close(space);
#else
    throw Failure(std::string("there are no network namespaces here: ") + file);
#endif
}

} // namespace

const char *device_under_test()
{
    const char *name = std::getenv("VIPL_TEST_DEVICE");
    return name != nullptr && name[0] != '\0' ? name : "loopback";
}

void move_to_peer_host()
{
    const char *const space = std::getenv("VIPL_TEST_PEER_NETNS");
    const char *const device = std::getenv("VIPL_TEST_PEER_DEVICE");
    if (space != nullptr && space[0] != '\0') {
        enter_network(space);
    }
    if (device != nullptr && device[0] != '\0') {
        set_environment("VIPL_TEST_DEVICE", device);
    }
}

bool objects_are_shareable()
{
    const char *value = std::getenv("VIPL_TEST_SHAREABLE");
    return value != nullptr && std::string(value) == "1";
}

MemoryKind memory_kind()
{
    const char *value = std::getenv("VIPL_TEST_MEMORY");
    const std::string kind = value != nullptr ? value : "own";
    return kind == "shared" ? MemoryKind::shared : kind == "device" ? MemoryKind::device : MemoryKind::own;
}

bool device_is_rnic()
{
    return std::strncmp(device_under_test(), "rnic", 4) == 0;
}

bool device_is_tcp()
{
    return std::strncmp(device_under_test(), "tcp", 3) == 0;
}

bool device_is_loopback()
{
    return std::strcmp(device_under_test(), "loopback") == 0;
}

static unsigned factor(const char *variable, unsigned otherwise)
{
    const char *text = std::getenv(variable);
    const long value = text != nullptr ? std::strtol(text, nullptr, 10) : otherwise;
    return value < 1 ? 1u : value > 1000 ? 1000u : static_cast<unsigned>(value);
}

unsigned timeout_scale()
{
    static const unsigned scale = factor("VIPL_TEST_TIMEOUT_SCALE", 1);
    return scale;
}

unsigned slowness()
{
    static const unsigned slow = factor("VIPL_TEST_SLOWNESS", timeout_scale());
    return slow;
}

unsigned long long a_second()
{
    constexpr unsigned long long kBusy = 3000;
    return (1000 + kBusy) * timeout_scale();
}

VIP_ULONG patience()
{
    return 8000ul * timeout_scale();
}

VIP_ULONG answer_time()
{
    const char *text = std::getenv("VIPL_TEST_ANSWER_MS");
    return std::max(kMoment, text != nullptr ? std::strtoul(text, nullptr, 10) : 0);
}

VIP_ULONG short_while()
{
    return 90ul * slowness() + answer_time();
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

void give_way(unsigned turn)
{
    std::this_thread::sleep_for(std::chrono::microseconds(20u << std::min(turn / 16, 8u)));
}

/* The first processes of two name spaces for processes have the same number. */
std::string unique_discriminator()
{
    static const unsigned random = std::random_device{}() & 0xFFFFu;
    static std::atomic<unsigned> counter{0};
    char text[17];
    std::snprintf(text, sizeof text, "%x.%x.%x", random, static_cast<unsigned>(getpid()),
                  counter.fetch_add(1, std::memory_order_relaxed));
    return text;
}

} // namespace vipl_test
