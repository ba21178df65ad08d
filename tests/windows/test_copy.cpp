// SPDX-License-Identifier: MIT
//
// Copies of memory that may not be there, on Windows.
#include <catch2/catch.hpp>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "support/os_hooks.hpp"

#include <windows.h>

namespace {

/** Two pages, of which the second has the given protection. */
struct Pages {
    explicit Pages(DWORD second)
        : base(static_cast<char *>(VirtualAlloc(nullptr, 8192, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE)))
    {
        DWORD before;
        REQUIRE(base != nullptr);
        REQUIRE(VirtualProtect(base + 4096, 4096, second, &before));
    }
    ~Pages() { VirtualFree(base, 0, MEM_RELEASE); }
    Pages(const Pages &) = delete;
    Pages &operator=(const Pages &) = delete;
    char *base;
};

} // namespace

TEST_CASE("a copy of memory that is there is exact", "[windows]")
{
    std::vector<char> from(70000), to(70000);
    for (size_t i = 0; i < from.size(); ++i) {
        from[i] = static_cast<char>(i * 7);
    }
    for (const size_t bytes : {size_t{0}, size_t{1}, size_t{63}, size_t{70000}}) {
        std::memset(to.data(), 0, to.size());
        CHECK(vipl_copy_checked(to.data(), from.data(), bytes) == 0);
        CHECK(std::memcmp(to.data(), from.data(), bytes) == 0);
        CHECK((bytes == to.size() || to[bytes] == 0));
    }
}

TEST_CASE("a copy says what is not there, and ends nothing", "[windows]")
{
    char bytes[8192] = {};
    const Pages missing(PAGE_NOACCESS), constant(PAGE_READONLY);
    for (int times = 0; times < 3; ++times) {
        CHECK(vipl_copy_checked(bytes, missing.base, 4096) == 0);
        CHECK(vipl_copy_checked(bytes, missing.base, 4097) == EFAULT);
        CHECK(vipl_copy_checked(missing.base, bytes, 8192) == EFAULT);
        CHECK(vipl_copy_checked(bytes, constant.base, 8192) == 0);
        CHECK(vipl_copy_checked(constant.base, bytes, 4097) == EFAULT);
        CHECK(vipl_copy_checked(bytes, nullptr, 1) == EFAULT);
        CHECK(vipl_copy_checked(reinterpret_cast<void *>(16), bytes, 1) == EFAULT);
        CHECK(vipl_copy_checked(bytes, reinterpret_cast<void *>(UINTPTR_MAX - 100), 50) == EFAULT);
    }
}

TEST_CASE("threads copy missing memory at once", "[windows]")
{
    const Pages missing(PAGE_NOACCESS);
    bool good[4] = {};
    std::vector<std::thread> threads;
    for (bool &each : good) {
        threads.emplace_back([&] {
            char bytes[64];
            each = true;
            for (int i = 0; i < 500 && each; ++i) {
                each = vipl_copy_checked(bytes, missing.base + 4096 - 32, 64) == EFAULT &&
                       vipl_copy_checked(bytes, missing.base + 4096 - 64, 64) == 0;
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    CHECK((good[0] && good[1] && good[2] && good[3]));
}
