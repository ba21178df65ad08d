// SPDX-License-Identifier: MIT
//
// The comparison of physical pages (VIPL_CACHE=verify): a page that another has replaced is found
// wherever it is in a long region, and one that is not there does not count.
#include <catch2/catch.hpp>

#include <array>
#include <memory>

#include <sys/mman.h>

#include "internal.hpp"

extern "C" {
#include "core/cache_verify.h"
}

namespace {

constexpr size_t kCount = 300; // more than are compared at once
const size_t g_page = vipl_page_bytes();

struct Unmap {
    void operator()(unsigned char *pages) const { munmap(pages, kCount * g_page); }
};
using Pages = std::unique_ptr<unsigned char, Unmap>;

Pages map_pages()
{
    void *at = mmap(nullptr, kCount * g_page, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    REQUIRE(at != MAP_FAILED);
    return Pages(static_cast<unsigned char *>(at));
}

uintptr_t address(const Pages &pages, size_t number)
{
    return reinterpret_cast<uintptr_t>(pages.get()) + number * g_page;
}

} // namespace

TEST_CASE("the one page of a region that has been replaced is found")
{
    const Pages pages = map_pages();
    const Pages others = map_pages();
    vipl_frames *frames = vipl_frames_read(address(pages, 0) + 1, address(pages, kCount) - 1);
    if (frames == nullptr) {
        SUCCEED("this process may not know its physical pages");
        return;
    }
    const auto are = [&](size_t first, size_t end) {
        return vipl_frames_are(frames, address(pages, first), address(pages, end));
    };
    CHECK(are(0, kCount));
    for (const size_t number : {kCount - 1, size_t{200}, size_t{129}, size_t{128}, size_t{127}, size_t{0}}) {
        CAPTURE(number);
        auto *at = reinterpret_cast<void *>(address(pages, number));
        void *other = reinterpret_cast<void *>(address(others, number));
        REQUIRE(mremap(other, g_page, g_page, MREMAP_MAYMOVE | MREMAP_FIXED, at) == at);
        CHECK_FALSE(are(0, kCount));
        CHECK_FALSE(are(number, number + 1));
        CHECK(are(0, number));
        REQUIRE(madvise(at, g_page, MADV_DONTNEED) == 0);
        CHECK(are(0, kCount)); // nothing is there
    }
    vipl_frames_free(frames);
}
