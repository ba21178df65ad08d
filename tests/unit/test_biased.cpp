// SPDX-License-Identifier: MIT
//
// The lock that favours one thread: it excludes while it has an owner, while it loses one and gets
// another, and without one; who is not its owner waits for the owner, or is refused.
#include <catch2/catch.hpp>

#include <atomic>
#include <csignal>
#include <thread>
#include <vector>

#include "internal.hpp"
#include "support/environment.hpp"

namespace {

enum { kThreads = 4, kTurns = 500, kRounds = 40, kLongEach = 64 };

/** A lock that may have an owner. */
struct Favour {
    Favour()
    {
        vipl_barrier_prepare();
        vipl_biased_init(&lock, VIPL_RANK_POOL);
        vipl_biased_allow(&lock);
    }
    /** This thread becomes the owner. */
    void own()
    {
        vipl_biased_lock_own(&lock);
        vipl_biased_unlock(&lock);
    }
    bool is_owned() const { return lock.owner == vipl_thread_number; }

    vipl_biased lock{};
    unsigned count = 0; // guarded by lock
    std::atomic<bool> is_over{false};
};

void take(Favour &f, unsigned turn)
{
    switch (turn % 3) {
    case 0:
        vipl_biased_lock(&f.lock);
        break;
    case 1:
        vipl_biased_lock_own(&f.lock);
        break;
    default:
        while (!vipl_biased_trylock_own(&f.lock)) {
        }
    }
}

/** Now and then inside for so long that others wait. */
void take_turns(Favour &f)
{
    for (unsigned i = 0; i < kTurns; ++i) {
        take(f, i);
        ++f.count;
        if (i % kLongEach == 0) {
            vipl_test::give_way();
        }
        vipl_biased_unlock(&f.lock);
    }
}

void contend(Favour &f)
{
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kThreads; ++i) {
        threads.emplace_back([&] { take_turns(f); });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    CHECK(f.count == kThreads * kTurns);
    CHECK_FALSE(vipl_biased_is_held(&f.lock));
}

template <typename Function>
void in_another_thread(Function function)
{
    std::thread(function).join();
}

} // namespace

TEST_CASE("a lock excludes while it gets an owner, and loses it", "[biased]")
{
    for (unsigned i = 0; i < kRounds; ++i) {
        Favour f;
        contend(f);
        CHECK(f.lock.owner == VIPL_BIASED_OVER);
    }
}

TEST_CASE("a lock excludes at the moment in which its owner loses it", "[biased]")
{
    std::vector<Favour> favours(1500);
    unsigned turns = 0;
    std::thread owner([&] {
        for (Favour &f : favours) {
            while (!f.is_over) {
                vipl_biased_lock_own(&f.lock);
                ++f.count;
                ++turns;
                vipl_biased_unlock(&f.lock);
            }
        }
    });
    for (Favour &f : favours) {
        while (vipl_load_relaxed(&f.lock.owner) < VIPL_BIASED_NUMBERS) {
            vipl_test::give_way();
        }
        vipl_biased_lock(&f.lock);
        const unsigned seen = f.count;
        for (volatile unsigned i = 0; i < 100; i = i + 1) { // what the owner counts now is lost
        }
        f.count = seen + 1;
        f.is_over = true;
        vipl_biased_unlock(&f.lock);
    }
    owner.join();
    unsigned all = 0;
    for (const Favour &f : favours) {
        all += f.count;
    }
    CHECK(all == turns + favours.size());
}

TEST_CASE("a lock without barriers has no owner, and excludes", "[biased]")
{
    Favour f;
    vipl_biased_init(&f.lock, VIPL_RANK_POOL);
    vipl_store_ordered(&vipl_sleepers_make_barriers, 0);
    vipl_biased_allow(&f.lock);
    f.own();
    CHECK(f.lock.owner == VIPL_BIASED_NOT);
    CHECK_FALSE(vipl_biased_enter(&f.lock));
    contend(f);
    vipl_barrier_prepare();
}

TEST_CASE("the first thread that takes a lock as its own is its owner, until another takes it", "[biased]")
{
    Favour f;
    vipl_biased_lock(&f.lock); // not as its own
    vipl_biased_unlock(&f.lock);
    CHECK_FALSE(vipl_biased_enter(&f.lock));
    f.own();
    REQUIRE(f.is_owned());
    REQUIRE(vipl_biased_enter(&f.lock));
    CHECK(vipl_biased_is_held(&f.lock));
    CHECK(f.lock.m.word == 0); // by no atomic operation
    vipl_biased_leave(&f.lock);
    CHECK_FALSE(vipl_biased_is_held(&f.lock));
    in_another_thread([&] {
        CHECK_FALSE(vipl_biased_enter(&f.lock));
        f.own(); // it has had its owner
        CHECK_FALSE(f.is_owned());
    });
    CHECK(f.lock.owner == VIPL_BIASED_OVER);
    vipl_biased_allow(&f.lock);
    f.own();
    CHECK_FALSE(f.is_owned()); // nobody any more
}

