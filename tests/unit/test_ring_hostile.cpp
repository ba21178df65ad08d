// SPDX-License-Identifier: MIT
//
// The ring when the other side lies: every word it shares is changed at random, before and during
// the work of this side. What is taken for a message stays inside the ring, the rest is called
// broken or empty; a producer writes only into the ring. AddressSanitizer watches: the ring's
// memory is exact.
#include <catch2/catch.hpp>

#include <atomic>
#include <thread>

#include "ring.hpp"

using namespace unit;

namespace {

constexpr std::uint32_t kCount = 1024;

/** Values that are more likely to get past a check than random ones. */
std::uint32_t nasty(Random &random, const lo_ring &ring)
{
    const auto word = static_cast<std::uint32_t>(random());
    switch (below(random, 8)) {
    case 0:
        return word;
    case 1:
        return ring.at;
    case 2:
        return ring.at + word % 2048 - 1024;
    case 3:
        return ring.at / kCount * 2 + 1; // the lap
    case 4:
        return (1 + word % 9) | (word & 0xF00) | (word % 5) << 16; // type, flags, a few slots
    case 5:
        return (1 + word % 9) | (word % 2048) << 16; // many slots
    case 6:
        return word % 20000; // a length
    default:
        return word % 2 == 0 ? 0 : ~0u;
    }
}

/** A kind word and a length that fit each other, as far as a check can tell. */
void nearly_right(Random &random, std::uint32_t &kind, std::uint32_t &bytes)
{
    const auto slots = static_cast<std::uint32_t>(1 + below(random, 40));
    kind = static_cast<std::uint32_t>(1 + below(random, 9)) | slots << 16;
    bytes = slots * LO_RING_SLOT - LO_HEAD - static_cast<std::uint32_t>(below(random, 40));
}

/** Look at what is there as a receiver does; whether it stays within the ring. */
bool look(Ring &ring, std::uint64_t &sum, unsigned counts[3])
{
    lo_message message{};
    const unsigned char *payload = nullptr;
    const lo_peek peek = vipl_lo_ring_peek(&ring.in, &message, &payload);
    counts[peek]++;
    if (peek == LO_PEEK_OK) {
        const unsigned char *start = ring.in.slots, *end = start + kCount * LO_RING_SLOT;
        if (payload < start + LO_HEAD || payload > end ||
            message.bytes > static_cast<size_t>(end - payload)) {
            return false;
        }
        for (std::uint32_t i = 0; i < message.bytes; ++i) {
            sum += __atomic_load_n(&payload[i], __ATOMIC_RELAXED); // reads what it was told it may
        }
        vipl_lo_ring_pop(&ring.in, &message);
        vipl_lo_ring_release(&ring.in, true);
    }
    return true;
}

void poison(std::uint32_t *word, std::uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELAXED);
}

} // namespace

TEST_CASE("a ring full of nonsense is read within bounds", "[ring]")
{
    Random random(13);
    std::uint64_t sum = 0;
    unsigned counts[3] = {};
    for (unsigned round = 0; round < 2000; ++round) {
        const auto at = static_cast<std::uint32_t>(below(random, 4) == 0 ? random() : below(random, kCount));
        Ring ring(kCount, at);
        for (unsigned i = 0; i < 64; ++i) { // some slots from here on, most with a right lap
            const std::uint32_t position = at + i;
            std::uint32_t *head = ring.words() + (position % kCount) * (LO_RING_SLOT / 4);
            for (unsigned word = 0; word < 8; ++word) {
                head[word] = nasty(random, ring.in);
            }
            head[0] = below(random, 8) == 0 ? head[0] : position / kCount * 2 + 1;
            if (below(random, 2) == 0) {
                nearly_right(random, head[1], head[3]);
            }
        }
        for (unsigned i = 0; i < 64; ++i) {
            REQUIRE(look(ring, sum, counts));
        }
    }
    REQUIRE(counts[LO_PEEK_OK] > 100);
    REQUIRE(counts[LO_PEEK_BROKEN] > 100);
}

