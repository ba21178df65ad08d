// SPDX-License-Identifier: MIT
//
// The watch on memory that is taken away: where its own thread's memory is watched too (the system
// makes one mapping of a thread's stack and of memory beside it), and where another thread changes
// the mappings while memory is added, which is what a hook after each question where they end does.
#include <catch2/catch.hpp>

#include <array>
#include <atomic>
#include <cerrno>
#include <functional>
#include <utility>

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.hpp"

extern "C" {
int __real_vipl_private_extent(int maps, bool adjoining, std::uintptr_t *first, std::uintptr_t *end);
int __wrap_vipl_private_extent(int maps, bool adjoining, std::uintptr_t *first, std::uintptr_t *end);
}

namespace {

std::atomic<std::uintptr_t> g_stack{0}; // an address on the watching thread's stack
std::atomic<std::uintptr_t> g_gone{0};  // the first address of the last event
std::function<void()> g_after_question; // done once

/** Called once before vipl_watch_begin() returns. */
void note_stack(std::uintptr_t, std::uintptr_t)
{
    int here = 0;
    g_stack = reinterpret_cast<std::uintptr_t>(&here);
}

void note_gone(std::uintptr_t first, std::uintptr_t)
{
    g_gone = first;
}

/** The watch, if the system lets a program have one. */
class Watch {
public:
    explicit Watch(void (*gone)(std::uintptr_t, std::uintptr_t)) : works_(vipl_watch_begin(gone) == 0)
    {
        if (!works_) {
            WARN("this system does not let a program watch its memory");
        }
    }
    ~Watch()
    {
        if (works_) {
            vipl_watch_end();
        }
    }
    Watch(const Watch &) = delete;
    Watch &operator=(const Watch &) = delete;
    bool works() const { return works_; }

private:
    bool works_;
};

/** Addresses of the program's own, where it maps pages as it likes. What has no other mapping has
 * one without rights. */
class Space {
public:
    static constexpr std::size_t kPages = 64;

    Space() : at_(map(nullptr, kPages, PROT_NONE, 0)) {}
    ~Space() { munmap(at_, kPages * page()); }
    Space(const Space &) = delete;
    Space &operator=(const Space &) = delete;

    /** Makes a mapping of these pages, of which each is there. */
    unsigned char *put(std::size_t first, std::size_t end) const
    {
        unsigned char *pages = map(at(first), end - first, PROT_READ | PROT_WRITE, MAP_FIXED);
        for (std::size_t i = 0; i < end - first; ++i) {
            pages[i * page()] = 1;
        }
        return pages;
    }
    void take(std::size_t first, std::size_t end) const { map(at(first), end - first, PROT_NONE, MAP_FIXED); }
    /** Whether mremap() makes a mapping of these pages twice as long, wherever that is. */
    bool can_grow(std::size_t first, std::size_t end) const
    {
        const std::size_t bytes = (end - first) * page();
        void *moved = mremap(at(first), bytes, 2 * bytes, MREMAP_MAYMOVE);
        take(first, end);
        return moved != MAP_FAILED && munmap(moved, 2 * bytes) == 0;
    }
    unsigned char *at(std::size_t number) const { return at_ + number * page(); }
    std::uintptr_t address(std::size_t number) const { return reinterpret_cast<std::uintptr_t>(at(number)); }
    static std::size_t page() { return vipl_page_bytes(); }

private:
    static unsigned char *map(void *where, std::size_t pages, int rights, int flags)
    {
        void *at = mmap(where, pages * page(), rights, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
        REQUIRE(at != MAP_FAILED);
        return static_cast<unsigned char *>(at);
    }
    unsigned char *at_;
};

/** The first address of the last event, of those that have been read. */
std::uintptr_t gone()
{
    while (!vipl_watch_is_current(false)) {
        vipl_yield();
    }
    return g_gone;
}

/** A userfaultfd of the program's own; -1: the system refuses one. */
int watch_as_program(const Space &space, std::size_t first, std::size_t end)
{
    const auto fd = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | 1));
    uffdio_api api{};
    api.api = UFFD_API;
    uffdio_register range{};
    range.range = {space.address(first), space.address(end) - space.address(first)};
    range.mode = UFFDIO_REGISTER_MODE_MISSING;
    REQUIRE((fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0 && ioctl(fd, UFFDIO_REGISTER, &range) == 0));
    return fd;
}

} // namespace

