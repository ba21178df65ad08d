// SPDX-License-Identifier: MIT
//
// The shared-memory ring, well behaved: contents, the wrap at the end, the reserve for replies, the
// room it reports, positions that wrap around 32 bits, ready_fds, and a million messages between
// threads.
#include <catch2/catch.hpp>

#include <atomic>
#include <deque>
#include <thread>

#include "ring.hpp"
#include "support/environment.hpp"
#include "support/os_hooks.hpp"

using namespace unit;

namespace {

constexpr std::uint32_t kCount = 1024; // slots: the smallest ring there is
constexpr std::uint32_t kLargest = LO_MAX_CHUNK + LO_RDMA_PREFIX;

/** Take one message; it must be that one. */
void take(Ring &ring, std::uint32_t number, std::uint32_t bytes)
{
    lo_message message{};
    const unsigned char *payload = nullptr;
    REQUIRE(vipl_lo_ring_peek(&ring.in, &message, &payload) == LO_PEEK_OK);
    REQUIRE(message.bytes == bytes);
    REQUIRE(is_numbered(message, payload, number));
    vipl_lo_ring_pop(&ring.in, &message);
}

bool is_empty(Ring &ring)
{
    lo_message message{};
    const unsigned char *payload = nullptr;
    const bool empty = vipl_lo_ring_peek(&ring.in, &message, &payload) == LO_PEEK_EMPTY;
    REQUIRE(empty == vipl_lo_ring_is_empty(&ring.in));
    return empty;
}

/** Random traffic, with a model of what is under way. */
void exchange(Ring &ring, Random &random, unsigned messages)
{
    std::deque<std::pair<std::uint32_t, std::uint32_t>> under_way;
    std::uint32_t number = 0;
    unsigned refused = 0;
    while (number < messages || !under_way.empty()) {
        if (number < messages && below(random, 5) < 3) {
            const auto bytes =
                static_cast<std::uint32_t>(below(random, below(random, 8) == 0 ? kLargest + 1 : 200));
            if (put_numbered(ring.out, number, bytes)) {
                under_way.emplace_back(number++, bytes);
            } else {
                ++refused;
                REQUIRE(!under_way.empty()); // an empty ring takes any message
            }
        } else if (!under_way.empty()) {
            take(ring, under_way.front().first, under_way.front().second);
            under_way.pop_front();
            if (below(random, 4) == 0 || under_way.empty()) {
                vipl_lo_ring_release(&ring.in, true);
            }
        } else {
            REQUIRE(is_empty(ring));
        }
    }
    REQUIRE(is_empty(ring));
    REQUIRE(refused > 0);
}

} // namespace

TEST_CASE("messages of every size come out as they went in", "[ring]")
{
    Ring ring(kCount);
    std::uint32_t number = 0;
    for (std::uint32_t bytes = 0; bytes <= kLargest; bytes += bytes < 300 ? 1 : 97) {
        REQUIRE(is_empty(ring));
        REQUIRE(put_numbered(ring.out, number, bytes));
        take(ring, number++, bytes);
        vipl_lo_ring_release(&ring.in, true);
    }
}

TEST_CASE("random traffic wraps the ring in order", "[ring]")
{
    Random random(9);
    Ring ring(kCount);
    exchange(ring, random, 20000);
}

TEST_CASE("positions wrap around 32 bits", "[ring]")
{
    Random random(10);
    for (const std::uint32_t before : {1u, 63u, 64u, 500u, kCount - 1, kCount, kCount + 1, 20000u}) {
        Ring ring(kCount, 0u - before);
        exchange(ring, random, 2000);
    }
}

TEST_CASE("positions in the middle of their range are nothing special", "[ring]")
{
    Random random(11);
    for (const std::uint32_t at : {0x7FFFFFFFu, 0x80000000u, 0x80000000u - kCount, 12345u}) {
        Ring ring(kCount, at);
        exchange(ring, random, 500);
    }
}

TEST_CASE("requests leave the reserve to replies, and a full ring takes nothing", "[ring]")
{
    Ring ring(kCount);
    std::uint32_t requests = 0, replies = 0;
    while (put_numbered(ring.out, requests, 32)) {
        ++requests;
    }
    REQUIRE(requests == kCount - LO_RESERVE - 1);
    while (put_numbered(ring.out, requests + replies, 32, true)) {
        ++replies;
    }
    REQUIRE(replies == LO_RESERVE);
    for (std::uint32_t i = 0; i < requests + replies; ++i) {
        take(ring, i, 32);
    }
    REQUIRE(is_empty(ring));
    vipl_lo_ring_release(&ring.in, true);
    REQUIRE(put_numbered(ring.out, 7, 32));
}

