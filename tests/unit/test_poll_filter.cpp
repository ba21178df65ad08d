// SPDX-License-Identifier: MIT
//
// Polling without a lock: what is quiet and what is not; a poll that comes when its NIC handle has
// gone, or is another one by now; and memory that a late look may still read.
#include <catch2/catch.hpp>

#include <atomic>
#include <cstring>
#include <thread>

#include "internal.hpp"
#include "support/objects.hpp"

using namespace vipl_test;

TEST_CASE("a look finds nothing until a word has its value", "[poll_filter]")
{
    std::uint32_t words[2] = {6, 6};
    vipl_poll_filter filter{};
    filter.due = vipl_ticks() + 1000000;
    filter.words[0] = &words[0];
    filter.words[1] = &words[1];
    filter.values[0] = filter.values[1] = 7;
    CHECK_FALSE(vipl_poll_filter_may_skip(&filter)); // words_plus_one is 0: always poll
    filter.words_plus_one = 1;
    CHECK(vipl_poll_filter_may_skip(&filter)); // nothing to look at
    filter.words_plus_one = 3;
    CHECK(vipl_poll_filter_may_skip(&filter));
    words[1] = 7;
    CHECK_FALSE(vipl_poll_filter_may_skip(&filter));
    filter.words_plus_one = 2;
    CHECK(vipl_poll_filter_may_skip(&filter));
    words[0] = 7;
    CHECK_FALSE(vipl_poll_filter_may_skip(&filter));
}

TEST_CASE("a poll is due at its time, whatever the words say", "[poll_filter]")
{
    vipl_poll_filter filter{};
    filter.words_plus_one = 1;
    filter.due = vipl_ticks() + 1000000;
    CHECK(vipl_poll_filter_may_skip(&filter));
    filter.due = vipl_ticks();
    CHECK_FALSE(vipl_poll_filter_may_skip(&filter));
    filter.due = vipl_ticks() - 1000000;
    CHECK_FALSE(vipl_poll_filter_may_skip(&filter));
}

TEST_CASE("ticks go on, and are no longer than 200 microseconds", "[poll_filter]")
{
    for (unsigned i = 0; i < 20; ++i) {
        const std::uint64_t begin = vipl_now_ns();
        const std::uint32_t first = vipl_ticks();
        while (vipl_now_ns() - begin < 10000000) {
        }
        const std::uint32_t ticks = vipl_ticks() - first;
        CHECK(ticks >= 10000000 / 200000);
        CHECK(ticks < 10000000 / 100); // hours pass before they wrap
    }
}

TEST_CASE("retired memory is there still, and empty, until it is used again", "[poll_filter]")
{
    vipl_shm first{}, other{}, second{};
    REQUIRE(vipl_shm_create(&first, "vipl-test", 65536) == 0);
    std::memset(first.base, 0xFF, first.bytes);
    const auto *seen = static_cast<const volatile unsigned char *>(first.base);
    vipl_shm_retire(&first);
    CHECK(first.base == nullptr);
    CHECK(seen[0] == 0);
    CHECK(seen[65535] == 0);
    REQUIRE(vipl_shm_create(&other, "vipl-test", 131072) == 0);
    CHECK(other.base != static_cast<const volatile void *>(seen));
    REQUIRE(vipl_shm_create(&second, "vipl-test", 65536) == 0);
    CHECK(second.base == static_cast<const volatile void *>(seen));
    vipl_shm_release(&second);
    vipl_shm_release(&other);
}

TEST_CASE("who polls a VI that ends meanwhile is told so", "[poll_filter]")
{
    std::atomic<void *> handle{nullptr};
    std::atomic<bool> over{false};
    std::atomic<unsigned> wrong{0};
    std::thread poller([&] {
        while (!over) {
            VIP_DESCRIPTOR *done = nullptr;
            const VIP_RETURN rc = VipRecvDone(handle, &done);
            wrong += rc == VIP_NOT_DONE || rc == VIP_INVALID_PARAMETER ? 0 : 1;
        }
    });
    for (unsigned i = 0; i < 300; ++i) {
        const Nic nic("loopback", false);
        const Vi vi(nic);
        NetAddress local = nic.address(unique_discriminator()), remote = nic.address("");
        VIP_VI_ATTRIBUTES attributes{};
        VIP_CONN_HANDLE request = nullptr;
        handle = vi;
        // with that the NIC handle has something to do with other processes, which polls look at
        CHECK(VipConnectWait(nic, local, 0, remote, &attributes, &request) == VIP_TIMEOUT);
    }
    over = true;
    poller.join();
    CHECK(wrong == 0);
}
