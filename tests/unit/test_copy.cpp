// SPDX-License-Identifier: MIT
//
// Copying between lists of memory pieces: random segmentations and every alignment against the
// obvious way, with guard bytes around; and the copy in address order, whose tail comes last and
// whole.
#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "internal.hpp"

using namespace unit;

namespace {

using Bytes = std::vector<unsigned char>;

Bytes random_bytes(Random &random, size_t n)
{
    Bytes bytes(n);
    for (unsigned char &b : bytes) {
        b = static_cast<unsigned char>(random());
    }
    return bytes;
}

/** Cuts n bytes into random pieces with gaps between them, in a buffer of guard bytes. */
struct Pieces {
    Pieces(Random &random, size_t n, size_t most) : sg(std::make_unique<LongList>())
    {
        memory.assign(3 * n + 64 * (most + 2) + 64, 0xEE);
        size_t at = below(random, 64);
        sg->count = 0;
        sg->bytes = n;
        while (n > 0) {
            const size_t len = sg->count + 1 == most ? n : 1 + below(random, n);
            sg->iov[sg->count++] = {&memory[at], len};
            at += len + below(random, 64);
            n -= len;
        }
    }

    Bytes gather() const
    {
        Bytes all;
        for (unsigned i = 0; i < sg->count; ++i) {
            const auto *base = static_cast<unsigned char *>(sg->iov[i].base);
            all.insert(all.end(), base, base + sg->iov[i].len);
        }
        return all;
    }

    void scatter(const Bytes &from)
    {
        size_t at = 0;
        for (unsigned i = 0; i < sg->count; ++i) {
            std::memcpy(sg->iov[i].base, from.data() + at, sg->iov[i].len);
            at += sg->iov[i].len;
        }
    }

    /** The buffer with the pieces' bytes replaced by guards. */
    bool gaps_intact() const
    {
        Bytes copy = memory;
        for (unsigned i = 0; i < sg->count; ++i) {
            const auto offset = static_cast<unsigned char *>(sg->iov[i].base) - memory.data();
            std::memset(copy.data() + offset, 0xEE, sg->iov[i].len);
        }
        return copy == Bytes(memory.size(), 0xEE);
    }

    std::unique_ptr<LongList> sg;
    Bytes memory;
};

} // namespace

TEST_CASE("any segmentation is copied into any other", "[copy]")
{
    Random random(4);
    for (int round = 0; round < 3000; ++round) {
        const size_t n = below(random, 2000);
        Pieces from(random, n, 1 + below(random, 20)), to(random, n, 1 + below(random, 20));
        const Bytes data = random_bytes(random, n);
        from.scatter(data);
        vipl_iov_copy(to.sg.get(), from.sg.get());
        REQUIRE(to.gather() == data);
        REQUIRE(from.gather() == data);
        REQUIRE(to.gaps_intact());
    }
}

TEST_CASE("any part of a list is scattered to, gathered from, and found", "[copy]")
{
    Random random(7);
    for (int round = 0; round < 3000; ++round) {
        const size_t n = 1 + below(random, 2000), at = below(random, n), bytes = below(random, n - at + 1);
        Pieces pieces(random, n, 1 + below(random, 20));
        const Bytes before = random_bytes(random, n), part = random_bytes(random, bytes);
        pieces.scatter(before);
        vipl_iov_scatter(pieces.sg.get(), at, part.data(), bytes);
        Bytes expected = before, seen(bytes);
        std::copy(part.begin(), part.end(), expected.begin() + static_cast<long>(at));
        REQUIRE(pieces.gather() == expected);
        REQUIRE(pieces.gaps_intact());
        vipl_iov_gather(seen.data(), pieces.sg.get(), at, bytes);
        REQUIRE(seen == part);
        vipl_iov found[20];
        const unsigned count = vipl_iov_slice(found, pieces.sg.get(), at, bytes);
        seen.clear();
        for (unsigned i = 0; i < count; ++i) {
            const auto *base = static_cast<unsigned char *>(found[i].base);
            REQUIRE(found[i].len > 0);
            seen.insert(seen.end(), base, base + found[i].len);
        }
        REQUIRE(seen == part);
    }
}