int __wrap_vipl_private_extent(int maps, bool adjoining, std::uintptr_t *first, std::uintptr_t *end)
{
    const int error = __real_vipl_private_extent(maps, adjoining, first, end);
    if (g_after_question) {
        std::exchange(g_after_question, nullptr)();
    }
    return error;
}

TEST_CASE("a watch that watches its own thread's stack ends", "[watch]")
{
    {
        const Watch watch(note_stack);
        if (!watch.works()) {
            return;
        }
        const auto within = static_cast<std::uintptr_t>(vipl_page_bytes()) - 1;
        const std::uintptr_t page = g_stack & ~within;
        CHECK(vipl_watch_add(page, page + within + 1) == 0);
    } // the end of a thread gives its stack back
    SUCCEED("it has ended");
}

TEST_CASE("a mapping that comes across the end of one that is being watched can be made longer", "[watch]")
{
    const Watch watch(note_gone);
    if (!watch.works()) {
        return;
    }
    const bool before = GENERATE(true, false);
    const Space space;
    space.put(16, 32); // of two threads, each of which has mapped a half
    const std::size_t across = before ? 10 : 28;
    g_after_question = [&] { space.put(across, across + 10); };
    CHECK(vipl_watch_add(space.address(20), space.address(28)) == 0);
    CHECK(space.can_grow(across, across + 10));
}

TEST_CASE("memory that another thread has replaced meanwhile is watched", "[watch]")
{
    const Watch watch(note_gone);
    if (!watch.works()) {
        return;
    }
    const Space space;
    space.put(16, 32);
    g_after_question = [&] {
        space.take(16, 20);
        space.put(10, 20);
    };
    CHECK(vipl_watch_add(space.address(22), space.address(26)) == 0);
    space.take(12, 13);
    CHECK(gone() == space.address(12));
    space.take(24, 25);
    CHECK(gone() == space.address(24));
}

TEST_CASE("memory beside what the program watches itself is watched", "[watch]")
{
    const Watch watch(note_gone);
    if (!watch.works()) {
        return;
    }
    const bool before = GENERATE(true, false);
    const Space space;
    space.put(16, 32);
    const int own = watch_as_program(space, before ? 16 : 24, before ? 24 : 32);
    const std::size_t ours = before ? 24 : 16;
    CHECK(vipl_watch_add(space.address(ours), space.address(ours + 8)) == 0);
    CHECK(vipl_watch_add(space.address(40 - ours), space.address(48 - ours)) == EBUSY);
    space.take(ours, ours + 1);
    CHECK(gone() == space.address(ours));
    close(own);
}

TEST_CASE("the kernel's answer about mappings is what its list says", "[watch]")
{
    const int none = -1; // for which the list is read
    int maps = -1;
    REQUIRE(vipl_maps_open(&maps) == 0);
    const Space space;
    space.put(16, 24);
    space.put(24, 32);
    REQUIRE(mprotect(space.at(12), 4 * Space::page(), PROT_READ) == 0);
    REQUIRE(mprotect(space.at(24), 4 * Space::page(), PROT_READ) == 0);
    const bool adjoining = GENERATE(false, true);
    for (std::size_t first = 8; first < 36; ++first) {
        for (std::size_t end = first + 1; end <= 36; ++end) {
            std::array<std::uintptr_t, 2> asked{space.address(first), space.address(end)};
            std::array<std::uintptr_t, 2> read = asked;
            CHECK(vipl_private_extent(maps, adjoining, &asked[0], &asked[1]) == 0);
            CHECK(vipl_private_extent(none, adjoining, &read[0], &read[1]) == 0);
            CHECK(asked[0] == read[0]);
            CHECK(asked[1] == read[1]);
            CHECK(asked[0] <= space.address(first));
            CHECK(asked[1] >= space.address(end));
        }
    }
    vipl_fd_close(maps);
}
