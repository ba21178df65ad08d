// SPDX-License-Identifier: MIT
//
// White box: the rings in which clients leave sends for the server, the room that they claim, and
// the table of regions.
#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "internal.hpp"

extern "C" {
#include "share/posts.h"
}

namespace {

constexpr uint32_t kRoom = VIPL_SHARE_POSTS;

void *slot_handle(uint32_t slot)
{
    return reinterpret_cast<void *>(uintptr_t{slot});
}

/** One client's ring, the queue that it posts to, and the server's place in the ring. */
struct Ring {
    /** The indices are about to wrap. */
    explicit Ring(uint32_t begin = 0) : head(begin)
    {
        mine().tail = mine().head = begin;
        queue->claimed = queue->reaped = begin;
    }

    vipl_submissions &mine() { return posts->clients[0]; }
    bool put(uintptr_t number)
    {
        const vipl_submission entry = {slot_handle(1), reinterpret_cast<void *>(number), uint32_t(number), 0};
        return vipl_posts_put(posts.get(), 0, queue.get(), &entry);
    }
    vipl_submission take()
    {
        const vipl_submission entry = vipl_posts_read(&mine(), head++);
        __atomic_store_n(&mine().head, head, __ATOMIC_RELEASE);
        return entry;
    }
    void reap() { __atomic_fetch_add(&queue->reaped, 1, __ATOMIC_SEQ_CST); }

    std::unique_ptr<vipl_posts> posts = std::make_unique<vipl_posts>();
    std::unique_ptr<vipl_ring> queue = std::make_unique<vipl_ring>();
    uint32_t head;
};

} // namespace

TEST_CASE("entries come out as they went in, over the end of the ring and of its indices", "[share]")
{
    Ring ring(UINT32_MAX - kRoom / 2);
    uint32_t stamp = 0;
    for (uintptr_t i = 1; i <= 3 * kRoom; i++) {
        REQUIRE(ring.put(i));
        const vipl_submission entry = ring.take();
        REQUIRE(entry.vi == slot_handle(1));
        REQUIRE(entry.descriptor == reinterpret_cast<void *>(i));
        REQUIRE(entry.memory == i);
        REQUIRE(entry.stamp == stamp++);
        ring.reap();
    }
}

TEST_CASE("a full ring takes nothing, and claims nothing", "[share]")
{
    Ring ring;
    for (uintptr_t i = 0; i < kRoom; i++) {
        REQUIRE(ring.put(i));
    }
    REQUIRE_FALSE(ring.put(kRoom));
    REQUIRE(ring.queue->claimed == kRoom);
    REQUIRE(ring.mine().claiming == 0);
    REQUIRE(ring.take().memory == 0);
    REQUIRE(ring.put(kRoom));
}

TEST_CASE("a full queue takes nothing, though the ring has room", "[share]")
{
    Ring ring;
    ring.queue->claimed = VIPL_SHARE_DEPTH - 1;
    REQUIRE(ring.put(1));
    REQUIRE_FALSE(ring.put(2));
    REQUIRE(ring.mine().tail == 1);
    REQUIRE(ring.mine().claiming == 0);
    ring.reap();
    REQUIRE(ring.put(2));
}

TEST_CASE("processes that claim at once take no more than there is", "[share]")
{
    Ring ring;
    std::atomic<uint32_t> taken{0};
    std::vector<std::thread> claimers;
    for (int i = 0; i < 2; i++) {
        claimers.emplace_back([&] {
            while (vipl_posts_claim(ring.queue.get())) {
                taken++;
            }
        });
    }
    for (std::thread &claimer : claimers) {
        claimer.join();
    }
    REQUIRE(taken == VIPL_SHARE_DEPTH);
}

TEST_CASE("a thread that reads meanwhile sees whole entries, in the order of their stamps", "[share]")
{
    Ring ring;
    std::thread writer([&] {
        for (uintptr_t i = 0; i < 20000; i++) {
            while (!ring.put(i)) {
                std::this_thread::yield();
            }
        }
    });
    for (uint32_t i = 0; i < 20000; i++) {
        while (__atomic_load_n(&ring.mine().tail, __ATOMIC_ACQUIRE) == ring.head) {
            std::this_thread::yield();
        }
        const vipl_submission entry = ring.take();
        ring.reap();
        const bool right = entry.memory == i && entry.stamp == i &&
                           entry.descriptor == reinterpret_cast<void *>(uintptr_t{i});
        if (!right) {
            FAIL_CHECK("entry " << i << " has memory " << entry.memory << ", stamp " << entry.stamp);
        }
    }
    writer.join();
}

TEST_CASE("a sleeping server is woken once", "[share]")
{
    Ring ring;
    REQUIRE(ring.put(1));
    REQUIRE_FALSE(vipl_posts_mark_pending(ring.posts.get(), 0));
    REQUIRE(ring.posts->pending[0] == 1);
    ring.posts->asleep = 1;
    REQUIRE(vipl_posts_mark_pending(ring.posts.get(), 0));
    REQUIRE_FALSE(vipl_posts_mark_pending(ring.posts.get(), 33));
    REQUIRE(ring.posts->pending[1] == 2);
}

TEST_CASE("a region is found by its NIC handle, its memory handle and its bounds", "[share]")
{
    Ring ring;
    vipl_posts *const posts = ring.posts.get();
    unsigned char bytes[128];
    void *const nic = slot_handle(3);
    vipl_posts_enter_region(posts, nic, bytes, sizeof bytes, 77);
    REQUIRE(vipl_posts_covers(posts, nic, 77, bytes, sizeof bytes));
    REQUIRE(vipl_posts_covers(posts, nic, 77, bytes + 64, 64));
    REQUIRE_FALSE(vipl_posts_covers(posts, nic, 77, bytes + 65, 64));
    REQUIRE_FALSE(vipl_posts_covers(posts, nic, 77, bytes - 1, 1));
    REQUIRE_FALSE(vipl_posts_covers(posts, nic, 78, bytes, 1));
    REQUIRE_FALSE(vipl_posts_covers(posts, slot_handle(4), 77, bytes, 1));
    REQUIRE_FALSE(vipl_posts_covers(posts, nullptr, 0, bytes, 1));
    vipl_posts_leave_region(posts, nic, 78);
    REQUIRE(vipl_posts_covers(posts, nic, 77, bytes, 1));
    vipl_posts_leave_region(posts, nic, 77);
    REQUIRE_FALSE(vipl_posts_covers(posts, nic, 77, bytes, 1));
}

TEST_CASE("a region that is being changed is not known", "[share]")
{
    Ring ring;
    vipl_posts *const posts = ring.posts.get();
    unsigned char bytes[8];
    void *const nic = slot_handle(3);
    vipl_posts_enter_region(posts, nic, bytes, sizeof bytes, 77);
    for (vipl_shared_region &region : posts->regions) {
        region.version += region.nic == nic ? 1 : 0;
    }
    REQUIRE_FALSE(vipl_posts_covers(posts, nic, 77, bytes, 1));
}
