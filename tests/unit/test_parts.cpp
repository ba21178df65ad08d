// SPDX-License-Identifier: MIT
//
// Which parts of memory a program may read and write now and others can reach: what an adapter may
// access by itself.
#include <catch2/catch.hpp>

#include <vector>

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.hpp"

namespace {

constexpr unsigned kPages = 24;

/** Pages of which some are not to be read and written. */
struct Pages {
    Pages()
        : page(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))), bytes(kPages * page),
          base(static_cast<char *>(
              mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)))
    {
        REQUIRE(base != MAP_FAILED);
    }
    ~Pages() { munmap(base, bytes); }
    Pages(const Pages &) = delete;
    Pages &operator=(const Pages &) = delete;

    void protect(unsigned first, unsigned count, int rights) const
    {
        REQUIRE(mprotect(base + first * page, count * page, rights) == 0);
    }
    /** Of the bytes from `from` on, in words: where each part begins and how long it is. */
    std::vector<std::size_t> parts(std::size_t from, std::size_t length, unsigned most = 8) const
    {
        vipl_part found[kPages];
        std::vector<std::size_t> out;
        const unsigned count = vipl_plain_parts(base + from, length, found, most);
        for (unsigned i = 0; i < count; ++i) {
            out.push_back(found[i].first - reinterpret_cast<std::uintptr_t>(base));
            out.push_back(found[i].bytes);
        }
        return out;
    }

    std::size_t page, bytes;
    char *base;
};

using Parts = std::vector<std::size_t>;

} // namespace

TEST_CASE("memory that can be read and written is one part, to the byte", "[parts]")
{
    const Pages pages;
    const std::size_t page = pages.page;
    CHECK(pages.parts(100, page) == Parts{100, page});
    CHECK(pages.parts(100, 1) == Parts{100, 1});
    CHECK(pages.parts(0, pages.bytes) == Parts{0, pages.bytes});
    pages.protect(3, 1, PROT_READ | PROT_WRITE | PROT_EXEC); // several mappings, side by side
    CHECK(pages.parts(0, pages.bytes) == Parts{0, pages.bytes});
}

TEST_CASE("pages that cannot be read, cannot be written or are not there are left out", "[parts]")
{
    const Pages pages;
    const std::size_t page = pages.page;
    pages.protect(0, 1, PROT_NONE);
    pages.protect(2, 1, PROT_READ);
    pages.protect(kPages - 1, 1, PROT_NONE);
    CHECK(pages.parts(5, pages.bytes - 5) == Parts{page, page, 3 * page, (kPages - 4) * page});
    CHECK(pages.parts(0, page).empty());
    CHECK(pages.parts(2 * page + 8, 8).empty());
    REQUIRE(munmap(pages.base + 4 * page, page) == 0);
    CHECK(pages.parts(page, 5 * page) == Parts{page, page, 3 * page, page, 5 * page, page});
    CHECK(pages.parts(page, 5 * page, 2) == Parts{page, page, 3 * page, page}); // the first ones
    REQUIRE(mmap(pages.base + 4 * page, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
            pages.base + 4 * page); // nobody else gets the address
}

TEST_CASE("memory that is shown to the program alone is left out", "[parts]")
{
#ifdef SYS_memfd_secret
    const Pages pages;
    const std::size_t page = pages.page;
    const int file = static_cast<int>(syscall(SYS_memfd_secret, 0));
    if (file >= 0 && ftruncate(file, static_cast<off_t>(page)) == 0 &&
        mmap(pages.base + page, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) !=
            MAP_FAILED) {
        CHECK(pages.parts(0, 3 * page) == Parts{0, page, 2 * page, page});
    } else {
        WARN("the system has no secret memory: not tried");
    }
    close(file);
#else
    WARN("the system has no secret memory: not tried");
#endif
}
