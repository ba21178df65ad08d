// SPDX-License-Identifier: MIT
//
// What a peer says of its direct accesses, and how long the end of a region waits for it: the words
// of its sessions in the segment of the link, which it may write by plain stores, so that they are
// sure to be seen after a barrier only.
#include <catch2/catch.hpp>

#include <atomic>
#include <functional>
#include <thread>
#include <utility>

#include "clock.hpp"
#include "raw_peer.hpp"

using namespace unit;

namespace {

std::function<void()> g_at_barrier; // what becomes visible by the next one

} // namespace

extern "C" {
bool __real_vipl_barrier_in_all(void);
bool __wrap_vipl_barrier_in_all(void);
}

bool __wrap_vipl_barrier_in_all(void)
{
    if (g_at_barrier) {
        std::exchange(g_at_barrier, nullptr)();
    }
    return __real_vipl_barrier_in_all();
}

namespace {

/** A peer that has written through three sessions of its link. */
struct Scene {
    Scene() : peer(victim), memory(victim), words(peer.segment->accesses[1 - peer.link->side])
    {
        set(words.used, 3);
    }
    ~Scene()
    {
        g_at_barrier = nullptr;
        set(words.used, 0);
    }

    static void set(std::uint32_t &word, std::uint32_t value)
    {
        __atomic_store_n(&word, value, __ATOMIC_RELEASE);
    }
    void say(std::uint32_t session, std::uint32_t value) { set(*lo_access_epoch(&words, session), value); }
    std::uint32_t epoch() const { return static_cast<lo_exports *>(victim.be->exports.base)->epoch; }

    VIP_RETURN deregister() { return VipDeregisterMem(victim.handle, memory.data(), memory.handle); }
    /** The same, and it does not wait: a second is over as soon as it does. */
    VIP_RETURN deregister_in_vain()
    {
        std::atomic<bool> over{false};
        std::thread time([&] {
            while (!over) {
                pass_ms(100);
            }
        });
        const VIP_RETURN rc = deregister();
        over = true;
        time.join();
        return rc;
    }

    Victim victim;
    RawPeer peer;
    VictimMemory memory;
    lo_accesses &words;
};

} // namespace

TEST_CASE("an access that was begun by a plain store is waited for, once a barrier has made it visible",
          "[accesses]")
{
    Scene s;
    s.say(2, LO_ACCESS_NO_BARRIER);
    g_at_barrier = [&] { s.say(2, lo_access_under(s.epoch() - 1)); };
    REQUIRE(s.deregister_in_vain() == VIP_ERROR_RESOURCE);
    REQUIRE_FALSE(g_at_barrier);
    s.say(2, LO_ACCESS_NO_BARRIER);
    REQUIRE(s.deregister() == VIP_SUCCESS);
}

TEST_CASE("no barrier is made for sessions that have accessed nothing", "[accesses]")
{
    Scene s;
    g_at_barrier = [] {};
    REQUIRE(s.deregister() == VIP_SUCCESS);
    REQUIRE(g_at_barrier);
}

TEST_CASE("an access of any session is waited for, under whichever earlier epoch it was begun", "[accesses]")
{
    for (const std::uint32_t session : {0U, 1U, 2U}) {
        for (const std::uint32_t earlier : {1U, 2U, 3U, 0x7FFFFFFFU}) {
            Scene s;
            s.say(session, lo_access_under(s.epoch() + 1 - earlier));
            REQUIRE(s.deregister_in_vain() == VIP_ERROR_RESOURCE);
            s.say(session, 0);
            REQUIRE(s.deregister() == VIP_SUCCESS);
        }
    }
}

TEST_CASE("an access that has begun after the end of the region is not waited for", "[accesses]")
{
    Scene s;
    s.say(0, LO_ACCESS_NO_BARRIER);
    s.say(1, lo_access_under(s.epoch() + 1));
    g_at_barrier = [&] { s.say(0, lo_access_under(s.epoch())); };
    REQUIRE(s.deregister() == VIP_SUCCESS);
    REQUIRE_FALSE(g_at_barrier);
}

TEST_CASE("a peer's word for how many sessions it has is no more than that", "[accesses]")
{
    Scene s;
    Scene::set(s.words.used, 0xFFFFFFFF);
    REQUIRE(s.deregister() == VIP_SUCCESS);
}

TEST_CASE("each session of a link has a word of its own, and the first ones a cache line", "[accesses]")
{
    lo_accesses words{};
    for (std::uint32_t i = 0; i < LO_ACCESSES; ++i) {
        REQUIRE(*lo_access_epoch(&words, i) == 0);
        *lo_access_epoch(&words, i) = i + 1;
        if (i > 0 && i < LO_ACCESS_LINES) {
            REQUIRE(lo_access_epoch(&words, i) - lo_access_epoch(&words, i - 1) == 16);
        }
    }
}