TEST_CASE("a message shorter than its receive leaves the rest alone", "[copy]")
{
    Random random(5);
    Pieces from(random, 100, 3), to(random, 300, 5);
    const Bytes data = random_bytes(random, 100), before = random_bytes(random, 300);
    from.scatter(data);
    to.scatter(before);
    vipl_iov_copy(to.sg.get(), from.sg.get());
    Bytes expected = before;
    std::copy(data.begin(), data.end(), expected.begin());
    REQUIRE(to.gather() == expected);
}

TEST_CASE("a copy of all 252 segments, and of none", "[copy]")
{
    Random random(6);
    auto from = std::make_unique<LongList>(), to = std::make_unique<LongList>();
    Bytes source = random_bytes(random, 252), target(252);
    for (unsigned i = 0; i < 252; ++i) {
        from->iov[i] = {&source[i], 1};
        to->iov[i] = {&target[251 - i], 1};
    }
    from->count = to->count = 0;
    vipl_iov_copy(to.get(), from.get());
    vipl_iov_ordered(target.data(), from.get());
    REQUIRE(target == Bytes(252));
    from->count = to->count = 252;
    vipl_iov_copy(to.get(), from.get());
    REQUIRE(Bytes(target.rbegin(), target.rend()) == source);
}

TEST_CASE("the ordered copy moves every size between every two alignments", "[copy]")
{
    Random random(7);
    alignas(64) unsigned char target[256];
    const Bytes source = random_bytes(random, 256);
    LongList from;
    for (size_t to_at = 0; to_at < 16; ++to_at) {
        for (size_t from_at = 0; from_at < 16; ++from_at) {
            for (size_t n = 1; n < 70; ++n) {
                std::memset(target, 0xEE, sizeof target);
                from.count = 1;
                from.bytes = n;
                from.iov[0] = {const_cast<unsigned char *>(&source[from_at]), n};
                vipl_iov_ordered(target + to_at, &from);
                unsigned char expected[256];
                std::memset(expected, 0xEE, sizeof expected);
                std::memcpy(expected + to_at, &source[from_at], n);
                REQUIRE(std::memcmp(target, expected, sizeof target) == 0);
            }
        }
    }
}

TEST_CASE("the ordered copy gathers any segmentation", "[copy]")
{
    Random random(8);
    for (int round = 0; round < 2000; ++round) {
        const size_t n = 1 + below(random, 1000), at = below(random, 16);
        Pieces from(random, n, 1 + below(random, 20));
        const Bytes data = random_bytes(random, n);
        from.scatter(data);
        Bytes target(n + 32, 0xEE), expected = target;
        vipl_iov_ordered(target.data() + at, from.sg.get());
        std::memcpy(expected.data() + at, data.data(), n);
        REQUIRE(target == expected);
    }
}

TEST_CASE("who spins on the last word sees it whole, and all before it", "[copy]")
{
    constexpr size_t kWords = 32768; // as wide as the tail is; so many that the copy takes its time
    alignas(64) static std::uintptr_t target[kWords], source[kWords];
    static std::atomic<std::uintptr_t> seen;
    static std::atomic<bool> over;
    seen = 0;
    over = false;
    std::thread reader([] {
        for (std::uintptr_t round = 1;; ++round) {
            std::uintptr_t last;
            for (unsigned looks = 1; (last = __atomic_load_n(&target[kWords - 1], __ATOMIC_ACQUIRE)) != round;
                 ++looks) {
                if (last != round - 1) { // half a word, or another round's
                    seen = ~std::uintptr_t{0};
                }
                if (over || last != round - 1) {
                    return;
                }
                if (looks % 1000 == 0) {
                    std::this_thread::yield();
                }
            }
            for (size_t i = kWords; i > 0; --i) { // what is copied last, first
                if (target[i - 1] != round) {
                    seen = ~std::uintptr_t{0};
                    return;
                }
            }
            seen = round;
        }
    });
    LongList from;
    from.count = 1;
    from.bytes = sizeof source;
    from.iov[0] = {source, sizeof source};
    std::uintptr_t round = 0;
    const auto end =
        std::chrono::steady_clock::now() + std::chrono::seconds(5); // on a busy machine each takes turns
    do {
        ++round;
        for (std::uintptr_t &word : source) {
            word = round;
        }
        vipl_iov_ordered(reinterpret_cast<unsigned char *>(target), &from);
        while (seen != round && seen != ~std::uintptr_t{0}) {
            std::this_thread::yield();
        }
    } while (seen == round && round < 1000 && std::chrono::steady_clock::now() < end);
    over = true;
    reader.join();
    REQUIRE(seen == round);
}

