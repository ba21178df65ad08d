// SPDX-License-Identifier: MIT
//
// Storing to a slot of a window while the card copies it, by two threads: one is the card, the
// other is a driver that begins to store the entry eight behind in half of the rounds, at any time
// after it has posted. All bytes of an entry in its slot are the same, and all of its memory are
// others, so that what arrives says whether it was one or the other, and whole.
#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include "devices/two.hpp"

using namespace card;

namespace {

constexpr std::uint8_t kOfMemory = 0x11;
constexpr std::uint32_t kBehind = 48; // entries of the completion ring that may be outstanding
constexpr unsigned kLeast = 300;

std::uint32_t load_word(const std::uint8_t *at)
{
    const std::uint32_t word = __atomic_load_n(reinterpret_cast<const std::uint32_t *>(at), __ATOMIC_ACQUIRE);
    std::uint8_t bytes[4];
    std::memcpy(bytes, &word, 4);
    return rnic_get32(bytes, false);
}

void store_bytes(std::uint8_t *at, const std::uint8_t *bytes)
{
    std::uint32_t word;
    std::memcpy(&word, bytes, 4);
    __atomic_store_n(reinterpret_cast<std::uint32_t *>(at), word, __ATOMIC_RELEASE);
}

void store_word(std::uint8_t *at, std::uint32_t value)
{
    std::uint8_t bytes[4];
    rnic_put32(bytes, value, false);
    store_bytes(at, bytes);
}

/** The card's thread. */
class Running {
public:
    explicit Running(Host &host) : host_(host), thread_([this] { run(); }) {}
    Running(const Running &) = delete;
    Running &operator=(const Running &) = delete;
    ~Running()
    {
        over_ = true;
        thread_.join();
    }

private:
    void run()
    {
        for (unsigned turn = 1; !over_; ++turn) {
            rnic_card_advance(&host_.card, ++host_.now);
            if (turn % 64 == 0) {
                std::this_thread::yield(); // where there is one processor for both
            }
        }
    }
    Host &host_;
    std::atomic<bool> over_{false};
    std::thread thread_;
};

/** A driver whose queue pair has a window, and what it does by atomic stores. */
struct Storing : Two {
    Storing()
    {
        window = a.simple(RNIC_COMMAND_ASSIGN_WINDOW, pair->qp_a).info;
        std::memset(a.at(mem_a), kOfMemory, RNIC_WINDOW_PAYLOAD);
    }
    std::uint8_t *slot(std::uint32_t behind)
    {
        return host.bar2(a.fn) + RNIC_DB_WINDOWS + window * std::size_t{RNIC_WINDOW_BYTES} +
               (behind - 1) % RNIC_WINDOW_SLOTS * std::size_t{RNIC_WINDOW_SLOT_BYTES};
    }
    /** The first `words` words of an entry in its slot; all: END as well. */
    void store(const Work &work, std::uint32_t behind, std::uint8_t byte, unsigned words)
    {
        constexpr unsigned kAll = (RNIC_WINDOW_SLOT_BYTES - RNIC_WINDOW_LENGTH) / 4;
        std::uint8_t entry[RNIC_WINDOW_SLOT_BYTES] = {};
        std::uint8_t *const to = slot(behind);
        const Segment &segment = work.segments.front();
        rnic_put16(entry + RNIC_WINDOW_LENGTH, static_cast<std::uint16_t>(segment.length), false);
        entry[RNIC_WINDOW_OPCODE] = static_cast<std::uint8_t>(work.opcode);
        rnic_put32(entry + RNIC_WINDOW_COOKIE, work.cookie, false);
        rnic_put32(entry + RNIC_WINDOW_REMOTE_STAG, work.remote_stag, false);
        rnic_put64(entry + RNIC_WINDOW_REMOTE_ADDRESS, work.remote_address, false);
        rnic_put64(entry + RNIC_WINDOW_LOCAL_ADDRESS, segment.address, false);
        rnic_put32(entry + RNIC_WINDOW_LOCAL_STAG, segment.stag, false);
        std::fill_n(entry + RNIC_WINDOW_HEADER, RNIC_WINDOW_PAYLOAD, byte);
        store_word(to + RNIC_WINDOW_BEGIN, behind);
        for (unsigned i = 0; i < std::min(words, kAll); ++i) {
            store_bytes(to + RNIC_WINDOW_LENGTH + i * std::size_t{4},
                        entry + RNIC_WINDOW_LENGTH + i * std::size_t{4});
        }
        if (words >= kAll) {
            store_word(to + RNIC_WINDOW_END, behind);
        }
    }
    void ring()
    {
        std::uint8_t *const bar2 = host.bar2(a.fn);
        store_word(bar2 + RNIC_DB_QP + 64 * pair->qp_a + RNIC_QPDB_SQ, a.qps[pair->qp_a].sq.index);
        __atomic_store_n(bar2 + RNIC_DB_QP_HINTS + pair->qp_a / RNIC_GROUP, std::uint8_t{1},
                         __ATOMIC_RELEASE);
    }
    /** The next completion, with its status. */
    bool await(std::uint16_t *status)
    {
        const char *const scale = std::getenv("VIPL_TEST_TIMEOUT_SCALE");
        const auto end = std::chrono::steady_clock::now() +
                         std::chrono::seconds(20) * (scale == nullptr ? 1 : std::atoi(scale));
        const Driver::Ring &completions = a.cqs[pair->cq_a];
        const std::uint32_t place = taken & ((1u << completions.log2) - 1);
        const std::uint8_t *const entry = a.at(completions.base + place * RNIC_COMPLETION_BYTES);
        while (load_word(entry + RNIC_CQE_OWNER) != taken + 1) {
            if (std::chrono::steady_clock::now() > end) {
                return false;
            }
            std::this_thread::yield();
        }
        *status = rnic_get16(entry + RNIC_CQE_STATUS, false);
        if (++taken % kBehind == 0) {
            store_word(host.bar2(a.fn) + RNIC_DB_CQ + 64 * pair->cq_a + RNIC_CQDB_CONSUMER, taken);
        }
        return true;
    }

