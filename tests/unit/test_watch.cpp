// SPDX-License-Identifier: MIT
//
// The watch on memory that is taken away, where its own thread's memory is watched too: the system
// makes one mapping of a thread's stack and of memory beside it.
#include <catch2/catch.hpp>

#include <atomic>

#include "internal.hpp"

namespace {

std::atomic<std::uintptr_t> g_stack{0}; // an address on the watching thread's stack

/** Called once before vipl_watch_begin() returns. */
void note_stack(std::uintptr_t, std::uintptr_t)
{
    int here = 0;
    g_stack = reinterpret_cast<std::uintptr_t>(&here);
}

} // namespace

TEST_CASE("a watch that watches its own thread's stack ends", "[watch]")
{
    if (vipl_watch_begin(note_stack) != 0) {
        WARN("this system does not let a program watch its memory");
        return;
    }
    const auto within = static_cast<std::uintptr_t>(vipl_page_bytes()) - 1;
    const std::uintptr_t page = g_stack & ~within;
    CHECK(vipl_watch_add(page, page + within + 1) == 0);
    vipl_watch_end(); // the end of a thread gives its stack back
    SUCCEED("it has ended");
}