TEST_CASE("who looks at any word of a short copy sees it whole, wherever it lies in the copy", "[copy]")
{
    constexpr size_t kWords = 8; // the longest run that is held in between
    alignas(64) static std::uint32_t target[kWords + 1];
    static std::atomic<bool> over;
    static std::atomic<std::uint32_t> torn;
    std::memset(target, 0, sizeof target);
    over = false;
    torn = 0;
    std::thread reader([] {
        while (!over) {
            for (std::uint32_t &word : target) {
                const std::uint32_t seen = __atomic_load_n(&word, __ATOMIC_ACQUIRE);
                if (seen != (seen & 0xFF) * 0x01010101u) {
                    torn = seen;
                }
            }
        }
    });
    Random random(9);
    unsigned char source[4 * kWords + 3];
    for (int round = 0; round < 200000 && torn == 0; ++round) {
        const size_t at = below(random, 4), words = 1 + below(random, kWords);
        std::memset(source, round % 256, sizeof source);
        LongList from;
        from.count = 1;
        from.bytes = 4 * words;
        from.iov[0] = {source + at, 4 * words};
        vipl_iov_ordered(reinterpret_cast<unsigned char *>(target + below(random, 2)), &from);
    }
    over = true;
    reader.join();
    REQUIRE(torn == 0u);
}

// A C library may leave long runs to an instruction of the processor, which is interrupted at any
// byte: so the one who copies has to lose its processor often, and there are more threads than
// those. glibc aligns the target for it, but not where the source is at about the same place in its
// page: that is where it is here.
TEST_CASE("who looks at any word of a long copy sees it whole, whatever the processor does meanwhile",
          "[copy]")
{
    constexpr size_t kWords = 1000;
    constexpr std::uintptr_t kOnes = ~std::uintptr_t{0} / 255;
    constexpr size_t kPage = 4096;
    alignas(kPage) static std::uintptr_t target[kWords];
    static std::atomic<bool> over;
    static std::atomic<std::uintptr_t> torn;
    std::memset(target, 0, sizeof target);
    over = false;
    torn = 0;
    std::vector<std::thread> others;
    for (unsigned i = 0; i < 2 * std::thread::hardware_concurrency() + 1; ++i) {
        others.emplace_back([] {
            while (!over) {
                for (std::uintptr_t &word : target) {
                    const std::uintptr_t seen = __atomic_load_n(&word, __ATOMIC_ACQUIRE);
                    if (seen != (seen & 0xFF) * kOnes) {
                        torn = seen;
                    }
                }
            }
        });
    }
    alignas(kPage) static unsigned char source[kPage + sizeof target];
    LongList from;
    from.count = 1;
    from.bytes = sizeof target;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    for (unsigned round = 0; torn == 0 && std::chrono::steady_clock::now() < end; ++round) {
        std::memset(source, static_cast<int>(round % 256), sizeof source);
        from.iov[0] = {source + kPage - 1 - round % 64, sizeof target};
        vipl_iov_ordered(reinterpret_cast<unsigned char *>(target), &from);
    }
    over = true;
    for (std::thread &other : others) {
        other.join();
    }
    REQUIRE(torn == 0u);
}
