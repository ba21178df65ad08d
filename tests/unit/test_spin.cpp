// SPDX-License-Identifier: MIT
//
// Polling before a sleep. The clock stands still but for what the device and the system of a case
// let pass: a poll, a look, a yield and a sleep take as long as the case says. Each case has a
// thread of its own, which has learnt nothing yet.
#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <functional>
#include <future>

#if __has_include(<poll.h>)
#include <poll.h>
#include <unistd.h>
#endif

#include "clock.hpp"
#include "internal.hpp"
#include "replaced.hpp"
#include "support/objects.hpp"
#include "support/setting.hpp"
#include "vipl/posix.h"

using namespace vipl_test;

extern "C" {
void __real_vipl_yield(void);
void __wrap_vipl_yield(void);
}

namespace {

std::function<void()> g_yield; // empty: the system's

constexpr std::uint64_t kUs = 1000;
constexpr std::uint64_t kMs = 1000 * kUs;

/** A NIC handle whose threads spin. What a call waits for comes when its time has
 * come. A sleep lasts until then, or until the call's time is over. */
class Spinner {
public:
    Spinner() : ops_(nic_), filter_(vipl_load_ptr(&ops_.nic->poll_filter))
    {
        self = this;
        vipl_store_ptr(&ops_.nic->poll_filter, nullptr); // each look is a poll
        ops_.ops.poll = [](vipl_be_nic *) {
            self->polls++;
            unit::StoppedClock::pass_ns(self->poll_ns);
            if (self->on_poll) {
                self->on_poll();
            }
        };
        ops_.ops.prepare_wait = [](vipl_be_nic *, vipl_poll_hint *hint) {
            const std::uint64_t now = vipl_now_ns(), until = std::min(self->due_, self->deadline_);
            hint->fd = -1;
            hint->ms = 0; // the sleep is over at once
            self->sleeps++;
            unit::StoppedClock::pass_ns(now < until ? until - now : 0);
        };
        ops_.ops.finish_wait = [](vipl_be_nic *, const vipl_poll_hint *) {};
        g_yield = [this] {
            yields++;
            unit::StoppedClock::pass_ns(yield_ns);
        };
    }
    ~Spinner()
    {
        g_yield = nullptr;
        vipl_store_ptr(&ops_.nic->poll_filter, filter_);
    }
    Spinner(const Spinner &) = delete;
    Spinner &operator=(const Spinner &) = delete;

    /** Waits for what comes after so long. */
    VIP_RETURN wait(std::uint64_t after_ns, std::uint64_t limit_ns = VIPL_NO_DEADLINE,
                    vipl_more_fds *fds = nullptr)
    {
        polls = sleeps = yields = 0;
        const std::uint64_t now = vipl_now_ns();
        due_ = now + after_ns;
        deadline_ = limit_ns == VIPL_NO_DEADLINE ? limit_ns : now + limit_ns;
        vipl_wait_for what{};
        what.attempt = [](void *, vipl_waiter *) {
            unit::StoppedClock::pass_ns(self->attempt_ns);
            return vipl_now_ns() < self->due_ ? VIP_NOT_DONE : VIP_SUCCESS;
        };
        what.leave = [](void *, vipl_waiter *, bool) {};
        what.fds = fds;
        REQUIRE(vipl_guard_enter());
        return vipl_guard_leave(vipl_wait(ops_.nic, &what, deadline_));
    }
    vipl_nic *nic() const { return ops_.nic; }

    bool is_awake(std::uint64_t after_ns)
    {
        CHECK(wait(after_ns) == VIP_SUCCESS);
        return sleeps == 0;
    }
    bool spins(std::uint64_t after_ns)
    {
        CHECK(wait(after_ns) == VIP_SUCCESS);
        return polls > 2; // one before a sleep and one after it are those of any call
    }
    /** Short waits take 1.9 us, so a spin takes 3 times 16 polls. */
    void learn_short()
    {
        for (int i = 0; i < 64; ++i) {
            CHECK(is_awake(2 * kUs));
        }
    }
    /** How many long waits there are until one of them begins with a spin. */
    unsigned waits_until_spin()
    {
        unsigned waits = 0;
        while (!spins(10 * kMs) && waits < 100000) {
            waits++;
        }
        return waits;
    }

