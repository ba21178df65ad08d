// SPDX-License-Identifier: MIT
//
// The queue that starts in its owner's memory: items leave in the order in which they came,
// wherever in its memory the queue is when that becomes full; it has no more of them than it may;
// and without memory it keeps what it has.
#include <catch2/catch.hpp>

#include <deque>
#include <random>

#include "support/os_hooks.hpp"

extern "C" {
#include "base/fifo.h"
}

namespace {

struct Item {
    std::uint32_t number;
    char rest[8];
};

struct Fifo {
    Fifo() { VIPL_FIFO_INIT(&fifo, few); }
    ~Fifo() { vipl_fifo_free(&fifo); }
    Fifo(const Fifo &) = delete;
    Fifo &operator=(const Fifo &) = delete;

    bool add(std::uint32_t number, std::uint32_t most)
    {
        if (!vipl_fifo_make_room(&fifo, most)) {
            return false;
        }
        *static_cast<Item *>(vipl_fifo_append(&fifo)) = {number, {}};
        expected.push_back(number);
        return true;
    }
    void drop()
    {
        vipl_fifo_drop(&fifo);
        expected.pop_front();
    }
    void check() const
    {
        REQUIRE(fifo.count == expected.size());
        for (std::uint32_t i = 0; i < fifo.count; ++i) {
            REQUIRE(static_cast<Item *>(vipl_fifo_at(&fifo, i))->number == expected[i]);
        }
    }

    Item few[2];
    vipl_fifo fifo;
    std::deque<std::uint32_t> expected;
};

} // namespace

TEST_CASE("a queue keeps its order, wherever it is when it grows", "[fifo]")
{
    std::mt19937 random(7);
    for (unsigned dropped = 0; dropped < 64; ++dropped) {
        Fifo queue;
        std::uint32_t next = 0;
        for (unsigned i = 0; i < dropped; ++i) { // its first item is anywhere
            REQUIRE(queue.add(next++, 64));
            queue.drop();
        }
        for (unsigned i = 0; i < 500; ++i) {
            if (random() % 3 != 0 && queue.fifo.count < 64) {
                REQUIRE(queue.add(next++, 64));
            } else if (queue.fifo.count > 0) {
                queue.drop();
            }
            queue.check();
        }
    }
}

TEST_CASE("a queue starts in its owner's memory, and has as many items as it may", "[fifo]")
{
    Fifo queue;
    for (std::uint32_t i = 0; i < 5; ++i) {
        CHECK((queue.fifo.own == nullptr) == (i <= 2));
        REQUIRE(queue.add(i, 5));
    }
    CHECK_FALSE(queue.add(5, 5));
    queue.check();
    queue.drop();
    CHECK(queue.add(5, 5));
    queue.check();
}

TEST_CASE("a queue that gets no memory keeps what it has, and grows later", "[fifo]")
{
    Fifo queue;
    REQUIRE(queue.add(0, 64));
    REQUIRE(queue.add(1, 64));
    vipl_alloc_fail_after(1);
    CHECK_FALSE(queue.add(2, 64));
    vipl_alloc_fail_after(-1);
    queue.check();
    queue.drop();
    CHECK(queue.add(2, 64)); // there is room now
    CHECK(queue.add(3, 64));
    queue.check();
}