TEST_CASE("padding is believed only up to the end of the ring", "[ring]")
{
    for (const std::uint32_t at : {0u, 1u, 1000u, kCount - 1}) {
        for (std::uint32_t slots = 0; slots < 2 * kCount; ++slots) {
            Ring ring(kCount, at);
            std::uint32_t *head = ring.words() + at * (LO_RING_SLOT / 4);
            head[0] = 1;
            head[1] = LO_PAD | slots << 16;
            lo_message message{};
            const unsigned char *payload = nullptr;
            const lo_peek peek = vipl_lo_ring_peek(&ring.in, &message, &payload);
            const bool right = slots == kCount - at && slots < kCount;
            REQUIRE(peek == (right ? LO_PEEK_EMPTY : LO_PEEK_BROKEN));
            REQUIRE(ring.in.at == (right ? kCount : at));
        }
    }
}

TEST_CASE("a length that does not match its slots is broken", "[ring]")
{
    for (std::uint32_t bytes = 0; bytes < 400; ++bytes) {
        Ring ring(kCount);
        ring.words()[0] = 1;
        ring.words()[1] = LO_SEND | 3u << 16; // 3 slots: 97 to 160 bytes of payload
        ring.words()[3] = bytes;
        lo_message message{};
        const unsigned char *payload = nullptr;
        const bool right = bytes > 2 * LO_RING_SLOT - LO_HEAD && bytes <= 3 * LO_RING_SLOT - LO_HEAD;
        REQUIRE(vipl_lo_ring_peek(&ring.in, &message, &payload) == (right ? LO_PEEK_OK : LO_PEEK_BROKEN));
    }
}

TEST_CASE("a consumer that lies about its position gets no more than the ring", "[ring]")
{
    Random random(14);
    Ring ring(kCount);
    unsigned taken = 0;
    for (unsigned i = 0; i < 100000; ++i) {
        poison(&ring.out.shared->head, nasty(random, ring.out));
        const auto bytes = static_cast<std::uint32_t>(below(random, LO_MAX_CHUNK));
        REQUIRE(vipl_lo_ring_room(&ring.out, LO_MAX_CHUNK) <= LO_MAX_CHUNK);
        taken += put_numbered(ring.out, i, bytes, below(random, 2) == 0) ? 1 : 0; // writes the payload
    }
    REQUIRE(taken > 0);
}

TEST_CASE("words that change under a consumer's eyes are read within bounds", "[ring]")
{
    Ring ring(kCount);
    std::atomic<bool> stop{false};
    std::thread liar([&] {
        Random random(15);
        while (!stop) {
            const auto at = static_cast<std::uint32_t>(below(random, kCount));
            std::uint32_t *head = ring.words() + at * (LO_RING_SLOT / 4);
            std::uint32_t words[8];
            for (std::uint32_t &word : words) {
                word = nasty(random, ring.out); // whose position the consumer does not touch
            }
            if (below(random, 2) == 0) {
                nearly_right(random, words[1], words[3]);
            }
            for (unsigned word = 7; word > 0; --word) { // the lap last
                poison(&head[word], words[word]);
            }
            poison(&head[0], 1 + 2 * static_cast<std::uint32_t>(below(random, 4))); // of four laps
            poison(&ring.out.shared->asleep, static_cast<std::uint32_t>(random()));
            poison(&ring.out.shared->wanting, static_cast<std::uint32_t>(random()));
        }
    });
    std::uint64_t sum = 0;
    unsigned counts[3] = {};
    bool within = true;
    for (unsigned i = 0; within && (i < 300000 || counts[LO_PEEK_OK] * counts[LO_PEEK_BROKEN] == 0); ++i) {
        within = look(ring, sum, counts);
        if (i % 16 == 0) {
            ring.in.at = (i * 2654435761u) % (4 * kCount); // else it would wait for the right lap for long
        }
    }
    stop = true;
    liar.join();
    REQUIRE(within);
    REQUIRE(counts[LO_PEEK_OK] > 0);
    REQUIRE(counts[LO_PEEK_BROKEN] > 0);
}