    unsigned polls = 0, sleeps = 0, yields = 0;
    std::uint64_t poll_ns = 100, attempt_ns = 25, yield_ns = 400; // so 16 polls last 2 us
    std::function<void()> on_poll;

private:
    static inline Spinner *self = nullptr;
    unit::StoppedClock clock_;
    const Nic nic_{"loopback", Nic::Flags{VIPX_SPIN}};
    unit::Replaced ops_;
    void *const filter_;
    std::uint64_t due_ = 0, deadline_ = 0;
};

#if __has_include(<poll.h>)
/** The program's descriptors of one call: the end of a pipe. */
class Watched {
public:
    Watched()
    {
        REQUIRE(pipe(ends_.data()) == 0);
        const pollfd fd = {ends_[0], POLLIN, 0};
        REQUIRE(vipl_more_fds_begin(&fds, &fd, 1) == 0);
    }
    ~Watched()
    {
        vipl_more_fds_end(&fds);
        close(ends_[0]);
        close(ends_[1]);
    }
    Watched(const Watched &) = delete;
    Watched &operator=(const Watched &) = delete;

    void write() const { REQUIRE(::write(ends_[1], "x", 1) == 1); }

    vipl_more_fds fds{};

private:
    std::array<int, 2> ends_ = {-1, -1};
};
#endif

void in_new_thread(const std::function<void()> &body)
{
    std::async(std::launch::async, body).get();
}

} // namespace

void __wrap_vipl_yield(void)
{
    if (g_yield) {
        g_yield();
    } else {
        __real_vipl_yield();
    }
}

TEST_CASE("what comes while a thread spins costs no sleep", "[spin]")
{
    in_new_thread([] {
        Spinner spinner;
        CHECK(spinner.is_awake(20 * kUs));
        CHECK(spinner.yields == 1);
        CHECK(spinner.polls == 1 + (20000 - 125 - 400) / 125 + 1); // the first is that of any call
    });
}

TEST_CASE("a spin asks the device only if the poll filter does not know that nothing has come", "[spin]")
{
    in_new_thread([] {
        Spinner spinner;
        std::uint32_t head = 0;
        vipl_poll_filter filter{};
        filter.poll = [](vipl_poll_filter *) { return false; };
        filter.words_plus_one = 2;
        filter.words[0] = &head;
        filter.values[0] = 1;
        filter.due = vipl_ticks() + (UINT32_C(1) << 30);
        vipl_store_ptr(&spinner.nic()->poll_filter, &filter);
        CHECK(spinner.is_awake(20 * kUs)); // another thread has moved it
        CHECK(spinner.polls == 1);         // that of any call
        head = 1;
        CHECK(spinner.is_awake(20 * kUs));
        CHECK(spinner.polls == 1 + (20000 - 125) / 125);
    });
}

TEST_CASE(
    "a new thread spins once for as long as it may, and then for a 64th of the time, of which 50 us count "
    "of each wait",
    "[spin]")
{
    in_new_thread([] {
        Spinner spinner;
        CHECK(spinner.wait(10 * kMs) == VIP_SUCCESS);
        CHECK(spinner.polls == 2 + 50000 / 125); // before the spin, and after the sleep
        CHECK(spinner.sleeps == 1);
        CHECK(spinner.waits_until_spin() == 50000 / (50000 / 64));
        CHECK(spinner.polls == 2 + 50000 / 125);
        for (int i = 0; i < 10000; ++i) { // no more than one spin is saved up
            unit::StoppedClock::pass_ns(10 * kMs);
            CHECK(spinner.wait(10 * kMs, 0) == VIP_TIMEOUT);
        }
        CHECK(spinner.spins(10 * kMs));
        CHECK(!spinner.spins(10 * kMs));
    });
}

