// SPDX-License-Identifier: MIT
#include "clock.hpp"

#include <atomic>
#include <utility>

extern "C" {
void __real_vipl_pause(std::uint64_t ns);
void __wrap_vipl_pause(std::uint64_t ns);
std::uint64_t __real_vipl_now_ns(void);
std::uint64_t __wrap_vipl_now_ns(void);
}

namespace {

std::atomic<std::uint64_t> g_ahead{0};   // of the real clock, modulo 2^64
std::atomic<std::uint64_t> g_stopped{0}; // what a stopped clock shows; 0: it runs
std::atomic<bool> g_pauses{false};       // there is a g_pause
std::function<void(std::uint64_t)> g_pause;

} // namespace

std::uint64_t __wrap_vipl_now_ns(void)
{
    const std::uint64_t stopped = g_stopped;
    return stopped != 0 ? stopped : __real_vipl_now_ns() + g_ahead;
}

void unit::pass_ms(std::uint64_t ms)
{
    g_ahead += ms * UINT64_C(1000000);
}

unit::StoppedClock::StoppedClock()
{
    g_stopped = __wrap_vipl_now_ns();
}

void unit::StoppedClock::pass_ns(std::uint64_t ns)
{
    g_stopped += ns;
}

unit::StoppedClock::~StoppedClock()
{
    g_ahead = g_stopped - __real_vipl_now_ns(); // no time has passed: nothing is late now
    g_stopped = 0;
}

void __wrap_vipl_pause(std::uint64_t ns)
{
    if (g_pauses) {
        g_pause(ns);
    } else {
        __real_vipl_pause(ns);
    }
}

unit::Pauses::Pauses(std::function<void(std::uint64_t ns)> pause)
{
    g_pause = std::move(pause);
    g_pauses = true;
}

unit::Pauses::~Pauses()
{
    g_pauses = false;
}