    std::uint32_t window = 0;
    std::uint32_t taken = a.cqs[pair->cq_a].index;
};

} // namespace

TEST_CASE("a slot that is stored to while the card copies it is sent whole or not at all", "[card]")
{
    Storing two;
    std::minstd_rand random(1);
    const auto enough = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    unsigned of_window = 0, of_memory = 0, wrong = 0;
    Running running(two.host);
    for (unsigned i = 0; i < kLeast || std::chrono::steady_clock::now() < enough; ++i) {
        const std::uint32_t behind = two.a.qps[two.pair->qp_a].sq.index + 1;
        const auto byte = static_cast<std::uint8_t>(0x20 + behind % 200);
        const Work work = two.write(RNIC_WINDOW_PAYLOAD);
        two.store(work, behind, byte, RNIC_WINDOW_SLOT_BYTES);
        two.a.post(two.pair->qp_a, work, false);
        two.ring();
        if (i % 2 == 1) {
            for (std::uint32_t pause = random() % 4096; pause > 0; --pause) {
                std::atomic_signal_fence(std::memory_order_seq_cst);
            }
            two.store(work, behind + RNIC_WINDOW_SLOTS, static_cast<std::uint8_t>(byte ^ 0xFF),
                      random() % 128);
        }
        std::uint16_t status = 0;
        REQUIRE(two.await(&status));
        REQUIRE(status == RNIC_STATUS_OK);
        const std::uint8_t *const came = two.b.at(two.mem_b);
        const auto count = [came](std::uint8_t each) {
            return std::count(came, came + RNIC_WINDOW_PAYLOAD, each) == RNIC_WINDOW_PAYLOAD;
        };
        of_window += count(byte) ? 1 : 0;
        of_memory += count(kOfMemory) ? 1 : 0;
        wrong += count(byte) || count(kOfMemory) ? 0 : 1;
    }
    std::printf("%u by the window, %u by DMA\n", of_window, of_memory);
    CHECK(wrong == 0);
    CHECK(of_window > 0);
    CHECK(of_memory > 0);
}
