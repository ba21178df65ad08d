// SPDX-License-Identifier: MIT
//
// The addresses that a card uses for memory.
#include <catch2/catch.hpp>

#include <cerrno>
#include <map>
#include <random>

#include "internal.hpp"

namespace {

struct Space {
    explicit Space(std::initializer_list<rnic_iova_window> windows)
    {
        rnic_iova_init(&iova, windows.begin(), static_cast<unsigned>(windows.size()));
    }
    ~Space() { rnic_iova_fini(&iova); }
    Space(const Space &) = delete;
    Space &operator=(const Space &) = delete;
    std::uint64_t take(std::uintptr_t address, size_t bytes, unsigned access = RNIC_PCI_READ)
    {
        std::uint64_t out = 0;
        REQUIRE(rnic_iova_take(&iova, reinterpret_cast<void *>(address), bytes, access, &out) == 0);
        return out;
    }
    int error(std::uintptr_t address, size_t bytes)
    {
        std::uint64_t out = 77;
        const int result =
            rnic_iova_take(&iova, reinterpret_cast<void *>(address), bytes, RNIC_PCI_READ, &out);
        CHECK((result == 0 || out == 77));
        return result;
    }
    rnic_iova iova{};
};

} // namespace

TEST_CASE("a range of addresses keeps the offset in pages of any size", "[iova]")
{
    Space space({{0x100000000, 0xFFFFFFFFFFFF}});
    CHECK(space.take(0x7F0012345678, 10) % 65536 == 0x5678);
    CHECK(space.take(0x7F0012345678, 4 << 20) % (2 << 20) == 0x145678);
    CHECK(space.take(0x1000, 2 << 20) % (2 << 20) == 0x1000);
    CHECK(space.error(0x1000, 0) == EINVAL);
}

TEST_CASE("the same memory twice, and parts of it, have addresses of their own", "[iova]")
{
    std::mt19937_64 random(5);
    Space space({{0x10000, 0x3FFFFFF}});
    std::map<std::uint64_t, std::uint64_t> used; // first page to the last one
    for (int i = 0; i < 20000; ++i) {
        if (random() % 2 == 0 && !used.empty()) {
            auto victim = used.lower_bound(random() % 0x4000000);
            victim = victim == used.end() ? used.begin() : victim;
            rnic_iova_give(&space.iova, victim->first * 4096 + 0x123 % 4096);
            used.erase(victim);
            continue;
        }
        std::uint64_t out = 0;
        const size_t bytes = 1 + random() % 300000;
        const std::uintptr_t address = 0x7F0000000000 + (random() % 16) * 4096 + 0x123;
        if (rnic_iova_take(&space.iova, reinterpret_cast<void *>(address), bytes, 1, &out) != 0) {
            continue; // full
        }
        REQUIRE((out >= 0x10000 && out + bytes - 1 <= 0x3FFFFFF));
        REQUIRE(out % 4096 == 0x123);
        const std::uint64_t first = out / 4096, last = (out + bytes - 1) / 4096;
        const auto next = used.upper_bound(last);
        REQUIRE((next == used.begin() || std::prev(next)->second < first));
        used[first] = last;
    }
    CHECK(space.iova.used.count == used.size());
}

TEST_CASE("addresses come from windows only, and are used again last", "[iova]")
{
    Space space({{0, 0x1FFFF}, {0x50000, 0x6FFFF}});
    const std::uint64_t a = space.take(0x10000, 65536), b = space.take(0x10000, 65536),
                        c = space.take(0x10000, 65536), d = space.take(0x10000, 65536);
    CHECK((a == 0 && b == 0x10000 && c == 0x50000 && d == 0x60000));
    CHECK(space.error(0x10000, 1) == ENOSPC);
    rnic_iova_give(&space.iova, b);
    rnic_iova_give(&space.iova, d);
    CHECK(space.take(0x10000, 65536) == b);
    CHECK(space.take(0x10000, 65536) == d);
    rnic_iova_give(&space.iova, a);
    rnic_iova_give(&space.iova, b);
    CHECK(space.take(0x10000, 131072) == 0);
    CHECK(space.error(0x10000, SIZE_MAX) != 0);
    Space top({{UINT64_MAX - 0x1FFFF, UINT64_MAX}});
    CHECK(top.take(0x10000, 65536) == UINT64_MAX - 0x1FFFF);
    CHECK(top.take(0x10000, 65536) == UINT64_MAX - 0xFFFF);
    CHECK(top.error(0x10000, 1) == ENOSPC);
}

TEST_CASE("memory is found by its address, within its bounds and rights", "[iova]")
{
    Space space({{0x100000000, 0xFFFFFFFFFFFF}});
    const std::uint64_t at = space.take(0x7F0000000100, 1000, RNIC_PCI_READ);
    auto find = [&](std::uint64_t address, std::uint64_t bytes, unsigned access) {
        return reinterpret_cast<std::uintptr_t>(rnic_iova_find(&space.iova, address, bytes, access));
    };
    CHECK(find(at, 1000, RNIC_PCI_READ) == 0x7F0000000100);
    CHECK(find(at + 999, 1, RNIC_PCI_READ) == 0x7F00000004E7);
    CHECK(find(at - 1, 1, RNIC_PCI_READ) == 0);
    CHECK(find(at + 999, 2, RNIC_PCI_READ) == 0);
    CHECK(find(at + 1, UINT64_MAX, RNIC_PCI_READ) == 0);
    CHECK(find(at, 1, RNIC_PCI_WRITE) == 0);
    rnic_iova_give(&space.iova, at);
    CHECK(find(at, 1, RNIC_PCI_READ) == 0);
    rnic_iova_give(&space.iova, at); // of nothing: nothing
}