TEST_CASE("the room that is reported can be claimed", "[ring]")
{
    Random random(12);
    Ring ring(kCount);
    std::deque<std::pair<std::uint32_t, std::uint32_t>> under_way;
    std::uint32_t number = 0;
    for (unsigned i = 0; i < 5000; ++i) {
        const auto most = static_cast<std::uint32_t>(1 + below(random, LO_MAX_CHUNK));
        const std::uint32_t room = vipl_lo_ring_room(&ring.out, most);
        REQUIRE(room <= most);
        if (room > 0) {
            REQUIRE(put_numbered(ring.out, number, room));
            under_way.emplace_back(number++, room);
        }
        if (room < most || below(random, 3) == 0) {
            REQUIRE(!under_way.empty());
            take(ring, under_way.front().first, under_way.front().second);
            under_way.pop_front();
            vipl_lo_ring_release(&ring.in, true);
        }
    }
}

TEST_CASE("a ring gets memory as far as messages go, and all of it in the first lap", "[ring]")
{
    Ring ring(4096);
    ring.out.backed = LO_FIRST_SLOTS;
    lo_message message{};
    message.type = LO_SEND;
    message.bytes = 100; // 3 slots
    for (int i = 0; i < 3000; ++i) {
        REQUIRE(vipl_lo_ring_claim(&ring.out, message.bytes, i % 7 == 0) != nullptr);
        const std::uint32_t backed = ring.out.backed;
        if (i < 10) { // with the word behind it that is cleared
            CHECK(backed == LO_FIRST_SLOTS);
        }
        CHECK((backed == ring.out.count || ring.out.at + 4 <= backed));
        vipl_lo_ring_publish(&ring.out, &message);
        lo_message seen{};
        const unsigned char *payload = nullptr;
        REQUIRE(vipl_lo_ring_peek(&ring.in, &seen, &payload) == LO_PEEK_OK);
        vipl_lo_ring_pop(&ring.in, &seen);
        vipl_lo_ring_release(&ring.in, true);
    }
    CHECK(ring.out.backed == ring.out.count);
}

TEST_CASE("a full ring whose slots have memory in part is full for requests and not for replies", "[ring]")
{
    Ring ring(4096);
    ring.out.backed = LO_FIRST_SLOTS;
    lo_message message{};
    message.type = LO_ACK;
    std::uint32_t requests = 0;
    std::uint32_t replies = 0;
    for (; vipl_lo_ring_claim(&ring.out, 0, false) != nullptr; ++requests) {
        vipl_lo_ring_publish(&ring.out, &message);
    }
    CHECK(requests == 4096 - LO_RESERVE - 1);
    for (; vipl_lo_ring_claim(&ring.out, 0, true) != nullptr; ++replies) {
        vipl_lo_ring_publish(&ring.out, &message);
    }
    CHECK(replies == LO_RESERVE);
}

TEST_CASE("a ring for which there is no memory is starved, and says so", "[ring]")
{
    Ring ring(4096);
    if (std::strstr(VipxBuildOptions(), "waker=eventfd") == nullptr) {
        WARN("this system cannot allocate a part of a ring: its layer allocates all of it");
        return;
    }
    ring.out.backed = LO_FIRST_SLOTS;
    lo_message message{};
    message.type = LO_ACK;
    for (std::uint32_t i = 0; i < LO_FIRST_SLOTS - 1; ++i) {
        REQUIRE(vipl_lo_ring_claim(&ring.out, 0, false) != nullptr);
        vipl_lo_ring_publish(&ring.out, &message);
    }
    CHECK(ring.out.starved == 0);
    vipl_resource_fail_after(1);
    CHECK(vipl_lo_ring_claim(&ring.out, 0, false) == nullptr);
    vipl_resource_fail_after(-1);
    CHECK(ring.out.starved == 1);
    CHECK(ring.out.backed == LO_FIRST_SLOTS);
}

TEST_CASE("ready_fds are signalled once, for those who sleep", "[ring]")
{
    Ring ring(kCount);
    lo_message message{};
    message.type = LO_ACK;
    const auto publish = [&] {
        REQUIRE(vipl_lo_ring_claim(&ring.out, 0, false) != nullptr);
        return vipl_lo_ring_publish(&ring.out, &message);
    };
    REQUIRE_FALSE(publish());
    ring.in.shared->asleep = 1;
    REQUIRE(publish());
    REQUIRE_FALSE(publish());
    REQUIRE_FALSE(vipl_lo_ring_release(&ring.in, true));
    ring.out.shared->wanting = 1;
    REQUIRE(vipl_lo_ring_release(&ring.in, true));
    REQUIRE_FALSE(vipl_lo_ring_release(&ring.in, true));
}

