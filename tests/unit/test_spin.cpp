// SPDX-License-Identifier: MIT
//
// Polling before a sleep. The clock stands still but for what the device and the system of a case
// let pass: a poll, a yield and a sleep take as long as the case says.
#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <functional>

#include <poll.h>
#include <unistd.h>

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
        forget();
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
            return vipl_now_ns() < self->due_ ? VIP_NOT_DONE : VIP_SUCCESS;
        };
        what.leave = [](void *, vipl_waiter *, bool) {};
        what.fds = fds;
        REQUIRE(vipl_guard_enter());
        return vipl_guard_leave(vipl_wait(ops_.nic, &what, deadline_));
    }
    vipl_nic *nic() const { return ops_.nic; }

    unsigned polls = 0, sleeps = 0, yields = 0;
    std::uint64_t poll_ns = 100, yield_ns = 400; // so 16 polls and a yield last 2 us
    std::function<void()> on_poll;

private:
    /** The thread has learnt from the case before. */
    void forget()
    {
        unit::StoppedClock::pass_ns(101 * kMs);
        for (int i = 0; i < 16; ++i) {
            CHECK(wait(500) == VIP_SUCCESS);
        }
    }

    static inline Spinner *self = nullptr;
    unit::StoppedClock clock_;
    const Nic nic_{"loopback", Nic::Flags{VIPX_SPIN}};
    unit::Replaced ops_;
    void *const filter_;
    std::uint64_t due_ = 0, deadline_ = 0;
};

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

} // namespace

void __wrap_vipl_yield(void)
{
    if (g_yield) {
        g_yield();
    } else {
        __real_vipl_yield();
    }
}

TEST_CASE("what comes while a thread spins costs no sleep, and the thread yields every 16 polls", "[spin]")
{
    Spinner spinner;
    CHECK(spinner.wait(20 * kUs) == VIP_SUCCESS);
    CHECK(spinner.sleeps == 0);
    CHECK(spinner.yields == 10);
    CHECK(spinner.polls == 1 + 16 * spinner.yields + 1); // the first is that of a call without a spin
}

TEST_CASE("a spin asks the device only if the poll filter does not know that nothing has come", "[spin]")
{
    Spinner spinner;
    std::uint32_t head = 0;
    vipl_poll_filter filter{};
    filter.poll = [](vipl_poll_filter *) { return false; };
    filter.words_plus_one = 2;
    filter.words[0] = &head;
    filter.values[0] = 1;
    filter.due = vipl_ticks() + (UINT32_C(1) << 30);
    vipl_store_ptr(&spinner.nic()->poll_filter, &filter);
    CHECK(spinner.wait(20 * kUs) == VIP_SUCCESS); // another thread has moved it
    CHECK(spinner.sleeps == 0);
    CHECK(spinner.yields == 50); // no time passes but in these
    CHECK(spinner.polls == 1);   // that of any call
    head = 1;
    CHECK(spinner.wait(20 * kUs) == VIP_SUCCESS);
    CHECK(spinner.polls == 1 + 16 * spinner.yields + 1);
    CHECK(spinner.sleeps == 0);
}

TEST_CASE("the spin is halved after long waits, down to none, and doubled after short ones, also asleep",
          "[spin]")
{
    Spinner spinner;
    for (const unsigned yields : {25U, 12U, 6U, 3U, 1U, 0U}) { // 50 us, 25, ... 1.6
        CHECK(spinner.wait(10 * kMs) == VIP_SUCCESS);
        CHECK(spinner.yields == yields);
        CHECK(spinner.sleeps == 1);
    }
    for (int i = 0; i < 100; ++i) {
        CHECK(spinner.wait(10 * kMs) == VIP_SUCCESS);
        CHECK(spinner.polls == 2); // before the sleep, and after it
    }
    for (const unsigned yields : {0U, 0U, 1U, 3U, 6U}) { // one short wait after many long ones counts
        CHECK(spinner.wait(20 * kUs) == VIP_SUCCESS);
        CHECK(spinner.yields == yields);
        CHECK(spinner.sleeps == 1);
    }
    CHECK(spinner.wait(20 * kUs) == VIP_SUCCESS);
    CHECK(spinner.sleeps == 0);
}

TEST_CASE("a call does not spin beyond its time limit, and not at all without time", "[spin]")
{
    Spinner spinner;
    CHECK(spinner.wait(10 * kMs, 0) == VIP_TIMEOUT);
    CHECK(spinner.polls == 2); // those of any call
    CHECK(spinner.wait(10 * kMs, 20 * kUs) == VIP_TIMEOUT);
    CHECK(spinner.yields == 10);
    CHECK(spinner.sleeps == 0);
}

TEST_CASE("a thread that gets its CPU back late does not spin for 100 ms", "[spin]")
{
    Spinner spinner;
    spinner.yield_ns = 199 * kUs; // the thread that answers may have had something to do
    CHECK(spinner.wait(20 * kUs) == VIP_SUCCESS);
    CHECK(spinner.sleeps == 0);
    CHECK(spinner.wait(20 * kUs) == VIP_SUCCESS);
    CHECK(spinner.yields == 1);
    spinner.yield_ns = 4 * kMs;
    CHECK(spinner.wait(20 * kUs) == VIP_SUCCESS);
    CHECK(spinner.yields == 1);
    spinner.yield_ns = 400;
    for (const std::uint64_t later : {std::uint64_t(0), 98 * kMs}) {
        unit::StoppedClock::pass_ns(later);
        CHECK(spinner.wait(20 * kUs) == VIP_SUCCESS);
        CHECK(spinner.yields == 0);
        CHECK(spinner.sleeps == 1);
    }
    unit::StoppedClock::pass_ns(2 * kMs);
    CHECK(spinner.wait(20 * kUs) == VIP_SUCCESS);
    CHECK(spinner.yields == 10);
    CHECK(spinner.sleeps == 0);
}

TEST_CASE("a descriptor that is ready ends the wait after the spin, without a sleep; an entry comes first",
          "[spin]")
{
    Spinner spinner;
    Watched watched;
    watched.write();
    CHECK(spinner.wait(20 * kUs, VIPL_NO_DEADLINE, &watched.fds) == VIP_SUCCESS);
    CHECK(spinner.wait(10 * kMs, VIPL_NO_DEADLINE, &watched.fds) == VIP_NOT_DONE);
    CHECK(vipl_more_fds_are_ready(&watched.fds));
    CHECK(spinner.yields == 25);
    CHECK(spinner.sleeps == 0);
    CHECK(spinner.wait(10 * kMs, VIPL_NO_DEADLINE, &watched.fds) == VIP_NOT_DONE);
    CHECK(spinner.yields == 12); // descriptors need no polling
}

TEST_CASE("in a child that a handler forks, the spin is over and nothing is polled", "[spin]")
{
    Spinner spinner;
    spinner.on_poll = [&] {
        if (spinner.polls == 5) {
            spinner.nic()->generation++; // as if the process were a child
        }
    };
    CHECK(spinner.wait(20 * kUs) == VIP_INVALID_PARAMETER);
    spinner.nic()->generation--;
    CHECK(spinner.polls == 5);
    CHECK(spinner.sleeps == 0);
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