TEST_CASE("a thread spins for twice as long as short waits take, and what it finds asleep counts too",
          "[spin]")
{
    in_new_thread([] {
        Spinner spinner;
        spinner.learn_short();
        CHECK(spinner.wait(10 * kMs) == VIP_SUCCESS);
        CHECK(spinner.polls == 2 + 3 * 16); // 1.9 us each: 5.8 us, which are 3 times 16 polls
        unsigned asleep = 0;
        while (!spinner.is_awake(20 * kUs) && asleep < 1000) {
            asleep++;
        }
        CHECK(asleep > 3);
        CHECK(asleep < 150); // the budget has to grow, too
        for (int i = 0; i < 64; ++i) {
            CHECK(spinner.is_awake(20 * kUs));
        }
        CHECK(spinner.wait(10 * kMs) == VIP_SUCCESS);
        CHECK(spinner.polls == 2 + 21 * 16); // 42 us
    });
}

TEST_CASE("a thread goes on spinning while what it finds makes up for what it loses, 10 us for each",
          "[spin]")
{
    const auto find_one_in = [](int waits) {
        unsigned awake = 0;
        in_new_thread([&] {
            Spinner spinner;
            spinner.learn_short();
            for (int i = 0; i < 1000; ++i) {
                awake += spinner.is_awake(2 * kUs) ? 1 : 0;
                for (int missed = 1; missed < waits; ++missed) {
                    spinner.wait(10 * kMs); // 6 us are lost
                }
            }
        });
        return awake;
    };
    CHECK(find_one_in(2) == 1000);
    CHECK(find_one_in(3) < 500);
}

TEST_CASE("a call does not spin beyond its time limit, and not at all without time", "[spin]")
{
    in_new_thread([] {
        Spinner spinner;
        CHECK(spinner.wait(10 * kMs, 0) == VIP_TIMEOUT);
        CHECK(spinner.polls == 2); // those of any call
        CHECK(spinner.wait(10 * kMs, 20 * kUs) == VIP_TIMEOUT);
        CHECK(spinner.polls == 2 + 10 * 16);
        CHECK(spinner.sleeps == 0);
    });
}

TEST_CASE("a spin begins with a yield once in a millisecond", "[spin]")
{
    in_new_thread([] {
        Spinner spinner;
        unsigned yields = 0;
        for (int i = 0; i < 1000; ++i) {
            CHECK(spinner.is_awake(20 * kUs));
            yields += spinner.yields;
        }
        CHECK(yields == 20);
    });
}

TEST_CASE("a thread that gets its CPU back late once spins still, and makes sure at once", "[spin]")
{
    in_new_thread([] {
        Spinner spinner;
        spinner.learn_short();
        unit::StoppedClock::pass_ns(kMs);
        spinner.yield_ns = 10 * kUs;
        CHECK(spinner.is_awake(12 * kUs));
        CHECK(spinner.yields == 1);
        unit::StoppedClock::pass_ns(kMs);
        spinner.yield_ns = 10 * kUs + 1;
        CHECK(spinner.spins(100 * kUs));
        CHECK(spinner.yields == 1);
        spinner.yield_ns = 400;
        CHECK(spinner.is_awake(2 * kUs));
        CHECK(spinner.yields == 1);
        CHECK(spinner.is_awake(2 * kUs));
        CHECK(spinner.yields == 0);
    });
    in_new_thread([] { // the time is lost
        Spinner spinner;
        spinner.learn_short();
        unit::StoppedClock::pass_ns(kMs);
        spinner.yield_ns = kMs;
        CHECK(spinner.spins(10 * kMs)); // 6 us more
        spinner.yield_ns = 400;
        CHECK(spinner.waits_until_spin() == (kMs - 50 * kUs + 6000 + 5750) / (50000 / 64));
    });
}

