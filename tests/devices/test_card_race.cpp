// SPDX-License-Identifier: MIT
//
// Falling asleep against posting, by two threads: one is the card, which sleeps as soon as it has
// nothing to do and wakes by WAKE alone; the other is a driver, which posts again a few nanoseconds
// after the last completion. VIPL_STRESS_SLEEPS says how often; without it, as often as two seconds
// allow, but a thousand times. A post that is missed is never completed. The pauses are as long as
// the card takes to fall asleep, so most posts come while it does.
#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>

#include "devices/two.hpp"

using namespace card;

namespace {

constexpr std::uint32_t kBehind = 48; // entries of the completion ring that may be outstanding

std::uint32_t load_word(const std::uint8_t *at)
{
    const std::uint32_t word = __atomic_load_n(reinterpret_cast<const std::uint32_t *>(at), __ATOMIC_ACQUIRE);
    std::uint8_t bytes[4];
    std::memcpy(bytes, &word, 4);
    return rnic_get32(bytes, false);
}

void store_word(std::uint8_t *at, std::uint32_t value)
{
    std::uint8_t bytes[4];
    std::uint32_t word;
    rnic_put32(bytes, value, false);
    std::memcpy(&word, bytes, 4);
    __atomic_store_n(reinterpret_cast<std::uint32_t *>(at), word, __ATOMIC_RELEASE);
}

/** What the environment says. */
std::uint64_t number(const char *variable, std::uint64_t usual)
{
    const char *const text = std::getenv(variable);
    return text == nullptr ? usual : std::strtoull(text, nullptr, 0);
}

/** The card's thread. Nothing but WAKE ends its sleep, so a timer does not come to the help of a
 * post that was missed. */
class Sleeper {
public:
    explicit Sleeper(Two &the_two) : two_(the_two), thread_([this] { run(); }) {}
    Sleeper(const Sleeper &) = delete;
    Sleeper &operator=(const Sleeper &) = delete;
    ~Sleeper()
    {
        over_ = true;
        thread_.join();
    }
    void wake() { wake_ = true; }
    std::uint64_t sleeps() const { return sleeps_; }

private:
    void run()
    {
        rnic_card *const card = &two_.host.card;
        while (!over_) {
            rnic_card_advance(card, ++two_.host.now);
            if (rnic_card_sleep(card)) {
                ++sleeps_;
                while (!wake_.exchange(false) && !over_) {
                    std::this_thread::yield();
                }
                rnic_card_wake(card);
            }
        }
    }

    Two &two_;
    std::atomic<bool> wake_{false}, over_{false};
    std::atomic<std::uint32_t> sleeps_{0};
    std::thread thread_;
};

/** The data sheet's five steps. */
void ring(Two &two, Sleeper &sleeper, std::uint32_t doorbell, std::uint32_t hint, std::uint32_t value)
{
    std::uint8_t *const bar2 = two.host.bar2(0);
    store_word(bar2 + doorbell, value);
    __atomic_store_n(bar2 + hint, std::uint8_t{1}, __ATOMIC_RELEASE);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (load_word(bar2 + RNIC_DB_ASLEEP) != 0) {
        sleeper.wake();
    }
}

bool await_owner(const std::uint8_t *entry, std::uint32_t owner)
{
    const auto end =
        std::chrono::steady_clock::now() + std::chrono::seconds(20) * number("VIPL_TEST_TIMEOUT_SCALE", 1);
    for (unsigned turn = 0; load_word(entry + RNIC_CQE_OWNER) != owner; ++turn) {
        if (turn % 1024 == 1023 && std::chrono::steady_clock::now() > end) {
            return false;
        }
        if (turn % 64 == 63) {
            std::this_thread::yield(); // where there is one processor for both
        }
    }
    return true;
}

} // namespace

TEST_CASE("a card that falls asleep at once misses no post of a driver that posts just then", "[card]")
{
    Two two;
    const std::uint32_t qp = two.pair->qp_a, cq = two.pair->cq_a;
    const Driver::Ring completions = two.a.cqs[cq];
    std::uint32_t taken = completions.index;
    std::minstd_rand random(1);
    Sleeper sleeper(two);
    const auto enough = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    const std::uint64_t rounds = number("VIPL_STRESS_SLEEPS", 0), least = rounds == 0 ? 1000 : rounds;
    std::uint64_t done = 0;
    for (; done < least || (rounds == 0 && std::chrono::steady_clock::now() < enough); ++done) {
        two.a.post(qp, two.write(8), false);
        ring(two, sleeper, RNIC_DB_QP + 64 * qp + RNIC_QPDB_SQ, RNIC_DB_QP_HINTS + qp / RNIC_GROUP,
             two.a.qps[qp].sq.index);
        const std::uint32_t place = taken & ((1u << completions.log2) - 1);
        const bool seen = await_owner(two.a.at(completions.base + place * RNIC_COMPLETION_BYTES), taken + 1);
        ++taken;
        if (taken % kBehind == 0) {
            store_word(two.host.bar2(0) + RNIC_DB_CQ + 64 * cq + RNIC_CQDB_CONSUMER, taken);
        }
        REQUIRE(seen);
        for (std::uint32_t i = random() % 256; i > 0; --i) {
            std::atomic_signal_fence(std::memory_order_seq_cst);
        }
    }
    CHECK(sleeper.sleeps() > done / 100);
    std::printf("%llu posts, %llu sleeps\n", static_cast<unsigned long long>(done),
                static_cast<unsigned long long>(sleeper.sleeps()));
}
