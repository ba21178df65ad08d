// SPDX-License-Identifier: MIT
//
// The lock: it excludes, a thread that sleeps for it is woken, with the system's barriers and
// without, and when these begin while threads sleep.
#include <catch2/catch.hpp>

#include <thread>
#include <vector>

#include "internal.hpp"
#include "support/environment.hpp"

namespace {

enum { kThreads = 4, kTurns = 20000, kLongEach = 64 };

struct Counted {
    vipl_mutex lock = {};
    unsigned count = 0; // guarded by lock
};

/** Now and then it holds the lock for so long that others go to sleep. */
void take_turns(Counted &counted)
{
    for (unsigned i = 0; i < kTurns; ++i) {
        vipl_mutex_lock(&counted.lock);
        ++counted.count;
        if (i % kLongEach == 0) {
            vipl_test::give_way();
        }
        vipl_mutex_unlock(&counted.lock);
    }
}

/** Without the system's barriers until it ends. */
class Without {
public:
    Without() { vipl_store_ordered(&vipl_sleepers_make_barriers, 0); }
    ~Without() { vipl_barrier_prepare(); }
    Without(const Without &) = delete;
    Without &operator=(const Without &) = delete;
};

template <typename Meanwhile>
void contend(Meanwhile meanwhile)
{
    Counted counted;
    vipl_mutex_init(&counted.lock, VIPL_RANK_POOL);
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kThreads; ++i) {
        threads.emplace_back([&] { take_turns(counted); });
    }
    meanwhile();
    for (std::thread &thread : threads) {
        thread.join(); // a sleeper that is not woken never comes here
    }
    CHECK(counted.count == kThreads * kTurns);
    CHECK(counted.lock.word == 0);
    CHECK(counted.lock.sleepers == 0);
}

void nothing()
{
}

} // namespace

TEST_CASE("a lock excludes, and wakes who sleeps for it", "[mutex]")
{
    vipl_barrier_prepare();
    contend(nothing);
}

TEST_CASE("a lock does so where the system makes no barriers", "[mutex]")
{
    const Without barriers;
    contend(nothing);
}

TEST_CASE("barriers may begin while threads sleep for locks", "[mutex]")
{
    const Without barriers;
    contend([] {
        vipl_test::give_way();
        vipl_barrier_prepare();
    });
}