TEST_CASE(
    "a thread that gets its CPU back late twice sleeps until a 64th of the time has made up for a slice",
    "[spin]")
{
    for (const std::uint64_t away : {10 * kUs + 1, 3 * kMs, 6 * kMs}) {
        in_new_thread([away] {
            const std::uint64_t owed = (std::max(away, 3 * kMs) + 5750) / (50000 / 64);
            Spinner spinner;
            spinner.learn_short();
            unit::StoppedClock::pass_ns(kMs);
            spinner.yield_ns = 10 * kUs + 1;
            CHECK(spinner.spins(10 * kMs));
            spinner.yield_ns = away;
            CHECK(!spinner.spins(10 * kMs));
            CHECK(spinner.yields == 1);
            unsigned waits = 0;
            while (!spinner.spins(10 * kMs) && spinner.yields == 0 && waits < 100000) {
                waits++;
            }
            CHECK(spinner.yields == 1); // late still: the next slice
            CHECK(waits == owed);
            spinner.yield_ns = 400;
            CHECK(spinner.waits_until_spin() > owed - 10); // a budget that is left over does not count
            CHECK(spinner.polls > 2);
        });
    }
}

#if __has_include(<poll.h>) // elsewhere no descriptor of the program is watched
TEST_CASE("a descriptor that is ready ends a spin within 7 us, and the wait; an entry comes first", "[spin]")
{
    in_new_thread([] {
        Spinner spinner;
        Watched watched;
        watched.write();
        CHECK(spinner.wait(4 * kUs, VIPL_NO_DEADLINE, &watched.fds) == VIP_SUCCESS);
        CHECK(spinner.sleeps == 0);
        for (int i = 0; i < 100; ++i) { // such a spin pays, too
            const std::uint64_t begun = vipl_now_ns();
            CHECK(spinner.wait(10 * kMs, VIPL_NO_DEADLINE, &watched.fds) == VIP_NOT_DONE);
            CHECK(vipl_more_fds_are_ready(&watched.fds));
            CHECK(vipl_now_ns() - begun < 9 * kUs);
            CHECK(spinner.sleeps == 0);
        }
        spinner.learn_short();
        for (int i = 0; i < 100; ++i) {
            CHECK(spinner.wait(10 * kMs, VIPL_NO_DEADLINE, &watched.fds) == VIP_NOT_DONE);
            CHECK(spinner.sleeps == 0);
            CHECK(spinner.spins(10 * kMs)); // 6 us are lost
        }
    });
}
#endif

TEST_CASE("in a child that a handler forks, the spin is over and nothing is polled", "[spin]")
{
    const auto fork_in = [](Spinner &spinner) {
        spinner.on_poll = [&] {
            if (spinner.polls == 5) {
                spinner.nic()->generation++; // as if the process were a child
            }
        };
        CHECK(spinner.wait(20 * kUs) == VIP_INVALID_PARAMETER);
        spinner.nic()->generation--;
        CHECK(spinner.polls == 5);
        CHECK(spinner.sleeps == 0);
    };
    in_new_thread([&] {
        Spinner spinner;
        fork_in(spinner);
    });
    in_new_thread([&] { // in a spin that keeps no signals out
        Spinner spinner;
        for (int i = 0; i < 64; ++i) {
            CHECK(spinner.is_awake(300));
        }
        fork_in(spinner);
    });
}

TEST_CASE("the longest spin is the setting's, on NIC handles with the flag", "[spin]")
{
    const auto most_ns = [](VIP_ULONG flags) {
        const Nic nic("loopback", Nic::Flags{flags});
        return static_cast<vipl_nic *>(vipl_handle_find(VIPL_KIND_NIC, nic))->spin_ns;
    };
    CHECK(most_ns(0) == 0);
    CHECK(most_ns(VIPX_SPIN) == 50 * kUs);
    CHECK(most_ns(VIPX_SPIN | VIPX_INLINE | VIPX_QUIET | VIPX_NO_LINGER) == 50 * kUs);
    {
        const EnvironmentSetting setting("VIPL_SPIN_US", "200");
        CHECK(most_ns(0) == 0);
        CHECK(most_ns(VIPX_SPIN) == 200 * kUs);
    }
    const EnvironmentSetting setting("VIPL_SPIN_US", "0");
    CHECK(most_ns(VIPX_SPIN) == 0);
}
