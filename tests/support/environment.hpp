// SPDX-License-Identifier: MIT
//
// What the surroundings decide: the device under test and how long to be patient. All times are
// here. Positive waits end as soon as the event comes, so they may be generous; negative waits
// ("nothing comes") always last their whole time, so they are short.
#ifndef VIPL_TESTS_ENVIRONMENT_HPP
#define VIPL_TESTS_ENVIRONMENT_HPP

#include <string>

#include <vipl/vipl.h>

namespace vipl_test {

/** VIPL_TEST_DEVICE, or "loopback". */
const char *device_under_test();

/**
 * Makes this process, a child with the client's role, one of another host: in the network namespace
 * VIPL_TEST_PEER_NETNS (a file), with the device VIPL_TEST_PEER_DEVICE. Nothing happens where they
 * are not set.
 */
void move_to_peer_host();

/** Whether the device under test is the emulator, some of whose answers are exactly known. */
bool device_is_loopback();
bool device_is_rnic();
bool device_is_tcp();

/** VIPL_TEST_SHAREABLE=1: the cases' NIC handles are shareable, and their memory is. */
bool objects_are_shareable();

/** VIPL_TEST_MEMORY: where the memory of a case is, on NIC handles that are not shareable. */
enum class MemoryKind {
    own,
    shared, // VipxAllocShared()'s
    device  // VipxAllocDevice()'s
};
MemoryKind memory_kind();

/** VIPL_TEST_TIMEOUT_SCALE, at least 1: emulators and sanitizers are slow, and machines busy. */
unsigned timeout_scale();

/** How slow the program itself is, at least 1: VIPL_TEST_SLOWNESS, else the same. */
unsigned slowness();

/** Milliseconds for what must come. */
VIP_ULONG patience();

/** Milliseconds to see that nothing comes. */
inline constexpr VIP_ULONG kMoment = 60;

/** Milliseconds in which a question gets the answer "nobody is here": VIPL_TEST_ANSWER_MS, or a
 * moment. */
VIP_ULONG answer_time();

/** Milliseconds for what must happen within a second: that, and what a machine that is busy
 * otherwise adds to it. */
unsigned long long a_second();

/** Milliseconds for a request that a listener must have taken, and that must then time out. */
VIP_ULONG short_while();

/** Seconds that one case may last before its processes are stopped. */
unsigned case_limit();

/** Milliseconds on a monotonic clock. */
unsigned long long now_ms();

/**
 * Between two looks at what another thread or process does: leaves it the CPU for some
 * microseconds. In a wait that may be long, with the looks before this one, it is the longer the
 * more there were, up to some milliseconds, so that many who wait leave the CPU to those who work.
 * Not sched_yield(): Linux 6.18 puts off a caller further with each, so that after many of them it,
 * or who wakes on the same CPU, may wait for minutes beside a program that computes.
 */
void give_way(unsigned turn = 0);

/** A discriminator that no other case of this or any other process uses; 16 characters at most. */
std::string unique_discriminator();

} // namespace vipl_test

#endif