TEST_CASE("while the owner is inside another thread is refused, and has ended that it is the owner",
          "[biased]")
{
    Favour f;
    f.own();
    REQUIRE(vipl_biased_enter(&f.lock));
    in_another_thread([&] {
        CHECK_FALSE(vipl_biased_trylock(&f.lock));
        CHECK_FALSE(vipl_biased_trylock_own(&f.lock));
    });
    CHECK(f.lock.owner == VIPL_BIASED_OVER);
    CHECK(vipl_biased_is_held(&f.lock));
    vipl_biased_unlock(&f.lock); // by who it was
    CHECK_FALSE(vipl_biased_is_held(&f.lock));
    in_another_thread([&] {
        REQUIRE(vipl_biased_trylock(&f.lock));
        vipl_biased_unlock(&f.lock);
    });
}

TEST_CASE("what an owner did that was inside when it was ended is seen by who comes next", "[biased]")
{
    Favour f;
    f.own();
    REQUIRE(vipl_biased_enter(&f.lock));
    std::atomic<bool> refused{
        false}; // relaxed: for ThreadSanitizer nothing but the lock orders the two threads
    std::atomic<bool> left{false};
    std::thread other([&] {
        CHECK_FALSE(vipl_biased_trylock(&f.lock));
        refused.store(true, std::memory_order_relaxed);
        while (!left.load(std::memory_order_relaxed)) {
            vipl_test::give_way();
        }
        vipl_biased_lock(&f.lock);
        CHECK(f.count == 1);
        vipl_biased_unlock(&f.lock);
    });
    while (!refused.load(std::memory_order_relaxed)) {
        vipl_test::give_way();
    }
    ++f.count;
    vipl_biased_leave(&f.lock);
    left.store(true, std::memory_order_relaxed);
    other.join();
}

TEST_CASE("who needs what the owner has waits until it is outside", "[biased]")
{
    const bool pass = GENERATE(false, true);
    Favour f;
    f.own();
    REQUIRE(vipl_biased_enter(&f.lock));
    std::atomic<bool> begun{false};
    std::atomic<bool> got{false};
    std::thread other([&] {
        begun = true;
        if (pass) {
            vipl_biased_pass(&f.lock, vipl_barrier_everywhere());
        } else {
            vipl_biased_lock(&f.lock);
        }
        got = true;
        CHECK(f.count == 1);
        if (!pass) {
            vipl_biased_unlock(&f.lock);
        }
    });
    while (!begun || vipl_load_relaxed(&f.lock.owner) != VIPL_BIASED_OVER) {
        vipl_test::give_way();
    }
    CHECK_FALSE(got);
    f.count = 1;
    vipl_biased_leave(&f.lock);
    other.join();
    CHECK(got);
}

namespace {

/** A thread that owns a lock and takes it again and again, until it is given another one; and is
 * held in a signal handler meanwhile. */
class Interrupted {
public:
    explicit Interrupted(Favour &first) : favour_(&first), thread_([this] { run(); })
    {
        struct sigaction action = {};
        action.sa_handler = [](int) {
            held_ = true;
            while (held_) {
            }
        };
        sigaction(SIGUSR1, &action, &before_);
    }
    ~Interrupted()
    {
        over_ = true;
        thread_.join();
        sigaction(SIGUSR1, &before_, nullptr);
    }
    Interrupted(const Interrupted &) = delete;
    Interrupted &operator=(const Interrupted &) = delete;

    void take(Favour &next) { favour_ = &next; }
    /** Somewhere, once it owns the lock. */
    void hold()
    {
        const unsigned until = count_ + 10;
        while (count_ < until) {
            vipl_test::give_way();
        }
        pthread_kill(thread_.native_handle(), SIGUSR1);
        while (!held_) {
            vipl_test::give_way();
        }
    }
    static void let_go() { held_ = false; }
    /** How often it has had a lock. */
    unsigned count() const { return count_; }

private:
    void run()
    {
        while (!over_) {
            Favour *f = favour_;
            vipl_biased_lock_own(&f->lock);
            ++count_;
            vipl_biased_unlock(&f->lock);
        }
    }

    static inline std::atomic<bool> held_{false};
    std::atomic<Favour *> favour_;
    struct sigaction before_ = {};
    std::atomic<bool> over_{false};
    std::atomic<unsigned> count_{0};
    std::thread thread_;
};

} // namespace

#if !defined(__SANITIZE_THREAD__) // which puts off a signal until the thread calls the system

TEST_CASE("an owner that is interrupted before it is inside has to look again", "[biased]")
{
    std::vector<Favour> favours(500);
    Interrupted owner(favours[0]);
    unsigned taken = 0;
    for (Favour &f : favours) {
        owner.take(f);
        owner.hold();
        const bool outside = vipl_biased_trylock(&f.lock);
        const unsigned before = owner.count();
        Interrupted::let_go();
        if (outside) {
            vipl_test::give_way(); // it goes on meanwhile
            const unsigned after = owner.count();
            vipl_biased_unlock(&f.lock);
            REQUIRE(after == before);
            ++taken;
        }
    }
    CHECK(taken > 0);
}

#endif

TEST_CASE("a lock whose owner has ended is taken by others", "[biased]")
{
    Favour f;
    in_another_thread([&] { f.own(); });
    CHECK(f.lock.owner >= VIPL_BIASED_NUMBERS);
    CHECK_FALSE(f.is_owned());
    vipl_biased_lock(&f.lock);
    CHECK(f.lock.owner == VIPL_BIASED_OVER);
    vipl_biased_unlock(&f.lock);
}
