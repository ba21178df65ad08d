// SPDX-License-Identifier: MIT
//
// POSIX extensions: what makes the registration cache forget memory, and what does not.
#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include <malloc.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cached.hpp"
#include "conformance/connect_roles.hpp"

using namespace vipl_conformance;

namespace {

constexpr size_t kPages = 4;
constexpr int kDontUnmap = 4; // MREMAP_DONTUNMAP, since Linux 5.7

struct Way {
    const char *name;
    void (*take)(Pages &pages);
};

void *anonymous(size_t bytes)
{
    void *at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(at != MAP_FAILED);
    return at;
}

/** After each of these, the first page is another one than before. */
const Way kTaking[] = {
    {"munmap of all",
     [](Pages &pages) {
         EXPECT(munmap(pages.at(), pages.size()) == 0);
         pages.map_again();
     }},
    {"munmap of a part",
     [](Pages &pages) {
         EXPECT(munmap(pages.at(), kPage) == 0);
         EXPECT(mmap(pages.at(), kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                     0) == pages.at());
     }},
    {"mmap over it", [](Pages &pages) { pages.map_again(); }},
    {"mremap onto it",
     [](Pages &pages) {
         EXPECT(mremap(anonymous(pages.size()), pages.size(), pages.size(), MREMAP_MAYMOVE | MREMAP_FIXED,
                       pages.at()) == pages.at());
     }},
    {"mremap away",
     [](Pages &pages) {
         void *elsewhere = anonymous(pages.size());
         EXPECT(mremap(pages.at(), pages.size(), pages.size(), MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere) ==
                elsewhere);
         EXPECT(munmap(elsewhere, pages.size()) == 0);
         pages.map_again();
     }},
    {"mremap away that leaves the addresses mapped",
     [](Pages &pages) {
         void *to = reinterpret_cast<void *>(syscall(SYS_mremap, pages.at(), pages.size(), pages.size(),
                                                     MREMAP_MAYMOVE | kDontUnmap, nullptr));
         EXPECT(to != MAP_FAILED);
         munmap(to, pages.size());
     }},
    {"MADV_DONTNEED", [](Pages &pages) { EXPECT(madvise(pages.at(), kPage, MADV_DONTNEED) == 0); }},
    {"MADV_FREE", [](Pages &pages) { EXPECT(madvise(pages.at(), kPage, MADV_FREE) == 0); }},
};

/** After these, all pages are what they were. */
const Way kLeaving[] = {
    {"mprotect",
     [](Pages &pages) {
         EXPECT(mprotect(pages.at(), pages.size(), PROT_NONE) == 0);
         EXPECT(mprotect(pages.at(), pages.size(), PROT_READ | PROT_WRITE) == 0);
     }},
    {"MADV_DONTFORK", [](Pages &pages) { EXPECT(madvise(pages.at(), pages.size(), MADV_DONTFORK) == 0); }},
    {"munmap of the page after it",
     [](Pages &pages) {
         void *last = pages.at(pages.size() - kPage);
         EXPECT(munmap(last, kPage) == 0);
         EXPECT(mmap(last, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
                last);
     }},
};

} // namespace

TEST_CASE("memory that was taken away is not found", "[VipxAcquireMem][cache][posix][watch]")
{
    for (const Way &way : kTaking) {
        INFO(way.name);
        const CachingNic nic;
        Pages pages(kPages);
        const VIP_MEM_HANDLE before = nic.cache(pages.at(), pages.size());
        EXPECT(nic.has(pages.at(), kPage));
        way.take(pages);
        EXPECT(nic.cache(pages.at(), kPage) != before);
        EXPECT_EQ(1u, nic.statistics().Invalidated);
        EXPECT_EQ(1u, nic.statistics().Regions);
    }
}

TEST_CASE("memory that a call leaves is found", "[VipxAcquireMem][cache][posix][watch]")
{
    for (const Way &way : kLeaving) {
        INFO(way.name);
        const CachingNic nic;
        Pages pages(kPages);
        nic.cache(pages.at(), pages.size() - kPage);
        way.take(pages);
        EXPECT(nic.has(pages.at(), pages.size() - kPage));
        EXPECT_EQ(0u, nic.statistics().Invalidated);
    }
}

TEST_CASE("memory that an allocator has given back is not found",
          "[VipxAcquireMem][cache][posix][watch][allocator]")
{
    const CachingNic nic;
    constexpr size_t large = 8 << 20; // by a mapping of its own
    void *at = std::malloc(large);
    std::memset(at, 1, large);
    nic.cache(at, large);
    std::free(at);
    EXPECT_EQ(1u, nic.statistics().Invalidated);
    void *const top = sbrk(4 * kPage);
    if (top == reinterpret_cast<void *>(-1)) {
        return; // musl leaves the heap's end to its allocator
    }
    const uintptr_t page = (reinterpret_cast<uintptr_t>(top) + kPage - 1) & ~(kPage - 1);
    nic.cache(reinterpret_cast<void *>(page), 2 * kPage);
    sbrk(-static_cast<intptr_t>(4 * kPage));
    EXPECT_EQ(2u, nic.statistics().Invalidated);
}

TEST_CASE("regions whose memory has gone do not keep a tag", "[VipDestroyPtag][cache][posix][watch]")
{
    const CachingNic nic;
    Pages pages(kPages);
    VIP_PROTECTION_HANDLE tag = nullptr;
    REQUIRE_VIP(VipCreatePtag(nic, &tag));
    nic.cache(pages.at(), pages.size(), {tag, VIP_FALSE, VIP_FALSE});
    pages.map_again();
    EXPECT_EQ(1u, nic.statistics().Invalidated);
    REQUIRE_VIP(VipDestroyPtag(nic, tag)); // the cache's next call would have ended the region
}

TEST_CASE("memory that goes while it is in use stays registered until it is released",
          "[VipxReleaseMem][cache][posix][watch]")
{
    const CachingNic nic;
    Pages pages(kPages);
    const VIPX_REGISTRATION before = nic.acquire(pages.at(), pages.size());
    pages.map_again();
    EXPECT_EQ(1u, nic.statistics().InvalidatedInUse);
    VIP_MEM_ATTRIBUTES attributes{};
    REQUIRE_VIP(VipQueryMem(nic, pages.at(), before.Handle, &attributes));
    const VIPX_REGISTRATION after = nic.acquire(pages.at(), pages.size());
    EXPECT(after.Handle != before.Handle);
    nic.release(before);
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipQueryMem(nic, pages.at(), before.Handle, &attributes));
    nic.release(after);
    EXPECT(nic.has(pages.at(), pages.size()));
}

