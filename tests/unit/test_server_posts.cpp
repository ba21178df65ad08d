// SPDX-License-Identifier: MIT
//
// White box: the server empties the rings in which clients leave sends. What it finds while it
// looks is not forgotten; and the room that killed clients had claimed is given back only when
// everything that living ones have posted is known.
#include <functional>
#include <memory>
#include <vector>

#include <sys/mman.h>

#include <catch2/catch.hpp>

#include "internal.hpp"

extern "C" {
#include "server_posts.h"
}

namespace {

/** Clients that post to one VI, and the server. */
class Bench {
public:
    Bench()
    {
        void *const room = mmap(nullptr, sizeof(vipl_arena), PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        REQUIRE(room != MAP_FAILED);
        arena_ = static_cast<vipl_arena *>(room);
        rings().handle = vi_;
        unit_posts_begin(arena_, vi_);
        for (unsigned client = 0; client < kClients; ++client) {
            unit_posts_client(client);
        }
    }
    ~Bench() { munmap(arena_, sizeof *arena_); }

    /** A client posts the number-th descriptor without a call, and tells the server. */
    bool post(unsigned client, unsigned number)
    {
        const vipl_submission entry = {vi_, descriptor(number), 0, 0};
        const bool done = vipl_posts_put(&arena_->posts, client, &ring(), &entry);
        if (done) {
            vipl_posts_mark_pending(&arena_->posts, client);
        }
        return done;
    }
    VIP_RETURN call(unsigned client, unsigned number) { return unit_posts_call(client, descriptor(number)); }
    /** When the server is about to look at the rings. */
    void meanwhile(std::function<void()> what)
    {
        meanwhile_ = std::move(what);
        unit_posts_before_look([](void *bench) { static_cast<Bench *>(bench)->meanwhile_(); }, this);
    }
    /** The numbers of what was posted, in that order. */
    std::vector<unsigned> posted() const
    {
        const unit_posted &made = *unit_posts_made();
        std::vector<unsigned> numbers;
        for (unsigned i = 0; i < made.count; ++i) {
            numbers.push_back(static_cast<unsigned>(made.descriptors[i] - descriptors_.data()));
        }
        return numbers;
    }
    bool is_pending(unsigned client) const { return (arena_->posts.pending[0] >> client & 1) != 0; }
    vipl_ring &ring() { return rings().queues[0]; }
    vipl_submissions &client(unsigned number) { return arena_->posts.clients[number]; }
    uint32_t code() const { return vipl_posts_code(vi_); }

    static constexpr unsigned kClients = VIPL_SHARE_DEPTH / VIPL_SHARE_POSTS + 2;

private:
    vipl_vi_rings &rings() { return arena_->vis[vipl_handle_slot(vi_)]; }
    VIP_DESCRIPTOR *descriptor(unsigned number) { return &descriptors_[number]; }

    void *const vi_ = reinterpret_cast<void *>(uintptr_t{1});
    std::vector<VIP_DESCRIPTOR> descriptors_{2 * VIPL_SHARE_DEPTH};
    std::function<void()> meanwhile_;
    vipl_arena *arena_ = nullptr;
};

using Numbers = std::vector<unsigned>;

Numbers up_to(unsigned end)
{
    Numbers numbers;
    for (unsigned i = 0; i < end; ++i) {
        numbers.push_back(i);
    }
    return numbers;
}

} // namespace

TEST_CASE("what clients post while the server begins to look is posted at its next look", "[share]")
{
    Bench bench;
    REQUIRE(bench.post(0, 0));
    bench.meanwhile([&] {
        REQUIRE(bench.post(0, 1)); // younger than the stamp that the server has read
        REQUIRE(bench.post(3, 2));
    });
    unit_posts_drain();
    CHECK(bench.posted() == Numbers{0});
    CHECK(bench.is_pending(0)); // else the server's thread would not look again
    CHECK(bench.is_pending(3));
    unit_posts_drain();
    CHECK(bench.posted() == Numbers{0, 1, 2});
    CHECK_FALSE(bench.is_pending(0));
    CHECK_FALSE(bench.is_pending(3));
}

TEST_CASE("what several clients post is posted in the order of its stamps", "[share]")
{
    Bench bench;
    for (unsigned i = 0; i < 60; ++i) {
        REQUIRE(bench.post(i * 7 % 5, i));
    }
    unit_posts_drain();
    CHECK(bench.posted() == up_to(60));
}

TEST_CASE("a call to a queue that is full of posts on their way finds them before it, and no room", "[share]")
{
    Bench bench;
    for (unsigned i = 0; i < VIPL_SHARE_DEPTH; ++i) {
        REQUIRE(bench.post(i / VIPL_SHARE_POSTS, i));
    }
    REQUIRE_FALSE(bench.post(Bench::kClients - 1, VIPL_SHARE_DEPTH));
    CHECK(bench.call(Bench::kClients - 1, VIPL_SHARE_DEPTH) == VIP_ERROR_RESOURCE);
    unit_posts_drain();
    CHECK(bench.posted() == up_to(VIPL_SHARE_DEPTH)); // none is lost, and none that was refused is there
    CHECK(bench.ring().claimed == VIPL_SHARE_DEPTH);
    bench.ring().reaped = 1;
    CHECK(bench.call(Bench::kClients - 1, VIPL_SHARE_DEPTH) == VIP_SUCCESS);
    CHECK(bench.posted() == up_to(VIPL_SHARE_DEPTH + 1));
}

TEST_CASE("claims of clients that were killed are forgotten, and what others have posted before comes before",
          "[share]")
{
    Bench bench;
    for (unsigned i = 0; i < 3; ++i) {
        REQUIRE(bench.post(i, i));
    }
    bench.ring().claimed = VIPL_SHARE_DEPTH; // all others are of the dead
    CHECK(bench.call(5, 3) == VIP_SUCCESS);
    CHECK(bench.posted() == up_to(4));
    CHECK(bench.ring().claimed == 4);
    CHECK(unit_posts_made()->refused == 0);
}

TEST_CASE("claims are not forgotten while a client is about to post what it has claimed", "[share]")
{
    Bench bench;
    bench.ring().claimed = VIPL_SHARE_DEPTH;
    bench.client(2).claiming = bench.code();
    CHECK(bench.call(5, 0) == VIP_ERROR_RESOURCE);
    CHECK(bench.ring().claimed == VIPL_SHARE_DEPTH);
    CHECK(bench.posted().empty());
    bench.client(2).claiming = bench.code() + 1; // to another VI
    CHECK(bench.call(5, 0) == VIP_SUCCESS);
    CHECK(bench.ring().claimed == 1);
}