namespace {

/** Waits at first without leaving the CPU, so that two threads meet. */
void linger(unsigned turn)
{
    if (turn > 1000) {
        vipl_test::give_way();
    }
}

} // namespace

TEST_CASE("a producer relies on a consumer that sleeps properly, and tells it", "[ring]")
{
    Ring ring(kCount);
    CHECK_FALSE(vipl_lo_ring_mark_asleep(&ring.in));
    CHECK(ring.in.shared->asleep == 1);
    vipl_lo_ring_rely(&ring.out);
    CHECK_FALSE(ring.out.relies);
    ring.in.shared->sleeps_properly = 1;
    vipl_lo_ring_rely(&ring.out);
    CHECK(ring.out.relies);
    CHECK(vipl_lo_ring_mark_asleep(&ring.in));
    REQUIRE(put_numbered(ring.out, 1, 8));
    CHECK(ring.in.shared->asleep == 0); // it is to be woken
    CHECK_FALSE(vipl_lo_ring_is_empty(&ring.in));
}

TEST_CASE("no message is slept through, with the consumer's barriers", "[ring]")
{
    constexpr std::uint32_t kMessages = 20000;
    if (!vipl_barrier_take_part() || !vipl_barrier_in_all()) {
        return; // then nobody relies on them
    }
    Ring ring(kCount);
    std::atomic<std::uint32_t> taken{0};
    std::atomic<bool> woken{false};
    std::atomic<bool> slept_through{false};
    ring.in.shared->sleeps_properly = 1;
    vipl_lo_ring_rely(&ring.out);
    std::thread consumer([&] {
        while (taken < kMessages && !slept_through) {
            lo_message message{};
            const unsigned char *payload = nullptr;
            if (vipl_lo_ring_peek(&ring.in, &message, &payload) == LO_PEEK_OK) {
                vipl_lo_ring_pop(&ring.in, &message);
                vipl_lo_ring_release(&ring.in, true);
                ++taken;
                continue;
            }
            woken = false;
            if (vipl_lo_ring_mark_asleep(&ring.in)) {
                vipl_barrier_in_all();
            }
            const bool sleeps = vipl_lo_ring_is_empty(&ring.in);
            const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
            for (unsigned i = 0; sleeps && !woken && !slept_through; ++i) {
                linger(i);
                slept_through = std::chrono::steady_clock::now() > until;
            }
        }
    });
    lo_message message{};
    message.type = LO_ACK;
    for (std::uint32_t number = 0; number < kMessages && !slept_through; ++number) {
        for (unsigned i = 0; taken < number && !slept_through; ++i) { // it is about to sleep, or does
            linger(i);
        }
        for (volatile unsigned i = 0; i < number % 128; i = i + 1) {
        }
        REQUIRE(vipl_lo_ring_claim(&ring.out, 0, false) != nullptr);
        if (vipl_lo_ring_publish(&ring.out, &message)) {
            woken = true;
        }
    }
    consumer.join();
    CHECK_FALSE(slept_through);
    CHECK(taken == kMessages);
}

TEST_CASE("a million messages between two threads", "[ring]")
{
    constexpr std::uint32_t kMessages = 1000000;
    Ring ring(kCount, 0u - 100000); // wraps around 32 bits on the way
    std::atomic<std::uint32_t> wrong{0};
    std::thread consumer([&] {
        for (std::uint32_t number = 0; number < kMessages;) {
            lo_message message{};
            const unsigned char *payload = nullptr;
            const lo_peek peek = vipl_lo_ring_peek(&ring.in, &message, &payload);
            if (peek == LO_PEEK_OK) {
                wrong += is_numbered(message, payload, number) ? 0 : 1;
                vipl_lo_ring_pop(&ring.in, &message);
                ++number;
            } else if (peek == LO_PEEK_BROKEN) {
                wrong += kMessages;
                return;
            } else {
                vipl_lo_ring_release(&ring.in, true);
                std::this_thread::yield();
            }
        }
        vipl_lo_ring_release(&ring.in, true);
    });
    for (std::uint32_t number = 0; number < kMessages && wrong < kMessages;) {
        if (put_numbered(ring.out, number, number % 61 == 0 ? 1500 : number % 90)) {
            ++number;
        } else {
            std::this_thread::yield();
        }
    }
    consumer.join();
    REQUIRE(wrong == 0);
}