TEST_CASE("all caches of the process learn what has gone", "[VipxAcquireMem][cache][posix][watch]")
{
    const CachingNic first, second;
    Pages pages(kPages);
    first.cache(pages.at(), kPage);
    second.cache(pages.at(kPage), kPage);
    pages.map_again();
    EXPECT(!first.has(pages.at(), kPage));
    EXPECT(!second.has(pages.at(kPage), kPage));
}

TEST_CASE("a cache goes on when another has ended", "[VipCloseNic][cache][posix][watch]")
{
    const CachingNic staying;
    Pages pages(kPages);
    staying.cache(pages.at(), kPage);
    {
        const CachingNic going;
        going.cache(pages.at(), kPage);
    }
    EXPECT(staying.has(pages.at(), kPage));
    pages.map_again();
    EXPECT(!staying.has(pages.at(), kPage));
}

TEST_CASE("a program that unmaps while caches come and go does not hang",
          "[VipCloseNic][cache][posix][watch]")
{
    std::atomic<bool> over{false};
    std::thread unmapping([&] {
        Pages pages(kPages);
        const CachingNic nic;
        while (!over) {
            nic.cache(pages.at(), kPage);
            pages.map_again();
        }
    });
    Pages pages(kPages);
    for (int i = 0; i < 50; ++i) {
        const CachingNic nic;
        nic.cache(pages.at(), kPage);
        pages.map_again();
    }
    over = true;
    unmapping.join();
}

TEST_CASE("a mapping of which a part was acquired is moved and changed as a whole",
          "[VipxAcquireMem][cache][posix][watch]")
{
    const CachingNic nic;
    Pages pages(kPages);
    nic.cache(pages.at(kPage), kPage);
    EXPECT(mprotect(pages.at(), pages.size(), PROT_READ | PROT_WRITE) == 0);
    void *moved = mremap(pages.release(), pages.size(), 4 * pages.size(), MREMAP_MAYMOVE);
    EXPECT(moved != MAP_FAILED); // a system that saw two mappings would refuse
    EXPECT(!nic.has(static_cast<unsigned char *>(moved) + 4 * kPage, kPage));
    munmap(moved, 4 * pages.size());
}
