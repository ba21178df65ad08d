// SPDX-License-Identifier: MIT
//
// The service thread is asked to flush what the program's next look at the device would do. Whether
// it does it is a matter of what happens in its pauses, of which each lasts as long as the case
// lets it: no case takes time.
#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "clock.hpp"
#include "internal.hpp"
#include "support/check.hpp"
#include "support/environment.hpp"
#include "support/objects.hpp"

using namespace vipl_test;

namespace {

constexpr unsigned kQuiet = 4;              // pauses, as in service.c
constexpr std::uint64_t kMaxPause = 100000; // ns
constexpr unsigned kOften = 50;             // more than any doubling needs to get long

/** What the device has to do, and how often it has been looked at. */
struct Desk {
    std::atomic<bool> pending{false};
    std::atomic<unsigned> flushed{0}, looks{0};

    void post() { pending = true; }
    void look()
    {
        ++looks;
        pending = false;
    }
};

Desk *g_desk;

/** The thread that pauses, and the case that lets it go on. */
class Stop {
public:
    void arrive(std::uint64_t ns)
    {
        std::unique_lock<std::mutex> lock(mutex_);
        longest = std::max(longest, ns);
        ++arrived_;
        changed_.notify_all();
        changed_.wait(lock, [&] { return open_ || left_ < let_; });
        ++left_;
    }
    /** Until it is in its next pause, which is the number-th. */
    void await(unsigned number)
    {
        std::unique_lock<std::mutex> lock(mutex_);
        EXPECT(changed_.wait_for(lock, std::chrono::milliseconds(patience()),
                                 [&] { return arrived_ >= number; }));
    }
    void let_go()
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        ++let_;
        changed_.notify_all();
    }
    void open()
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        open_ = true;
        changed_.notify_all();
    }
    unsigned arrived()
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        return arrived_;
    }
    std::uint64_t longest = 0;

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    unsigned arrived_ = 0, let_ = 0, left_ = 0;
    bool open_ = false;
};

/** A NIC handle whose service thread runs, and whose device has a desk. */
class Bench {
public:
    Bench() : inside_(static_cast<vipl_nic *>(vipl_handle_find(VIPL_KIND_NIC, nic_))), before_(inside_->ops)
    {
        g_desk = &desk;
        ops_ = *before_;
        ops_.flush_deferred = [](vipl_be_nic *) {
            if (g_desk->pending) {
                ++g_desk->flushed;
                g_desk->look();
            }
        };
        ops_.poll_epoch = [](vipl_be_nic *) -> std::uint32_t { return g_desk->looks; };
        inside_->ops = &ops_;
        REQUIRE(vipl_service_start(inside_) == VIP_SUCCESS);
        await_attention(VIPL_ASLEEP);
    }
    ~Bench()
    {
        stop.open();
        await_attention(VIPL_ASLEEP);
        vipl_service_stop(inside_);
        inside_->ops = before_;
    }
    Bench(const Bench &) = delete;
    Bench &operator=(const Bench &) = delete;

    void post()
    {
        desk.post();
        CHECK(vipl_up_request_flush(inside_));
    }
    /** The thread is in its next pause. */
    void await_pause() { stop.await(++pauses_); }
    /** That pause is over, and the next one has begun. */
    void pass()
    {
        stop.let_go();
        await_pause();
    }
    /** The last pause is over, and there is none more. */
    void pass_last()
    {
        stop.let_go();
        await_attention(VIPL_ASLEEP);
        CHECK(stop.arrived() == pauses_);
    }
    /** The first quiet pause is over. */
    void pass_quiet()
    {
        for (unsigned i = 2; i < kQuiet; ++i) {
            pass();
        }
        pass_last();
    }

    Desk desk;
    Stop stop;

private:
    void await_attention(std::uint32_t which)
    {
        const unsigned long long end = now_ms() + patience();
        while (vipl_load_ordered(&inside_->service.attention) != which) {
            EXPECT(now_ms() < end);
            give_way();
        }
    }

    const Nic nic_;
    vipl_nic *inside_;
    const vipl_backend *before_;
    vipl_backend ops_;
    unit::Pauses paused_{[this](std::uint64_t ns) { stop.arrive(ns); }};
    unsigned pauses_ = 0;
};

} // namespace

TEST_CASE("what a program leaves undone is done after one pause", "[deferred_flush]")
{
    Bench bench;
    for (unsigned i = 1; i <= kOften; ++i) {
        bench.post();
        bench.await_pause();
        CHECK(bench.desk.flushed == i - 1);
        bench.pass();
        CHECK(bench.desk.flushed == i);
        bench.pass_quiet();
    }
    CHECK(bench.stop.longest <= kMaxPause);
}

TEST_CASE("a program that looks by itself, however often, is left alone, and waits no longer afterwards",
          "[deferred_flush]")
{
    Bench bench;
    bench.post();
    bench.await_pause();
    for (unsigned i = 0; i < kOften; ++i) {
        bench.desk.look();
        bench.post();
        bench.pass();
        CHECK(bench.desk.flushed == 0);
    }
    bench.pass(); // of which the program made no use
    CHECK(bench.desk.flushed == 1);
    CHECK_FALSE(bench.desk.pending);
    CHECK(bench.stop.longest <= kMaxPause);
}

TEST_CASE("a program that posts on and on, and does not look, does not put it off", "[deferred_flush]")
{
    Bench bench;
    bench.post();
    bench.await_pause();
    for (unsigned i = 1; i <= kOften; ++i) {
        bench.post();
        bench.pass();
        CHECK(bench.desk.flushed == i);
        bench.post();
        bench.pass(); // it is new: a pause of its own
        CHECK(bench.desk.flushed == i);
    }
}

TEST_CASE("what comes in the last pause is done, too, and nothing comes after it", "[deferred_flush]")
{
    Bench bench;
    bench.post();
    bench.await_pause();
    for (unsigned i = 1; i < kQuiet; ++i) {
        bench.pass();
    }
    bench.post();
    bench.pass();
    CHECK(bench.desk.flushed == 1);
    bench.pass();
    CHECK(bench.desk.flushed == 2);
    bench.pass_quiet();
    CHECK(bench.stop.longest <= kMaxPause);
}
